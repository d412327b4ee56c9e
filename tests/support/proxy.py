"""A TCP proxy for network faults: dropped, blackholed and refused connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

Rewrite = Callable[[bytes], bytes]
"""Changes the head of a request."""


@dataclass
class ProxiedConnection:
    """One connection: its request and all later data."""

    line: str
    sent: bytearray = field(default_factory=bytearray)


@dataclass
class Refusal:
    """Responses of the proxy itself.

    Attributes:
        line: Prefix of refused request lines: ``POST /api/kernels``.
        status: The HTTP status and its reason.
        times: Number of refused requests; None for all.
        too_late: Whether the server has handled the request before: a gateway timeout.
    """

    line: str
    status: str
    times: int | None = None
    too_late: bool = False


class Proxy:
    """Forwards TCP connections to one server, with one request each, as tornado's client makes them."""

    def __init__(self, target: str) -> None:
        address = urlsplit(target)
        self._target = (address.hostname or "", address.port or 80)
        self._server: asyncio.Server | None = None
        self._port = 0
        self._connections: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.requests: list[ProxiedConnection] = []
        """Requests that were forwarded or refused."""
        self.refusals: list[Refusal] = []
        self.rewrite: Rewrite = _as_it_is
        self._arrived = asyncio.Condition()

    @property
    def url(self) -> str:
        """Its address; ends in a slash."""
        return f"http://127.0.0.1:{self._port}/"

    async def open(self) -> None:
        """Listen, always on the same port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        self._flowing.set()

    async def close(self) -> None:
        """Stop listening and drop all connections: new ones are refused."""
        if self._server is not None:
            self._server.close()
            self._server = None
        await self.cut()

    async def cut(self) -> None:
        """Drop all connections, even in the middle of a message; new ones are forwarded."""
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    async def restore(self) -> None:
        """Listen and forward everything again, and clear the recorded requests."""
        self.requests.clear()
        self.refusals.clear()
        self.rewrite = _as_it_is
        self._flowing.set()
        if self._server is None:
            await self.open()

    def swallow(self) -> None:
        """Blackhole: forward nothing and close nothing, as a network that has lost the other end."""
        self._flowing.clear()

    def seen(self, line: str) -> int:
        """Return the number of requests with this method and path."""
        return sum(request.line.startswith(f"{line} ") for request in self.requests)

    async def asked(self, line: str) -> None:
        """Wait for a request with this method and path."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: self.seen(line))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._pass_on(reader, writer)
        except (asyncio.CancelledError, ConnectionError, asyncio.IncompleteReadError):
            writer.transport.abort()  # dropped
        finally:
            self._connections.discard(task)
            writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        request = ProxiedConnection(head.partition(b"\r\n")[0].decode())
        self.requests.append(request)
        async with self._arrived:
            self._arrived.notify_all()
        refusal = self._refusal_of(request.line)
        if refusal is not None and not refusal.too_late:
            await _answer(writer, refusal)
            return
        there, back = await asyncio.open_connection(*self._target)
        try:
            back.write(self.rewrite(head))
            if refusal is not None:
                sending = asyncio.create_task(self._pump(reader, back, request.sent))
                await there.read(1)  # it is done
                sending.cancel()
                await _answer(writer, refusal)
                return
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, back, request.sent))
                group.create_task(self._pump(there, writer))
        except* ConnectionError:
            writer.transport.abort()
        finally:
            back.transport.abort()

    async def _pump(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        kept: bytearray | None = None,
    ) -> None:
        while data := await source.read(65536):
            await self._flowing.wait()
            if kept is not None:
                kept += data
            sink.write(data)
            await sink.drain()
        with contextlib.suppress(OSError):
            sink.write_eof()

    def _refusal_of(self, line: str) -> Refusal | None:
        for refusal in self.refusals:
            if refusal.times == 0 or not line.startswith(f"{refusal.line} "):
                continue
            if refusal.times is not None:
                refusal.times -= 1
            return refusal
        return None


async def _answer(writer: asyncio.StreamWriter, refusal: Refusal) -> None:
    head = f"HTTP/1.1 {refusal.status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    writer.write(head.encode())
    await writer.drain()


def _as_it_is(head: bytes) -> bytes:
    return head


@asynccontextmanager
async def proxy_to(target: str) -> AsyncGenerator[Proxy]:
    """Run a proxy in front of the server at this address."""
    proxy = Proxy(target)
    await proxy.open()
    try:
        yield proxy
    finally:
        await proxy.close()
