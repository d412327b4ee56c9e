"""A relay's connection to the kernel: one incarnation of it, until it is gone.

The signature of each message is checked with one kernel's key and made again with another's.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from uuid import uuid4

import zmq
from jupyter_client.session import DELIM
from tornado.ioloop import IOLoop
from zmq.utils.monitor import parse_monitor_message

from tk_ai_extension.kernels.sharing.share import CHANNELS, Channel, Connection
from tk_ai_extension.kernels.sockets import SocketReader

SIGNED = 4
"""Header, parent header, metadata and content are signed; buffers are not."""


class ForgedMessage(Exception):
    """A message that is not signed with the right key, or that is no message of the protocol."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message whose signature was right.

    Attributes:
        identities: The route back to who sent it; on iopub the topic.
        body: Header, parent header, metadata, content and buffers, as they came.
        header: The first of them, read.
    """

    identities: list[bytes]
    body: list[bytes]
    header: Mapping[str, Any]

    @classmethod
    def open(cls, session: Any, parts: list[bytes]) -> Envelope:
        """Check what came from a socket.

        Raises:
            ForgedMessage: nothing of it may be used.
        """
        try:
            end = parts.index(DELIM)
        except ValueError:
            raise ForgedMessage("it has no delimiter") from None
        signature, body = parts[end + 1 : end + 2], parts[end + 2 :]
        if len(body) < SIGNED:
            raise ForgedMessage("it is not whole")
        if not hmac.compare_digest(session.sign(body[:SIGNED]), signature[0]):
            raise ForgedMessage("its signature is wrong")
        return cls(parts[:end], body, _mapping(session, body[0]))

    @property
    def kind(self) -> str:
        """The message's type, such as ``execute_request``."""
        return str(self.header.get("msg_type", ""))

    @property
    def id(self) -> str:
        """The message's own id."""
        return str(self.header.get("msg_id", ""))

    def answers(self, session: Any) -> str:
        """The id of the request that it answers; empty where it answers none.

        Raises:
            ForgedMessage: its parent header cannot be read.
        """
        return str(_mapping(session, self.body[1]).get("msg_id", ""))

    def signed(self, session: Any) -> list[bytes]:
        """The same message, signed for where another key holds.

        The identities are kept, so that each of several clients gets its own replies.
        """
        return [*self.identities, DELIM, session.sign(self.body[:SIGNED]), *self.body]


def _mapping(session: Any, packed: bytes) -> Mapping[str, Any]:
    try:
        unpacked: object = session.unpack(packed)
    except ValueError as problem:
        raise ForgedMessage(f"it cannot be read: {problem}") from None
    if not isinstance(unpacked, Mapping):
        raise ForgedMessage("it cannot be read")
    return cast(Mapping[str, Any], unpacked)


log = logging.getLogger(__name__)

NUDGE_INTERVAL = 0.25
"""Seconds after which a kernel is asked again whose answer on iopub was not heard."""

SOCKETS: dict[Channel, int] = {"shell": zmq.DEALER, "stdin": zmq.DEALER, "control": zmq.DEALER}


class SharedKernelConnection:
    """The sockets to one kernel; what comes from there is checked, then passed on.

    Args:
        context: Whose sockets hold a flood (`sockets.client_context`).
        connection: Where the kernel is.
        deliver: Gets each message of the kernel that is for clients. Must not block.
    """

    def __init__(
        self,
        context: zmq.Context[Any],
        connection: Connection,
        deliver: Callable[[Channel, Envelope], None],
    ) -> None:
        self.connection = connection
        self.session: Any = connection.session()
        self.connected = asyncio.Event()
        """Set when something listens at the kernel's address."""
        self.ready = asyncio.Event()
        """Set when the kernel has answered, and what it says to all on iopub is heard."""
        self.lost = asyncio.Event()
        """Set when the other end is gone."""
        self._deliver = deliver
        self._received = {"control": False, "iopub": False}
        self._own: set[str] = set()
        # A kernel sends a prompt for input to the identity that the request came from on shell.
        identity = uuid4().hex.encode()
        self._readers: dict[Channel, SocketReader] = {}
        for channel in CHANNELS:
            if channel == "hb":
                continue
            socket: zmq.Socket[bytes] = context.socket(SOCKETS.get(channel, zmq.SUB))
            if channel == "iopub":
                socket.setsockopt(zmq.SUBSCRIBE, b"")
            else:
                socket.setsockopt(zmq.IDENTITY, identity)
            if channel == "control":
                events = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
                self._monitor = SocketReader(
                    socket.get_monitor_socket(events), self._on_monitor_event
                )
            self._readers[channel] = SocketReader(socket, self._message_handler(channel))
            socket.connect(connection.address(channel))
        self._nudging: object | None = None

    def send(self, channel: Channel, envelope: Envelope) -> None:
        """Send a client's message on, signed with the kernel's key."""
        self._readers[channel].socket.send_multipart(envelope.signed(self.session))
        # What was received while it was sent announces itself to nobody.
        self._readers[channel].schedule_read()

    def ask(self, kind: str) -> None:
        """Send a request of the relay's own on the control channel; its answer is nobody's."""
        sent = self.session.send(self._readers["control"].socket, kind, content={})
        assert sent is not None
        self._own.add(sent["header"]["msg_id"])
        self._readers["control"].schedule_read()

    def close(self) -> None:
        """Close the sockets; the kernel goes on."""
        if self._nudging is not None:
            IOLoop.current().remove_timeout(self._nudging)
            self._nudging = None
        self._readers["control"].socket.disable_monitor()
        self._monitor.close()
        for reader in self._readers.values():
            reader.close()

    def _on_monitor_event(self, parts: list[bytes]) -> None:
        if parse_monitor_message(parts)["event"] == zmq.EVENT_DISCONNECTED:
            self.lost.set()
        elif not self.connected.is_set():
            self.connected.set()
            self._nudge()

    def _nudge(self) -> None:
        """Ask until the answer is heard on iopub too.

        A subscription takes effect at some time that nobody tells; what was said before is lost.
        """
        self._nudging = None
        if self.ready.is_set() or self.lost.is_set():
            return
        self.ask("kernel_info_request")
        loop: Any = IOLoop.current()
        self._nudging = loop.call_later(NUDGE_INTERVAL, self._nudge)

    def _message_handler(self, channel: Channel) -> Callable[[list[bytes]], None]:
        def read(parts: list[bytes]) -> None:
            try:
                envelope = Envelope.open(self.session, parts)
                own = envelope.answers(self.session) in self._own
            except ForgedMessage as forged:
                log.warning("A message on %s is not the kernel's: %s", channel, forged)
                return
            if channel in self._received:
                self._on_received(channel)
            if not own and envelope.kind != "iopub_welcome":
                self._deliver(channel, envelope)

        return read

    def _on_received(self, channel: Channel) -> None:
        self._received[channel] = True
        if all(self._received.values()):
            self.ready.set()
