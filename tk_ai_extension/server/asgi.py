"""Bridge from a tornado handler to an ASGI application.

Jupyter Server speaks tornado, and the MCP SDK's Streamable HTTP transport is an ASGI application.
The bridge serves the ASGI application on the server's own port and behind its own
authentication (docs/adr/0014).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from tornado.iostream import StreamClosedError
from tornado.web import RequestHandler

from tk_ai_extension.model.json_values import Json

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
        extra: Further entries of the ASGI scope, for example ``user``.
        gone: See the attribute; the handler may have set it already.

    Attributes:
        gone: Set when the client has disconnected or the response is complete.
    """

    def __init__(
        self,
        handler: RequestHandler,
        body: bytes = b"",
        extra: Mapping[str, Any] | None = None,
        *,
        gone: asyncio.Event | None = None,
    ) -> None:
        self._handler = handler
        self._body: bytes | None = body
        self.gone = asyncio.Event() if gone is None else gone
        self.extra: Mapping[str, Any] = extra or {}

    @property
    def is_call(self) -> bool:
        """Whether this is a request, and not the event stream of a session."""
        return self._handler.request.method == "POST"

    async def run(self, app: AsgiApp) -> None:
        """Run the application until its response is complete."""
        try:
            await app(self.scope(), self._receive, self._send)
        finally:
            # The application may still await messages after its response.
            self.gone.set()

    def disconnect(self) -> None:
        """Handle the client's disconnect, or the stop of the server."""
        self.gone.set()

    def scope(self) -> Json:
        """Return the ASGI scope of the request."""
        request = self._handler.request
        path, _, query = request.uri.partition("?") if request.uri else (request.path, "", "")
        host, _, port = request.host.rpartition(":")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": request.version.removeprefix("HTTP/"),
            "method": request.method,
            "scheme": request.protocol,
            "path": request.path,
            "raw_path": path.encode("latin-1"),
            "root_path": "",
            "query_string": query.encode("latin-1"),
            "headers": [
                (name.lower().encode("latin-1"), value.encode("latin-1"))
                for name, value in request.headers.get_all()
            ],
            "client": (request.remote_ip, 0),
            "server": (host or request.host, int(port) if port.isdecimal() else None),
            **self.extra,
        }

    async def _receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if self.gone.is_set():
            return
        match message["type"]:
            case "http.response.start":
                await self._start(message)
            case "http.response.body":
                await self._write(message.get("body", b""), more=message.get("more_body", False))
            case other:
                raise ValueError(f"Unsupported ASGI message `{other}`.")

    async def _start(self, message: Message) -> None:
        self._handler.set_status(message["status"])
        self._handler.clear_header("Content-Type")
        seen: set[str] = set()
        for raw_name, raw_value in message.get("headers", ()):
            name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
            if name.lower() in seen:
                self._handler.add_header(name, value)
            else:
                self._handler.set_header(name, value)
                seen.add(name.lower())
        if "content-length" not in seen:
            # Flush a stream's headers: its first chunk may take long.
            send_at_once(self._handler)
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
