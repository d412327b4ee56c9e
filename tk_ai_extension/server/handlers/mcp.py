"""``/api/tk-ai/mcp``: the MCP SDK's Streamable HTTP transport, behind Jupyter's authentication.

Jupyter Server uses tornado, and the SDK's transport is an ASGI application. `AsgiExchange` serves it on
the server's port (docs/adr/0014).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any

from tornado.iostream import StreamClosedError
from tornado.web import RequestHandler

from tk_ai_extension.mcp import ConnectedClient
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.server.handlers.base_handler import (
    TkAIHandler,
    allowed,
    send_at_once,
    username,
)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

INVALID_REQUEST = -32600
"""JSON-RPC's code for a request that was refused as a whole."""


class AsgiExchange:
    """The exchange of one request and response with an ASGI application.

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
                # Tornado's `finish`, because Jupyter's overrides the content type.
                await RequestHandler.finish(self._handler)
        except StreamClosedError:
            self.gone.set()


class McpHandler(TkAIHandler):
    """POST for messages; with sessions, GET for the event stream and DELETE for the end.

    All three require the action `execute`, since tools can run code.
    """

    @allowed("execute")
    async def get(self) -> None:
        """Stream messages of the server to a session."""
        await self._serve()

    @allowed("execute")
    async def post(self) -> None:
        """Receive a message, and respond to a request."""
        await self._serve()

    @allowed("execute")
    async def delete(self) -> None:
        """End a session."""
        await self._serve()

    def error_body(self, error: Json) -> Json:
        """Return a JSON-RPC error."""
        rpc = {"code": INVALID_REQUEST, "message": error["message"], "data": {"error": error}}
        return {"jsonrpc": "2.0", "id": None, "error": rpc}

    async def _serve(self) -> None:
        services, headers = self.services, self.request.headers
        body = self.body()
        mcp = await services.mcp()
        toolsets = key = None
        if self.request.query:
            toolsets = self.get_query_argument("toolsets", None)
            key = self.get_query_argument("caller", None)
        client = ConnectedClient(
            username(self),
            # An unknown toolset is refused at once, not at the first call.
            services.registries.get(toolsets),
            session=headers.get("Mcp-Session-Id"),
            key=key or headers.get("X-TK-Caller"),
            gone=self.gone,
        )
        self.update_api_activity()
        if "Content-Type" in headers:
            # The content type is JSON; the SDK compares it case-sensitively.
            headers["Content-Type"] = "application/json"
        services.exchanges[self.gone] = self.request.method == "POST"
        try:
            await AsgiExchange(self, body, self.gone).run(partial(mcp.serve, client, body))
        except asyncio.CancelledError:
            # The server is stopping.
            self.gone.set()
            raise
        finally:
            del services.exchanges[self.gone]
