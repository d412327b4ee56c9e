"""Line-based connections for `nb`: commands, and MCP as over stdio.

A GET with ``Upgrade: tk-ai-ndjson``, or with a WebSocket of that protocol, becomes a connection that
carries lines in both directions; the client sends first.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tornado.ioloop import PeriodicCallback
from tornado.iostream import IOStream, StreamClosedError
from tornado.websocket import WebSocketProtocol13

from tk_ai_extension.cli.connecting import PROTOCOL, TOKEN_HEADER
from tk_ai_extension.cli.websocket import (
    BINARY,
    CLOSE,
    CONTINUED,
    PING,
    PONG,
    TEXT,
    Frames,
    FrameTooLong,
    frame,
    pieces,
)
from tk_ai_extension.cli.wire import LONGEST_LINE
from tk_ai_extension.mcp import McpClient
from tk_ai_extension.model.callers import Caller, checked_key
from tk_ai_extension.server.handlers.handler import RouteError, TkAIHandler, allowed
from tk_ai_extension.server.users import username

if TYPE_CHECKING:
    from tk_ai_extension.cli.servers import Server


CHUNK = 1 << 16

HEARTBEAT = 15.0
"""Interval of pings, in seconds: proxies drop idle connections."""
MAX_UNANSWERED = 5_760
"""Pings without an answer after which a client is gone: a day, for laptops that sleep and commands that
are suspended."""


class LineTooLong(ValueError):
    """A line is longer than `LONGEST_LINE`; the connection cannot be read further."""


class WebSocketStream:
    """The stream of bytes in a WebSocket, with the methods of `IOStream` that a `LineStream` uses.

    It pings its client, and ends if the client has not answered `MAX_UNANSWERED` of them.

    Args:
        stream: Where the WebSocket was opened.
    """

    def __init__(self, stream: IOStream) -> None:
        self._stream = stream
        self._reading = False
        self._unanswered = 0
        """Pings since the client was last known to be there; counted while its answers are read."""
        self._heartbeat = PeriodicCallback(self._beat, HEARTBEAT * 1_000)
        self._heartbeat.start()
        self._frames = Frames()
        self._received = bytearray()
        self._ended = False
        self.socket = stream.socket

    def set_nodelay(self, value: bool) -> None:
        """See `IOStream.set_nodelay`."""
        self._stream.set_nodelay(value)

    async def read_bytes(self, count: int, partial: bool = True) -> bytes:
        """Return what was received, at least one byte.

        Raises:
            StreamClosedError: the client has disconnected, or sends no more.
        """
        assert partial
        while not self._received:
            if self._ended:
                raise StreamClosedError
            self._reading, self._unanswered = True, 0
            try:
                self._take(await self._stream.read_bytes(count, partial=True))
            except FrameTooLong:
                self._ended = True
            finally:
                self._reading = False
        data = bytes(self._received)
        self._received.clear()
        return data

    def _take(self, data: bytes) -> None:
        for opcode, payload in self._frames.read(data):
            if opcode == PING:
                self._stream.write(frame(PONG, payload, masked=False)).add_done_callback(_retrieve)
            elif opcode in (CONTINUED, TEXT, BINARY) and payload:
                self._received += payload
            elif opcode != PONG:
                self._ended = True

    def write(self, data: bytes) -> asyncio.Future[None]:
        """See `IOStream.write`."""
        return self._stream.write(pieces(data, masked=False))

    def _beat(self) -> None:
        """Send a ping, or end the stream if nobody answers."""
        if self._stream.closed():
            self._heartbeat.stop()
        elif self._reading and self._unanswered >= MAX_UNANSWERED:
            self._stream.close()
        else:
            self._unanswered += self._reading
            self._stream.write(frame(PING, b"", masked=False)).add_done_callback(_retrieve)

    def close(self) -> None:
        """Close the WebSocket."""
        self._heartbeat.stop()
        if not self._stream.closed():
            self._stream.write(frame(CLOSE, b"", masked=False)).add_done_callback(_retrieve)
        self._stream.close()


class LineStream:
    """Line-based connection."""

    def __init__(self, stream: IOStream | WebSocketStream) -> None:
        self.stream = stream
        self._received = bytearray()
        self._searched = 0
        stream.set_nodelay(True)

    async def read_line(self) -> bytes:
        """Return the next line with its newline; at the end the remainder, then an empty string.

        Raises:
            LineTooLong: the line is too long.
        """
        while (end := self._received.find(b"\n", self._searched)) < 0:
            self._searched = len(self._received)
            if self._searched > LONGEST_LINE:
                raise LineTooLong
            try:
                self._received += await self.stream.read_bytes(CHUNK, partial=True)
            except StreamClosedError:
                end = len(self._received) - 1
                break
        if end > LONGEST_LINE:
            raise LineTooLong
        line = bytes(self._received[: end + 1])
        del self._received[: end + 1]
        self._searched = 0
        return line

    def write(self, data: bytes) -> None:
        """Send data; ignored after a disconnect."""
        with suppress(StreamClosedError):
            self.stream.write(data).add_done_callback(_retrieve)

    async def drain(self) -> None:
        """Wait until all data is sent, or the client has disconnected."""
        with suppress(StreamClosedError):
            await self.stream.write(b"")

    def keep_open(self) -> None:
        """Keep the connection open until this process exits, unless the client has disconnected."""
        connection: Any = self.stream.socket
        if connection is not None:
            os.dup(connection.fileno())

    def close(self) -> None:
        """Close the connection."""
        self.stream.close()


def _retrieve(sent: asyncio.Future[None]) -> None:
    if not sent.cancelled():
        sent.exception()  # disconnected: the next read reports it


class UpgradeHandler(TkAIHandler):
    """A route whose GET is upgraded to a line-based connection."""

    @contextmanager
    def upgraded(self) -> Generator[LineStream]:
        """Take over the connection and close it at the end; a stop of the server cancels the block.

        Raises:
            RouteError: 426, the request has no such upgrade.
        """
        headers = self.request.headers
        protocol = headers.get("Upgrade", "").lower()
        key = headers.get("Sec-WebSocket-Key", "")
        is_websocket = (
            protocol == "websocket"
            and bool(key)
            and headers.get("Sec-WebSocket-Protocol") == PROTOCOL
        )
        if protocol != PROTOCOL and not is_websocket:
            raise RouteError(426, f"This route requires the header `Upgrade: {PROTOCOL}`.")
        self.update_api_activity()
        task = asyncio.current_task()
        assert task is not None
        stream = self.detach()
        head = f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n"
        if is_websocket:
            accepted = WebSocketProtocol13.compute_accept_value(key)
            head += f"Sec-WebSocket-Accept: {accepted}\r\nSec-WebSocket-Protocol: {PROTOCOL}\r\n"
        stream.write(f"{head}\r\n".encode()).add_done_callback(_retrieve)
        connection = stream.socket
        if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
            # The system finds out after some hours that a client has vanished.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        lines = LineStream(WebSocketStream(stream) if is_websocket else stream)
        self.services.streams.add(task)
        try:
            yield lines
        finally:
            self.services.streams.discard(task)
            lines.close()

    def refuses(self) -> bool:
        """Whether the project's server is stopping; the connection is closed then.

        Without an answer, `nb` connects to the next server, as after the end of this one.
        """
        if not self.services.is_stopping:
            return False
        self.detach().close()
        return True

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Send an error; a 426 names the protocol (RFC 9110, 15.5.22)."""
        if status_code == 503 and self.refuses():
            return
        if status_code == 426:
            self.set_header("Upgrade", PROTOCOL)
        super().write_error(status_code, **kwargs)

    def redirect_to(self, server: Server) -> None:
        """Respond with another server's address and token."""
        self.set_status(307)
        self.set_header("Location", server.url)
        self.set_header(TOKEN_HEADER, server.token)
        self.finish()


class CommandsHandler(UpgradeHandler):
    """Runs commands of `nb`; see `cli.wire`."""

    @allowed("execute")
    async def get(self) -> None:
        """Run the command in the first line."""
        services = self.services
        services.calls += 1
        try:
            commands = await services.commands()
            if self.refuses():
                return
            with self.upgraded() as lines:
                await commands.answer(lines, username(self))
        finally:
            services.calls -= 1


class StdioMcpHandler(UpgradeHandler):
    """MCP with one message per line, as over stdio."""

    @allowed("execute")
    async def get(self) -> None:
        """Serve one client: ``?toolsets=``, ``?mode=`` and ``?caller=`` as `nb mcp` takes them."""
        services = self.services
        services.calls += 1
        try:
            mcp = await services.mcp()
        finally:
            services.calls -= 1
        if self.refuses():
            return
        from tk_ai_extension.mcp.requests import in_mode
        from tk_ai_extension.mcp.stdio import serve_stdio

        registry = services.registries.get(self.get_query_argument("toolsets", None))
        key = checked_key(self.get_query_argument("caller", None))
        caller = Caller(user=username(self), key=key or uuid4().hex, interface="mcp")
        caller = in_mode(caller, self.get_query_argument("mode", None))
        client = McpClient(caller.user, registry, key=caller.key, mode=caller.mode)
        attached = None if services.project is None else services.project.ownership.attached
        if attached is not None:
            self.redirect_to(attached)
            return
        if key is not None and services.project is not None:
            # Its state outlasts the connection.
            services.project.is_temporary = False
        with self.upgraded() as lines:
            try:
                await serve_stdio(mcp, client, lines)
            finally:
                if key is None:
                    services.workspace.forget(caller)


UPGRADE_ROUTES: tuple[tuple[str, type[UpgradeHandler]], ...] = (
    (r"api/tk-ai/commands", CommandsHandler),
    (r"api/tk-ai/mcp/stdio", StdioMcpHandler),
)
"""Patterns below ``base_url`` of line-based connections, like `handlers.routes.ROUTES`."""
