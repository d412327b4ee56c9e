"""A relay's connection to one incarnation of the shared kernel.

Each message's signature is verified with one key, and the message is signed again with another.
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
"""Number of signed parts: header, parent header, metadata and content; not buffers."""


class ForgedMessage(Exception):
    """A message with a wrong signature, or one that is malformed."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message with a verified signature.

    Attributes:
        identities: The routing prefix back to the sender; on iopub the topic.
        body: Header, parent header, metadata, content and buffers, as received.
        header: The unpacked header.
    """

    identities: list[bytes]
    body: list[bytes]
    header: Mapping[str, Any]

    @classmethod
    def open(cls, session: Any, parts: list[bytes]) -> Envelope:
        """Verify a received message.

        Raises:
            ForgedMessage: the message must not be used.
        """
        try:
            end = parts.index(DELIM)
        except ValueError:
            raise ForgedMessage("it has no delimiter") from None
        signature, body = parts[end + 1 : end + 2], parts[end + 2 :]
        if len(body) < SIGNED:
            raise ForgedMessage("it is incomplete")
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
        """Return the id of the request that it answers; empty if there is none.

        Raises:
            ForgedMessage: its parent header cannot be read.
        """
        return str(_mapping(session, self.body[1]).get("msg_id", ""))

    def signed(self, session: Any) -> list[bytes]:
        """Return the same message signed with another session's key.

        The identities are kept, so that each client gets its own replies.
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
"""Seconds after which the kernel_info request is repeated while iopub is not subscribed."""

SOCKETS: dict[Channel, int] = {"shell": zmq.DEALER, "stdin": zmq.DEALER, "control": zmq.DEALER}


class SharedKernelConnection:
    """The sockets to one kernel; verifies its messages and delivers them.

    Args:
        context: Makes the sockets (`sockets.client_context`).
        connection: The kernel's address and key.
        deliver: Called with each message of the kernel for clients. Must not block.
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
        """Set when the control socket has completed its ZeroMQ handshake."""
        self.ready = asyncio.Event()
        """Set when the kernel has answered and iopub is subscribed."""
        self.lost = asyncio.Event()
        """Set when the other end has disconnected."""
        self._deliver = deliver
        self._received = {"control": False, "iopub": False}
        self._own: set[str] = set()
        # A kernel sends input_request on stdin to the identity of the request on shell.
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
                self._monitor = SocketReader(  # pyrefly: ignore[possibly-uninitialized-attribute]
                    socket.get_monitor_socket(events), self._on_monitor_event
                )
            self._readers[channel] = SocketReader(socket, self._message_handler(channel))
            socket.connect(connection.address(channel))
        self._nudging: object | None = None

    def send(self, channel: Channel, envelope: Envelope) -> None:
        """Forward a client's message, signed with the kernel's key."""
        self._readers[channel].socket.send_multipart(envelope.signed(self.session))
        # ZMQ_FD is edge-triggered, and sending can consume the edge of a message that arrived.
        self._readers[channel].schedule_read()

    def ask(self, kind: str) -> None:
        """Send a request of the relay itself on the control channel; its reply is not forwarded."""
        sent = self.session.send(self._readers["control"].socket, kind, content={})
        assert sent is not None
        self._own.add(sent["header"]["msg_id"])
        self._readers["control"].schedule_read()

    def close(self) -> None:
        """Close the sockets; the kernel keeps running."""
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
        """Send kernel_info requests until one is echoed on iopub.

        Slow joiner: no event reports when the subscription takes effect, and the kernel drops what it
        publishes before. Probe until IOPub is subscribed.
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
                log.warning(
                    "Dropped an unverified message from the kernel on %s: %s", channel, forged
                )
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
