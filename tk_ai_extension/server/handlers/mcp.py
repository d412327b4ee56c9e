"""``/api/tk-ai/mcp``: the MCP SDK's own Streamable HTTP transport, behind Jupyter's authentication."""

from __future__ import annotations

import asyncio
from functools import partial

from tk_ai_extension.mcp import TURN, McpClient
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.server.asgi import AsgiExchange
from tk_ai_extension.server.handlers.handler import TkAIHandler, allowed, username

INVALID_REQUEST = -32600
"""JSON-RPC's code for a request that was refused as a whole."""


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
        user, token = username(self), headers.get(TURN)
        client = McpClient(
            user,
            # An unknown toolset is refused at once, not at the first call.
            services.registries.get(self.get_query_argument("toolsets", None)),
            session=headers.get("Mcp-Session-Id"),
            key=self.get_query_argument("caller", None) or headers.get("X-TK-Caller"),
            turn=None if token is None else services.workspace.turns.turn_of(token, user),
            gone=self.gone,
        )
        self.update_api_activity()
        if "Content-Type" in headers:
            # The content type is JSON; the SDK compares it case-sensitively.
            headers["Content-Type"] = "application/json"
        exchange = AsgiExchange(self, body, self.gone)
        services.exchanges.add(exchange)
        try:
            await exchange.run(partial(mcp.serve, client, body))
        except asyncio.CancelledError:
            # The server is stopping.
            self.gone.set()
            raise
        finally:
            services.exchanges.discard(exchange)
