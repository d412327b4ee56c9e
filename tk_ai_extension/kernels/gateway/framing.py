"""How messages of kernels go through a WebSocket: each with its channel, in one of two framings."""

from __future__ import annotations

import json
from typing import Any, Protocol

from jupyter_client.jsonutil import json_default
from jupyter_server.services.kernels.connection import base

from tk_ai_extension.kernels.base import Message

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
