"""Plain JSON for responses without other messages.

In the protocol with sessions, the response to a request is a stream or JSON. The SDK streams: it
cannot know whether a tool will report progress, log or ask something first. Most calls send only
their result, for which JSON is cheaper: one chunk instead of three, and the client keeps its
connection, which it closes after a stream. In the protocol without sessions the SDK does the same.
"""

from __future__ import annotations

import re

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Send

STREAM = "text/event-stream"

_RESPONSE = re.compile(
    rb"event: message\r\ndata: "
    rb'(\{"jsonrpc":"2\.0","id":(?:-?\d+|null|"(?:[^"\\]|\\.)*"),"(?:result|error)":)'
)
"""The beginning of an event with a response, as the SDK writes it."""
_END = b"\r\n\r\n"


class SingleResponse:
    """Wraps `send` of an ASGI application; a single response is sent as JSON.

    The head of a stream is held until the first chunk. A response makes it JSON; anything else (a
    notification, a request to the client, a keep-alive comment) makes it a stream.

    Args:
        send: The original `send`.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._head: Message | None = None
        self._answered = False

    async def __call__(self, message: Message) -> None:
        """Handle a message of the application."""
        if message["type"] == "http.response.start" and _is_stream(message):
            self._head = message
        elif not self._answered:
            await self._pass_on(message)

    async def _pass_on(self, message: Message) -> None:
        head, self._head = self._head, None
        if head is not None:
            answer = _single_response(message.get("body", b""))
            if answer is not None:
                self._answered = True
                headers = MutableHeaders(scope=head)
                headers["content-type"] = "application/json"
                headers["content-length"] = str(len(answer))
                message = {"type": "http.response.body", "body": answer, "more_body": False}
            await self._send(head)
        await self._send(message)


def _is_stream(head: Message) -> bool:
    return MutableHeaders(scope=head).get("content-type", "").startswith(STREAM)


def _single_response(piece: bytes) -> bytes | None:
    """Return the JSON-RPC response of a chunk; None if the chunk is anything else.

    Only the beginning is parsed: a response may be long.
    """
    found = _RESPONSE.match(piece)
    if found is None or piece.find(b"\r\n", found.end()) != len(piece) - len(_END):
        return None
    return piece[found.start(1) : -len(_END)]
