"""Bridge from a tornado handler to an ASGI application.

Jupyter Server speaks tornado, and the MCP SDK's Streamable HTTP transport is an ASGI application.
The bridge serves the ASGI application on the server's own port and behind its own
authentication (docs/adr/0008).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from tornado.iostream import StreamClosedError
from tornado.web import RequestHandler

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


def send_at_once(handler: RequestHandler) -> None:
    """Disable Nagle's algorithm (TCP_NODELAY).

    TCP would delay a small chunk until the previous one is acknowledged, up to 40 ms later.
    """
    stream: Any = getattr(handler.request.connection, "stream", None)
    if stream is not None:
        stream.set_nodelay(True)


class AsgiExchange:
    """One request answered by an ASGI application.

    Chunks are sent at once, with backpressure: `send` waits until the previous chunk is flushed, so
    that a slow client slows down the application. When the client disconnects, the application
    receives ``http.disconnect``, and further chunks are dropped.

    Args:
        handler: The tornado handler of the request, which has been authenticated.
        body: The request's body.
        gone: See the attribute; the handler may have set it already.

    Attributes:
        gone: Set when the client has disconnected, the server stops, or the response is complete.
    """

    def __init__(self, handler: RequestHandler, body: bytes, gone: asyncio.Event) -> None:
        self._handler = handler
        self._body: bytes | None = body
        self.gone = gone

    @property
    def is_call(self) -> bool:
        """Whether this is a request, and not the event stream of a session."""
        return self._handler.request.method == "POST"

    async def run(self, app: AsgiApp) -> None:
        """Run the application until its response is complete."""
        request = self._handler.request
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": request.version.removeprefix("HTTP/"),
            "method": request.method,
            "scheme": request.protocol,
            "path": request.path,
            "query_string": request.query.encode("latin-1"),
            "headers": [
                (name.lower().encode("latin-1"), value.encode("latin-1"))
                for name, value in request.headers.get_all()
            ],
        }
        try:
            await app(scope, self._receive, self._send)
        finally:
            # The application may still await messages after its response.
            self.gone.set()

    async def _receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if self.gone.is_set():
            return
        if message["type"] == "http.response.start":
            await self._start(message)
        else:
            await self._write(message.get("body", b""), more=message.get("more_body", False))

    async def _start(self, message: Message) -> None:
        handler, headers = self._handler, message.get("headers", ())
        handler.set_status(message["status"])
        handler.clear_header("Content-Type")
        for name, value in headers:
            handler.set_header(name.decode("latin-1"), value.decode("latin-1"))
        if not any(name == b"content-length" for name, _ in headers):
            # Flush a stream's headers: its first chunk may take long.
            send_at_once(handler)
            await self._write(b"", more=True)

    async def _write(self, body: bytes, *, more: bool) -> None:
        try:
            if body:
                self._handler.write(body)
            if more:
                await self._handler.flush()
            else:
                # Not the handler's own finish: Jupyter's overrides the content type.
                await RequestHandler.finish(self._handler)
        except StreamClosedError:
            self.gone.set()
