"""A WebSocket to one incarnation of a kernel behind a gateway, and its message framing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket as sockets
import struct
from collections.abc import Mapping
from typing import Any, Protocol

from jupyter_client.jsonutil import json_default
from jupyter_client.session import Session
from jupyter_server.gateway.gateway_client import GatewayClient
from jupyter_server.services.kernels.connection import base
from jupyter_server.utils import url_path_join
from tornado.escape import url_escape
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, WebSocketClosedError, websocket_connect

from tk_ai_extension.kernels.base import Message
from tk_ai_extension.kernels.base_connection import (
    BaseKernelConnection,
    Channel,
    ConnectionClosed,
    Ending,
    Observer,
)
from tk_ai_extension.kernels.gateway.requests import response_to
from tk_ai_extension.model.encoding import MALFORMED

_jupyter: Any = base  # its functions are not annotated

V1 = "v1.kernel.websocket.jupyter.org"
"""The WebSocket subprotocol with binary framing."""


class Framing(Protocol):
    """Converts kernel messages to WebSocket messages and back."""

    def pack(self, channel: str, message: Message) -> str | bytes:
        """Return the WebSocket message for a kernel message without buffers."""
        ...

    def unpack(self, data: str | bytes) -> tuple[str, Message]:
        """Return the channel and the kernel message.

        Raises:
            MALFORMED, struct.error: the message is malformed.
        """
        ...


class BinaryFraming:
    """The framing of `V1`: the serialized parts of the kernel's message.

    Args:
        session: Packs and unpacks the parts.
    """

    def __init__(self, session: Any) -> None:
        self._session = session

    def pack(self, channel: str, message: Message) -> bytes:
        """See `Framing.pack`."""
        return _jupyter.serialize_msg_to_ws_v1(message, channel, self._session.pack)

    def unpack(self, data: str | bytes) -> tuple[str, Message]:
        """See `Framing.unpack`."""
        channel, parts = _jupyter.deserialize_msg_from_ws_v1(data)
        header, parent, metadata, content = map(self._session.unpack, parts[:4])
        return channel, _message(
            {
                "header": header,
                "parent_header": parent,
                "metadata": metadata,
                "content": content,
                "buffers": parts[4:],
            }
        )


class JsonFraming:
    """The framing for gateways without `V1`: JSON, or binary if there are buffers."""

    def pack(self, channel: str, message: Message) -> str:
        """See `Framing.pack`."""
        return json.dumps({**message, "channel": channel}, default=json_default)

    def unpack(self, data: str | bytes) -> tuple[str, Message]:
        """See `Framing.unpack`."""
        is_binary = isinstance(data, bytes)
        message = _jupyter.deserialize_binary_message(data) if is_binary else json.loads(data)
        return message["channel"], _message(message)


def _message(parts: Message) -> Message:
    """Return a message with its id and type after checking the required fields.

    Raises:
        TypeError, KeyError: a field is missing or of the wrong type.
    """
    for name in ("header", "parent_header", "content"):
        if not isinstance(parts[name], dict):
            raise TypeError(f"its {name} is not an object")
    header = parts["header"]
    return {**parts, "msg_id": header["msg_id"], "msg_type": header["msg_type"]}


log = logging.getLogger(__name__)

PING_INTERVAL = 30.0
"""Seconds between pings, and seconds in which the gateway must answer one."""

MAX_MESSAGE = 512 * 1024 * 1024
"""Maximum bytes of one message from a kernel; tornado's default is less than a large plot."""


class GatewayObserver(Observer, Protocol):
    """Also receives restarts, which cannot be seen from the kernel's process."""

    def on_kernel_replaced(self) -> None:
        """Handle messages of a new incarnation: the kernel was restarted without an announcement."""
        ...


class GatewayConnection(BaseKernelConnection):
    """A connection through a gateway's WebSocket, which stays open while kernels are restarted.

    Args:
        socket: An open WebSocket.
        session: The session whose id the WebSocket was opened with.
        observer: Notified of everything that is not for one listener.
    """

    def __init__(
        self, socket: WebSocketClientConnection, session: Session, observer: GatewayObserver
    ) -> None:
        super().__init__(session, observer)
        self._follower = observer
        self._iopub_uses_reply_session = False  # known once an iopub message has that session
        self._is_probing = False  # a probe is not answered yet
        self.lost = False
        """Whether the other end or the network has closed it."""
        self._socket = socket
        binary = socket.selected_subprotocol == V1
        # A short cell takes a few small packets each way. TCP_NODELAY: no packet waits for the ACK of
        # the previous one. TCP_QUICKACK below: no ACK is delayed (40 ms on Linux).
        stream: Any = getattr(socket.protocol, "stream", None)
        self._tcp: sockets.socket | None = stream.socket if stream else None
        if stream:
            stream.set_nodelay(True)
        self._framing: Framing = BinaryFraming(session) if binary else JsonFraming()
        self.reading = asyncio.create_task(self._read())
        """Reads the WebSocket until both ends are closed."""

    @classmethod
    async def open(
        cls, kernel_id: str, observer: GatewayObserver, *, ping_interval: float = PING_INTERVAL
    ) -> GatewayConnection:
        """Open a connection to a kernel.

        Args:
            kernel_id: The kernel's id.
            observer: Notified of everything that is not for one listener.
            ping_interval: Seconds between pings, and in which each must be answered.

        Raises:
            requests.FAILURES: the gateway does not respond, or not with a WebSocket.
        """
        client: Any = GatewayClient.instance()
        session: Any = Session()
        url = url_path_join(
            client.ws_url, client.kernels_endpoint, url_escape(kernel_id), "channels"
        )
        request = HTTPRequest(
            f"{url}?session_id={url_escape(session.session)}",
            **client.load_connection_args(),
        )
        opening = asyncio.ensure_future(
            response_to(
                websocket_connect(
                    request,
                    subprotocols=[V1],
                    ping_interval=ping_interval,
                    ping_timeout=ping_interval,
                    max_message_size=MAX_MESSAGE,
                )
            )
        )
        try:
            socket = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_late)
            raise
        return cls(socket, session, observer)

    def probe_session(self) -> None:
        """Send a kernel_info request, unless one is pending, to detect a new incarnation.

        A gateway may subscribe too late for a new incarnation's first messages; it then publishes
        nothing until it gets a request.
        """
        if self._ending is None and not self._is_probing:
            self._is_probing = True
            with contextlib.suppress(ConnectionClosed):  # the reading task handles it
                self._transmit("control", self.session.msg("kernel_info_request", {}))

    # -- transport

    def _transmit(self, channel: Channel, message: Message) -> None:
        data = self._framing.pack(channel, message)
        try:
            sent = self._socket.write_message(data, binary=isinstance(data, bytes))
        except WebSocketClosedError:
            self.lost = True
            raise ConnectionClosed(
                Ending("lost", "The connection to the gateway was lost.")
            ) from None
        asyncio.ensure_future(sent).add_done_callback(_retrieve)

    def _close_transport(self) -> None:
        # The task reads and drops pending messages until the gateway's close frame.
        self._socket.close()

    @property
    def reply_session(self) -> str:
        """The session id of the kernel's replies, which differs between incarnations; empty if unknown.

        Some kernels have no session of their own and reply with the client's.
        """
        return "" if self.kernel_session == self.session.session else self.kernel_session

    def _receive(self, channel: str, message: Message) -> None:
        before = self.reply_session
        super()._receive(channel, message)
        if message["msg_type"] == "kernel_info_reply":
            self._is_probing = False
            now = self.reply_session
            if self._ending is None and before and now and now != before:
                self._follower.on_kernel_replaced()

    def _receive_iopub(self, message: Message, parent: Mapping[str, Any]) -> None:
        if self.reply_session and message["header"].get("session") == self.reply_session:
            self._iopub_uses_reply_session = True
        elif (
            self._iopub_uses_reply_session
            and message["msg_type"] == "status"
            and message["content"].get("execution_state") in {"starting", "busy", "idle"}
        ):  # other states are published by the gateway
            self._follower.on_kernel_replaced()
            return
        super()._receive_iopub(message, parent)

    def _acknowledge(self) -> None:
        """Acknowledge received data at once: the gateway may wait for the ACK before sending more."""
        if self._tcp is not None and hasattr(sockets, "TCP_QUICKACK"):
            with contextlib.suppress(OSError):  # it is closed
                self._tcp.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_QUICKACK, 1)

    def _deliver(self, data: str | bytes) -> None:
        try:
            channel, message = self._framing.unpack(data)
        except (*MALFORMED, struct.error) as error:
            log.warning("Dropped a malformed message from a gateway: %s", error)
        else:
            self._receive(channel, message)

    async def _read(self) -> None:
        # tornado buffers one message: backpressure makes a faster sender wait at the gateway.
        while (data := await self._socket.read_message()) is not None:
            self._acknowledge()  # the option is not permanent
            if self._ending is not None:
                continue
            try:
                self._deliver(data)
            except Exception:
                log.exception("Internal error while handling a message from a gateway")
        self.lost = True
        self._on_disconnect()


def _close_late(opening: asyncio.Future[WebSocketClientConnection]) -> None:
    """Close a WebSocket whose opening was cancelled meanwhile."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _retrieve(sent: asyncio.Future[None]) -> None:
    """Retrieve a send failure: the reading task handles the lost connection."""
    if not sent.cancelled():
        sent.exception()
