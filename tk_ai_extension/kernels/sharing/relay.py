"""The relay: acts as a kernel for its clients, and as a client of the shared kernel.

A program that launches a kernelspec's argv gets a process that behaves like a kernel: it uses the
program's connection file and key, and ends on request. Each message's signature is verified with one key,
and the message is signed with the other; its identity frames are kept, so that each client gets its own
replies.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast
from uuid import uuid4

import zmq
import zmq.asyncio
from jupyter_client.session import DELIM, Session
from zmq.utils.monitor import recv_monitor_message

from tk_ai_extension.kernels.sharing.share import Connection, NoConnection, Share

log = logging.getLogger(__name__)

GRACE = 30.0
"""Grace period in seconds in which the owner may restart a kernel that is gone: `service.READY_TIMEOUT`."""

POLL_INTERVAL = 0.1
"""Seconds between checks of the connection file of a kernel that is gone."""

NUDGE_INTERVAL = 0.25
"""Seconds after which a kernel_info request is repeated while iopub is not subscribed."""

PROMPT_INTERVAL = 0.05
"""Seconds between attempts to send input_request to a client whose stdin is not connected yet."""

INTERRUPT_DELAY = 0.1
"""Seconds in which an interrupt may prove to be the start of a shutdown.

jupyter_client interrupts a kernel before it shuts it down or kills its process. Forwarded, that interrupt
would stop another client's code.
"""

SEND_HIGH_WATER_MARK = 100_000
"""SNDHWM: messages that are queued for a slow client; further ones are dropped."""

LINGER = 500
"""Milliseconds in which the last replies are sent when the relay ends."""

MAX_WAITING = 1000
"""Requests that wait for a kernel that does not answer; further ones are refused."""

Socket = zmq.asyncio.Socket


@dataclass(frozen=True, slots=True)
class Message:
    """A message with a verified signature.

    Attributes:
        channel: Where it was received.
        identities: The routing prefix back to the sender; on iopub the topic.
        body: Header, parent header, metadata, content and buffers, as received.
        header: The unpacked header.
        parent: The id of the request that it answers; empty if there is none.
    """

    channel: str
    identities: list[bytes]
    body: list[bytes]
    header: Mapping[str, Any]
    parent: str

    @classmethod
    def open(cls, session: Session, channel: str, frames: list[bytes]) -> Message | None:
        """Verify a received message; return None if it must not be used."""
        try:
            identities, parts = cast("Any", session.feed_identities(frames))
            opened: Any = session.deserialize(parts, content=False)
            parent = str(opened["parent_header"].get("msg_id", ""))
            return cls(channel, identities, parts[1:], opened["header"], parent)
        except (ValueError, TypeError, KeyError, AttributeError) as problem:
            log.warning("Refused a message on %s: %s", channel, problem)
            return None

    @property
    def kind(self) -> str:
        """The message's type, such as ``execute_request``."""
        return str(self.header.get("msg_type", ""))

    def signed(self, session: Session) -> list[bytes]:
        """Return the frames of the message, signed with a session's key."""
        signature: bytes = session.sign(self.body[:4])
        return [*self.identities, DELIM, signature, *self.body]


class Relay:
    """Relays between clients and a shared kernel, through restarts of the kernel.

    Clients can do everything with the kernel that its owner's clients can, except shut it down:
    ``shutdown_request`` is answered here.

    Args:
        front: The addresses to listen on, and the clients' key.
        share: The shared kernel.
        grace: Grace period in seconds in which a kernel that is gone may be restarted.
    """

    def __init__(self, front: Connection, share: Share, *, grace: float = GRACE) -> None:
        self._front = front
        self._session = front.session()
        self._share = share
        self._grace = grace
        self._context = zmq.asyncio.Context()
        self._sockets: dict[str, Socket] = {}
        self._kernel: _SharedKernel | None = None
        self._ready = asyncio.Event()
        self._held: list[Message] = []
        self._waiting: dict[str, Message] = {}
        self._ended: asyncio.Future[tuple[str, int]] = asyncio.get_running_loop().create_future()

    async def run(self) -> tuple[str, int]:
        """Relay until `stop` is called or the kernel is gone for good.

        Returns:
            Why it ended, a sentence, and the exit status: 0 if it was stopped on request.

        Raises:
            NoConnection: an address is in use or invalid.
        """
        try:
            self._bind()
            work = {asyncio.ensure_future(self._follow()), asyncio.ensure_future(self._echo())}
            for channel in ("shell", "control", "stdin"):
                work.add(asyncio.ensure_future(self._from_clients(channel)))
            try:
                done, _ = await asyncio.wait(
                    {*work, self._ended}, return_when=asyncio.FIRST_COMPLETED
                )
                for each in done:
                    each.result()
            finally:
                for task in work:
                    task.cancel()
                await asyncio.wait(work)
            log.info("Ended: %s", self._ended.result()[0])
            return self._ended.result()
        finally:
            self._context.destroy(linger=LINGER)

    def stop(self, reason: str, code: int = 0) -> None:
        """End the relay; the kernel keeps running."""
        if not self._ended.done():
            self._ended.set_result((reason, code))

    def interrupt(self) -> None:
        """Interrupt the kernel, for a program that can only send signals."""
        if self._kernel is not None:
            self._kernel.ask("interrupt_request")

    def _bind(self) -> None:
        try:
            for channel in ("shell", "iopub", "stdin", "control", "hb"):
                socket = self._context.socket(zmq.PUB if channel == "iopub" else zmq.ROUTER)
                self._sockets[channel] = socket
                socket.setsockopt(zmq.SNDHWM, SEND_HIGH_WATER_MARK)
                if channel != "iopub":
                    # A client that reconnects with its identity replaces its old connection.
                    socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
                if channel == "stdin":
                    # Raise EHOSTUNREACH for a client that is not connected instead of dropping.
                    socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
                socket.bind(self._front.address(channel))
        except zmq.ZMQError as problem:
            where = self._front.info["ip"]
            raise NoConnection(f"Cannot listen at {where}: {problem.strerror}.") from None

    # --- the kernel's side

    async def _follow(self) -> None:
        """Stay connected to the kernel, and reconnect to the one that replaces it."""
        while (kernel := await self._find_kernel()) is not None:
            tasks = [
                asyncio.ensure_future(self._from_kernel(kernel, each)) for each in kernel.sockets
            ]
            lost = asyncio.ensure_future(kernel.lost.wait())
            tasks += [lost, asyncio.ensure_future(self._serve(kernel, lost))]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for each in done:
                    each.result()
            finally:
                self._ready.clear()
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                kernel.close()
                self._kernel = None
            log.info("The kernel is gone; waiting %g s for a restart", self._grace)
            waiting, self._waiting = self._waiting, {}
            for request in waiting.values():
                self._fail(request, "The shared kernel was restarted, or died.")
        if self._share.is_withdrawn():
            self.stop("The kernel is no longer shared.")
        elif not self._share.path.exists():
            self.stop(f"The kernel is gone: {self._share.path} is a dead link.", 1)
        else:
            late = f"The kernel of {self._share.path} did not answer within {self._grace:g} s."
            self.stop(late, 1)

    async def _find_kernel(self) -> _SharedKernel | None:
        """Connect to the shared kernel; return None if there is none within the grace period."""
        clock = asyncio.get_running_loop().time
        until = clock() + self._grace
        kernel: _SharedKernel | None = None
        try:
            while clock() < until and not self._share.is_withdrawn():
                connection = None
                with suppress(NoConnection):
                    connection = self._share.read()
                if kernel is not None and kernel.connection != connection:
                    kernel.close()
                    kernel = None
                if kernel is None and connection is not None:
                    kernel = _SharedKernel(self._context, connection)
                # Poll: a file that does not exist yet cannot be watched. Bounded by the grace period.
                connected = asyncio.Event() if kernel is None else kernel.connected
                with suppress(TimeoutError):
                    await asyncio.wait_for(connected.wait(), POLL_INTERVAL)
                    found, kernel = kernel, None
                    return found
            return None
        finally:
            if kernel is not None:
                kernel.close()

    async def _serve(self, kernel: _SharedKernel, lost: asyncio.Future[Any]) -> None:
        """Forward requests once the kernel's outputs arrive."""
        # Slow joiner: no event reports when the subscription takes effect, and the kernel drops what it
        # publishes before.
        while not kernel.subscribed.is_set():
            kernel.ask("kernel_info_request")
            with suppress(TimeoutError):
                await asyncio.wait_for(kernel.subscribed.wait(), NUDGE_INTERVAL)
        log.info("Relaying to %s", kernel.connection.address("shell"))
        self._kernel = kernel
        self._ready.set()
        held, self._held = self._held, []
        for message in held:
            self._forward(message)
        await lost

    async def _from_kernel(self, kernel: _SharedKernel, channel: str) -> None:
        while True:
            frames = await kernel.sockets[channel].recv_multipart()
            message = Message.open(kernel.session, channel, frames)
            if message is None:
                continue
            if channel == "iopub":
                kernel.subscribed.set()
            if message.parent in kernel.own or message.kind == "iopub_welcome":
                continue
            if channel in ("shell", "control"):
                self._waiting.pop(message.parent, None)
            if channel == "stdin":
                await self._prompt(message)
            else:
                self._sockets[channel].send_multipart(message.signed(self._session))

    async def _prompt(self, message: Message) -> None:
        """Send an input_request once its client's stdin is connected, while the request is pending.

        A client's sockets connect one after another, and no event reports when.
        """
        while message.parent in self._waiting:
            try:
                await self._sockets["stdin"].send_multipart(message.signed(self._session))
            except zmq.ZMQError as problem:
                if problem.errno != zmq.EHOSTUNREACH:
                    raise
                await asyncio.sleep(PROMPT_INTERVAL)
            else:
                return

    # --- the clients' side

    async def _echo(self) -> None:
        """Answer heartbeats: the relay ends when the kernel does."""
        socket = self._sockets["hb"]
        while True:
            await socket.send_multipart(await socket.recv_multipart())

    async def _from_clients(self, channel: str) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if channel != "control":  # a shutdown is answered without a kernel
                await self._ready.wait()
            frames = await self._sockets[channel].recv_multipart()
            message = Message.open(self._session, channel, frames)
            if message is None:
                continue
            if message.kind == "shutdown_request":
                self._shut_down(message)
            elif message.kind == "interrupt_request":
                loop.call_later(INTERRUPT_DELAY, self._forward, message)
            else:
                self._forward(message)

    def _forward(self, message: Message) -> None:
        if self._ended.done():
            return
        if len(self._waiting) + len(self._held) >= MAX_WAITING:
            self._fail(message, "The shared kernel does not answer.")
            return
        if self._kernel is None:
            self._held.append(message)
            return
        if message.kind.endswith("_request"):
            # A reply needs only the header and the identities.
            self._waiting[str(message.header["msg_id"])] = replace(message, body=[])
        socket = self._kernel.sockets[message.channel]
        socket.send_multipart(message.signed(self._kernel.session))

    def _shut_down(self, request: Message) -> None:
        """Answer a client's shutdown_request: only its relay ends, not the shared kernel."""
        content: Any = self._session.unpack(request.body[3])
        restart = isinstance(content, dict) and content.get("restart") is True
        self._reply(request, "shutdown_reply", {"status": "ok", "restart": restart})
        self.stop("A client shut the relay down; the kernel keeps running.")

    def _fail(self, request: Message, reason: str) -> None:
        """Answer a request with an error, because the kernel will not answer it."""
        if not request.kind.endswith("_request"):
            return
        error: dict[str, Any] = {"ename": "KernelGone", "evalue": reason, "traceback": []}
        if request.kind == "execute_request":
            self._reply(request, "error", error, "iopub")
        self._reply(
            request, request.kind.replace("_request", "_reply"), {"status": "error", **error}
        )
        self._reply(request, "status", {"execution_state": "idle"}, "iopub")

    def _reply(
        self, request: Message, kind: str, content: dict[str, Any], channel: str | None = None
    ) -> None:
        identities = request.identities if channel is None else [kind.encode()]
        message = self._session.msg(kind, content, parent={"header": request.header})
        frames = self._session.serialize(message, identities)
        self._sockets[channel or request.channel].send_multipart(frames)


class _SharedKernel:
    """The sockets to one incarnation of the shared kernel.

    Attributes:
        connection: Its address and key.
        session: Signs with its key.
        sockets: The sockets of all channels but ``hb``.
        connected: Set when the control socket has completed its ZeroMQ handshake.
        subscribed: Set when messages arrive on iopub.
        lost: Set when the other end has disconnected.
        own: The ids of the relay's own requests.
    """

    def __init__(self, context: zmq.asyncio.Context, connection: Connection) -> None:
        self.connection = connection
        self.session = connection.session()
        self.sockets: dict[str, Socket] = {}
        self.connected, self.subscribed, self.lost = (asyncio.Event() for _ in range(3))
        self.own: set[str] = set()
        # A kernel sends input_request on stdin to the identity of the request on shell.
        identity = uuid4().hex.encode()
        for channel in ("shell", "iopub", "stdin", "control"):
            socket = context.socket(zmq.SUB if channel == "iopub" else zmq.DEALER)
            socket.setsockopt(zmq.RCVHWM, 0)
            socket.setsockopt(zmq.SNDHWM, 0)
            if channel == "iopub":
                socket.setsockopt(zmq.SUBSCRIBE, b"")
            else:
                socket.setsockopt(zmq.IDENTITY, identity)
            self.sockets[channel] = socket
        events = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
        self._monitor: Any = self.sockets["control"].get_monitor_socket(events)
        self._watching = asyncio.ensure_future(self._watch())
        for channel, socket in self.sockets.items():
            socket.connect(connection.address(channel))

    async def _watch(self) -> None:
        while not self.lost.is_set():
            event: Any = await recv_monitor_message(self._monitor)
            if event["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self.connected.set()
            elif self.connected.is_set():  # else a dying kernel accepted, and ZeroMQ tries again
                self.lost.set()

    def ask(self, kind: str) -> None:
        """Send a request of the relay itself on the control channel; its reply is not forwarded."""
        message = self.session.msg(kind, {})
        self.own.add(message["header"]["msg_id"])
        self.sockets["control"].send_multipart(self.session.serialize(message))

    def close(self) -> None:
        """Close the sockets; the kernel keeps running."""
        self._watching.cancel()
        self.sockets["control"].disable_monitor()
        for socket in self.sockets.values():
            socket.close(linger=0)
