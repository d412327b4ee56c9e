"""One WebSocket to one incarnation of a kernel behind a gateway, and the frames on it."""

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

_jupyter: Any = base  # its functions have no types

V1 = "v1.kernel.websocket.jupyter.org"
"""The subprotocol of the binary framing."""


class Framing(Protocol):
    """Makes one message of a WebSocket from one of a kernel's, and back."""

    def pack(self, channel: str, message: Message) -> str | bytes:
        """A message without buffers, as it goes through the WebSocket."""
        ...

    def unpack(self, data: str | bytes) -> tuple[str, Message]:
        """The channel and the message.

        Raises:
            ValueError, TypeError, KeyError, IndexError, struct.error: it is none.
        """
        ...


class BinaryFraming:
    """The framing of `V1`: the parts of the message as the kernel makes them.

    Args:
        session: Knows how parts are packed.
    """

    def __init__(self, session: Any) -> None:
        self._session = session

    def pack(self, channel: str, message: Message) -> bytes:
        """A message without buffers, as it goes through the WebSocket."""
        return _jupyter.serialize_msg_to_ws_v1(message, channel, self._session.pack)

    def unpack(self, data: str | bytes) -> tuple[str, Message]:
        """The channel and the message."""
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
    """The framing of gateways that do not know `V1`: JSON, and binary where there are buffers."""

    def pack(self, channel: str, message: Message) -> str:
        """A message without buffers, as it goes through the WebSocket."""
        return json.dumps({**message, "channel": channel}, default=json_default)

    def unpack(self, data: str | bytes) -> tuple[str, Message]:
        """The channel and the message."""
        is_binary = isinstance(data, bytes)
        message = _jupyter.deserialize_binary_message(data) if is_binary else json.loads(data)
        return message["channel"], _message(message)


def _message(parts: Message) -> Message:
    """A message with its id and type, once it has what every message of the protocol has.

    Raises:
        TypeError, KeyError: It does not.
    """
    for name in ("header", "parent_header", "content"):
        if not isinstance(parts[name], dict):
            raise TypeError(f"its {name} is no object")
    header = parts["header"]
    return {**parts, "msg_id": header["msg_id"], "msg_type": header["msg_type"]}


log = logging.getLogger(__name__)

PING_INTERVAL = 30.0
"""Seconds between pings; a gateway that has answered none for as long again is lost."""

MAX_MESSAGE = 512 * 1024 * 1024
"""Bytes that one message of a kernel may have; tornado's own bound is less than a large plot."""


class GatewayObserver(Observer, Protocol):
    """Hears also what a kernel's process would tell if it were seen."""

    def on_kernel_replaced(self) -> None:
        """Another incarnation of the kernel speaks: somebody has restarted it without a word of it."""
        ...


class GatewayConnection(BaseKernelConnection):
    """A conversation through a WebSocket of the kernel's gateway, which holds while kernels are restarted.

    Args:
        socket: An open one.
        session: The one that the gateway was told at its opening.
        observer: Told of everything that is not for one listener.
    """

    def __init__(
        self, socket: WebSocketClientConnection, session: Any, observer: GatewayObserver
    ) -> None:
        super().__init__(session, observer)
        self._follower = observer
        self._iopub_uses_reply_session = False  # on iopub, in the session of its replies
        self._is_probing = False  # and not answered yet
        self.lost = False
        """Whether the other end, or what is between, has closed it."""
        self._socket = socket
        binary = socket.selected_subprotocol == V1
        # What a kernel says of a short cell is a few small packets, each way: none of them is to wait
        # until the one before is acknowledged, and none of ours acknowledges late (40 ms on Linux).
        stream: Any = getattr(socket.protocol, "stream", None)
        self._tcp: sockets.socket | None = stream.socket if stream else None
        if stream:
            stream.set_nodelay(True)
        self._framing: Framing = BinaryFraming(session) if binary else JsonFraming()
        self.reading = asyncio.create_task(self._read())
        """Reads it until both ends are closed."""

    @classmethod
    async def open(
        cls, kernel_id: str, observer: GatewayObserver, *, ping_interval: float = PING_INTERVAL
    ) -> GatewayConnection:
        """Open one.

        Raises:
            requests.FAILURES: the gateway does not answer, or not with a WebSocket.
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
        """Ask the kernel what it is, where its answer to the same question is not still to come.

        What another incarnation says of its beginning comes before the gateway hears it, or not; then
        it says nothing until it is asked.
        """
        if self._ending is None and not self._is_probing:
            self._is_probing = True
            with contextlib.suppress(ConnectionClosed):  # which whoever reads it hears
                self._transmit("control", self.session.msg("kernel_info_request", {}))

    # -- what carries it

    def _transmit(self, channel: Channel, message: Message) -> None:
        data = self._framing.pack(channel, message)
        try:
            sent = self._socket.write_message(data, binary=isinstance(data, bytes))
        except WebSocketClosedError:
            self.lost = True
            raise ConnectionClosed(
                Ending("lost", "The connection to the gateway is lost.")
            ) from None
        asyncio.ensure_future(sent).add_done_callback(_retrieve)

    def _close_transport(self) -> None:
        # What is still to come is read and dropped: the gateway's goodbye is behind it.
        self._socket.close()

    @property
    def reply_session(self) -> str:
        """The session in which the kernel answered, which tells incarnations apart; empty where none does.

        Some kernels know no session of their own, and answer in that of whoever asks.
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
        ):  # what else is said of its state is the gateway's word
            self._follower.on_kernel_replaced()
            return
        super()._receive_iopub(message, parent)

    def _acknowledge(self) -> None:
        """Has what was received acknowledged at once: the gateway may wait for that to send the next."""
        if self._tcp is not None and hasattr(sockets, "TCP_QUICKACK"):
            with contextlib.suppress(OSError):  # it is closed
                self._tcp.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_QUICKACK, 1)

    def _deliver(self, data: str | bytes) -> None:
        try:
            channel, message = self._framing.unpack(data)
        except (ValueError, TypeError, KeyError, IndexError, struct.error) as error:
            log.warning("A message of a gateway is not understood: %s", error)
        else:
            self._receive(channel, message)

    async def _read(self) -> None:
        # The socket holds one message back: who prints faster than we read waits at the gateway.
        while (data := await self._socket.read_message()) is not None:
            self._acknowledge()  # the system forgets it again
            if self._ending is not None:
                continue
            try:
                self._deliver(data)
            except Exception:
                log.exception("Internal error at a message of a gateway")
        self.lost = True
        self._on_disconnect()


def _close_late(opening: asyncio.Future[WebSocketClientConnection]) -> None:
    """Close a WebSocket that came up when nobody waited for it any more."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _retrieve(sent: asyncio.Future[None]) -> None:
    """Where sending fails the connection is lost, which whoever reads it hears."""
    if not sent.cancelled():
        sent.exception()
