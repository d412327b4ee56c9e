"""The relay: acts as a kernel for its clients, and as a client of the shared kernel.

A program that launches a kernelspec's argv gets a process that behaves like a kernel: it uses the
program's connection file and key, and ends on request. The relay forwards messages to the shared
kernel and the kernel's messages back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import zmq
from tornado.ioloop import IOLoop

from tk_ai_extension.kernels.sharing.kernel_connection import (
    Envelope,
    ForgedMessage,
    SharedKernelConnection,
)
from tk_ai_extension.kernels.sharing.share import CHANNELS, Channel, Connection, NoConnection, Share
from tk_ai_extension.kernels.sockets import SocketReader, client_context

log = logging.getLogger(__name__)

GRACE = 30.0
"""Grace period in seconds in which the owner may restart a kernel that is gone: `service.READY_TIMEOUT`."""

POLL_INTERVAL = 0.1
"""Seconds between checks of the connection file of a kernel that is gone."""

LINGER = 500
"""Milliseconds in which the last replies are sent when the relay ends."""

PROMPT_INTERVAL = 0.05
"""Seconds between attempts to send input_request to a client whose stdin is not connected yet."""

SEND_HIGH_WATER_MARK = 100_000
"""SNDHWM: messages that are queued for a slow client; further ones are dropped."""

RECONNECT_TIME = 0.25
"""Seconds in which clients from before a restart reconnect all their channels.

ZMQ_RECONNECT_IVL is 100 ms, plus a random time of up to as much.
"""

INTERRUPT_DELAY = 0.1
"""Seconds in which an interrupt may prove to be the start of a shutdown.

jupyter_client interrupts a kernel before it shuts it down or kills its process. Forwarded, that interrupt
would stop another client's code.
"""

MAX_QUEUED_BYTES = 32 * 1024 * 1024
"""Bytes of clients' messages that are queued until the kernel answers; beyond it requests are refused."""


@dataclass(frozen=True, slots=True)
class RelayExit:
    """Why a relay has ended.

    Attributes:
        reason: A sentence for people.
        code: The exit status of its process: 0 if it was stopped on request.
    """

    reason: str
    code: int


@dataclass(frozen=True, slots=True)
class _Request:
    """A client's request that awaits its reply."""

    channel: Channel
    envelope: Envelope


class Relay:
    """Relays between clients and a shared kernel, through restarts of the kernel.

    Clients can do everything with the kernel that its owner's clients can, except shut it down:
    ``shutdown_request`` is answered here.

    Args:
        front: The addresses to listen on, and the clients' key.
        share: The shared kernel.
        grace: Grace period in seconds in which a kernel that is gone may be restarted.
    """

    def __init__(
        self,
        front: Connection,
        share: Share,
        *,
        grace: float = GRACE,
    ) -> None:
        self._front = front
        self._session: Any = front.session()
        self._share = share
        self._grace = grace
        self._context = client_context()
        self._context.setsockopt(zmq.SNDHWM, SEND_HIGH_WATER_MARK)
        self._sockets: dict[Channel, zmq.Socket[bytes]] = {}
        self._readers: dict[Channel, SocketReader] = {}
        self._kernel: SharedKernelConnection | None = None
        self._opened_at = 0.0
        self._is_serving = False
        self._queued: list[_Request] = []
        self._queued_bytes = 0
        self._waiting: dict[str, _Request] = {}
        self._refused = 0
        self._ended: asyncio.Future[RelayExit] = asyncio.get_running_loop().create_future()

    def open(self) -> None:
        """Listen for clients.

        Raises:
            NoConnection: an address is in use or invalid.
        """
        try:
            for channel in CHANNELS:
                kind = zmq.PUB if channel == "iopub" else zmq.ROUTER
                socket: zmq.Socket[bytes] = self._context.socket(kind)
                if kind == zmq.ROUTER:
                    # A client that reconnects with its identity replaces its old connection.
                    socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
                if channel == "stdin":
                    # Raise EHOSTUNREACH for a client that is not connected instead of dropping.
                    socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
                self._sockets[channel] = socket
                if channel != "iopub":
                    self._readers[channel] = SocketReader(socket, self._message_handler(channel))
                socket.bind(self._front.address(channel))
            self._opened_at = asyncio.get_running_loop().time()
        except zmq.ZMQError as problem:
            self._close()
            raise NoConnection(f"Cannot listen at {self._front.ip}: {problem.strerror}.") from None

    async def run(self) -> RelayExit:
        """Relay until `stop` is called or the kernel is gone for good; return why it ended."""
        following = asyncio.ensure_future(self._follow())
        try:
            await asyncio.wait({following, self._ended}, return_when=asyncio.FIRST_COMPLETED)
            ended = self._ended.result() if self._ended.done() else following.result()
        finally:
            following.cancel()
            await asyncio.wait({following})
            self._disconnect()
            self._close()
        log.info("Ended: %s", ended.reason)
        return ended

    def stop(self, reason: str) -> None:
        """End the relay; the kernel keeps running."""
        if not self._ended.done():
            self._ended.set_result(RelayExit(reason, 0))

    def interrupt(self) -> None:
        """Interrupt the kernel, for a program that can only send signals."""
        if self._kernel is not None and self._kernel.connected.is_set():
            self._kernel.ask("interrupt_request")

    # --- the kernel's side

    async def _follow(self) -> RelayExit:
        """Stay connected to the kernel, and reconnect to the one that replaces it."""
        while True:
            kernel = await self._find_kernel()
            if kernel is None:
                return self._gone()
            ready = asyncio.ensure_future(kernel.ready.wait())
            lost = asyncio.ensure_future(kernel.lost.wait())
            try:
                await asyncio.wait({ready, lost}, return_when=asyncio.FIRST_COMPLETED)
                if not kernel.lost.is_set():
                    await self._begin_serving()
                    log.info("Relaying to %s", kernel.connection.address("shell"))
                    held, self._queued, self._queued_bytes = self._queued, [], 0
                    for request in held:
                        self._forward(request)
                    await lost
            finally:
                ready.cancel()
                lost.cancel()
            log.info("The kernel is gone; waiting %g s for a restart", self._grace)
            self._disconnect()
            waiting, self._waiting = self._waiting, {}
            for request in waiting.values():
                self._fail_request(request, "The shared kernel was restarted, or died.")

    def _gone(self) -> RelayExit:
        """Return why no kernel was found."""
        if self._share.is_withdrawn():
            return RelayExit("The kernel is no longer shared.", 0)
        if not self._share.path.exists():
            return RelayExit(f"The kernel is gone: {self._share.path} is a dead link.", 1)
        late = f"The kernel of {self._share.path} did not answer within {self._grace:g} s."
        return RelayExit(late, 1)

    async def _begin_serving(self) -> None:
        """Wait until clients have subscribed to iopub, so that they miss no output.

        Publish "starting", as a kernel does: a program may have missed the end of its last cell.
        """
        if self._is_serving:
            return
        await asyncio.sleep(self._opened_at + RECONNECT_TIME - asyncio.get_running_loop().time())
        content = {"execution_state": "starting"}
        self._session.send(self._sockets["iopub"], "status", content, ident=b"status")
        self._is_serving = True

    async def _find_kernel(self) -> SharedKernelConnection | None:
        """Connect to the shared kernel; return None if there is none within the grace period."""
        clock = asyncio.get_running_loop().time
        until = clock() + self._grace
        while clock() < until and not self._share.is_withdrawn():
            try:
                connection = self._share.read()
            except NoConnection:
                connection = None
            if self._kernel is not None and self._kernel.connection != connection:
                self._disconnect()
            if self._kernel is None and connection is not None:
                self._kernel = SharedKernelConnection(self._context, connection, self._to_client)
            # Poll: a file that does not exist yet cannot be watched. Bounded by the grace period.
            connected = asyncio.Event() if self._kernel is None else self._kernel.connected
            try:
                await asyncio.wait_for(connected.wait(), POLL_INTERVAL)
            except TimeoutError:
                continue
            return self._kernel
        return None

    def _disconnect(self) -> None:
        if self._kernel is not None:
            self._kernel.close()
            self._kernel = None

    def _to_client(self, channel: Channel, envelope: Envelope) -> None:
        if channel == "stdin":
            self._prompt(envelope)
            return
        if channel in {"shell", "control"} and self._kernel is not None:
            self._waiting.pop(envelope.answers(self._kernel.session), None)
        self._send(channel, envelope.signed(self._session))

    def _send(self, channel: Channel, parts: list[bytes]) -> None:
        self._sockets[channel].send_multipart(parts)
        if channel in self._readers:
            # ZMQ_FD is edge-triggered, and sending can consume the edge of a message that arrived.
            self._readers[channel].schedule_read()

    def _prompt(self, envelope: Envelope) -> None:
        """Send an input_request once its client's stdin is connected, while the request is pending.

        A client's sockets connect one after another, and no event reports when.
        """
        if self._kernel is None or envelope.answers(self._kernel.session) not in self._waiting:
            return
        try:
            self._send("stdin", envelope.signed(self._session))
        except zmq.ZMQError as problem:
            if problem.errno != zmq.EHOSTUNREACH:
                raise
            self._readers["stdin"].schedule_read()
            loop: Any = IOLoop.current()
            loop.call_later(PROMPT_INTERVAL, self._prompt, envelope)

    # --- the clients' side

    def _message_handler(self, channel: Channel) -> Any:
        if channel == "hb":
            return self._echo

        def read(parts: list[bytes]) -> None:
            try:
                self._from_client(_Request(channel, Envelope.open(self._session, parts)))
            except ForgedMessage as forged:
                self._refuse(channel, forged)

        return read

    def _echo(self, parts: list[bytes]) -> None:
        # The relay answers heartbeats itself: it ends when the kernel does.
        self._send("hb", parts)

    def _refuse(self, channel: Channel, forged: ForgedMessage) -> None:
        self._refused += 1
        # Log only at powers of two: a flood must not fill the disk.
        if self._refused.bit_count() == 1:
            log.warning("Refused message %d on %s: %s", self._refused, channel, forged)

    def _interrupt_for_client(self, request: _Request) -> None:
        if not self._ended.done():
            self._from_client(request, is_due=True)

    def _from_client(self, request: _Request, *, is_due: bool = False) -> None:
        if request.envelope.kind == "shutdown_request":
            self._shut_down(request)
        elif request.envelope.kind == "interrupt_request" and not is_due:
            asyncio.get_running_loop().call_later(
                INTERRUPT_DELAY, self._interrupt_for_client, request
            )
        elif self._kernel is None or not self._kernel.ready.is_set() or not self._is_serving:
            self._queue_request(request)
        else:
            self._forward(request)

    def _queue_request(self, request: _Request) -> None:
        """Queue a message until the kernel answers; refuse it if the queue is full."""
        size = sum(map(len, request.envelope.body))
        if self._queued_bytes + size > MAX_QUEUED_BYTES:
            log.warning("Refused a message: %d MB are queued", MAX_QUEUED_BYTES >> 20)
            if request.envelope.kind.endswith("_request"):
                self._fail_request(
                    request, "The shared kernel does not answer, and too many requests are queued."
                )
            return
        self._queued.append(request)
        self._queued_bytes += size

    def _forward(self, request: _Request) -> None:
        assert self._kernel is not None
        if request.envelope.kind.endswith("_request"):
            # A reply needs only the header and the identities, so drop the body.
            envelope = replace(request.envelope, body=[])
            self._waiting[envelope.id] = _Request(request.channel, envelope)
        self._kernel.send(request.channel, request.envelope)

    def _shut_down(self, request: _Request) -> None:
        """Answer a client's shutdown_request: only its relay ends, not the shared kernel."""
        log.info("A client requested a shutdown; the kernel keeps running")
        content: Any = self._session.unpack(request.envelope.body[3])
        restart = isinstance(content, dict) and content.get("restart") is True
        self._reply(request, "shutdown_reply", {"status": "ok", "restart": restart})
        self.stop("A client shut the relay down; the kernel keeps running.")

    def _fail_request(self, request: _Request, reason: str) -> None:
        """Answer a request with an error, because the kernel will not answer it."""
        kind = request.envelope.kind
        error: dict[str, Any] = {"ename": "KernelGone", "evalue": reason, "traceback": []}
        if kind == "execute_request":
            self._publish(request, "error", error)
        self._reply(request, kind.replace("_request", "_reply"), {"status": "error", **error})
        self._publish(request, "status", {"execution_state": "idle"})

    def _reply(self, request: _Request, kind: str, content: Mapping[str, Any]) -> None:
        parent = {"header": request.envelope.header}
        socket = self._sockets[request.channel]
        self._session.send(socket, kind, dict(content), parent, ident=request.envelope.identities)
        self._readers[request.channel].schedule_read()

    def _publish(self, request: _Request, kind: str, content: Mapping[str, Any]) -> None:
        parent = {"header": request.envelope.header}
        socket = self._sockets["iopub"]
        self._session.send(socket, kind, dict(content), parent, ident=kind.encode())

    def _close(self) -> None:
        for reader in self._readers.values():
            reader.close(linger=LINGER)
        if (socket := self._sockets.get("iopub")) is not None:
            socket.close(linger=LINGER)
        self._context.destroy(linger=0)
