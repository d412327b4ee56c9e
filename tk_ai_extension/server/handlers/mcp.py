"""``/api/tk-ai/mcp``: the MCP SDK's own Streamable HTTP transport, behind Jupyter's authentication."""

from __future__ import annotations

import asyncio
from typing import Any

from tk_ai_extension.mcp import GONE, TURN
from tk_ai_extension.server.bridge import AsgiExchange
from tk_ai_extension.server.handlers.handler import TkAIHandler, allowed
from tk_ai_extension.server.users import username

INVALID_REQUEST = -32600
"""JSON-RPC's code for a request that was refused as a whole."""


class McpHandler(TkAIHandler):
    """POST for messages; GET for a session's own stream and DELETE for its end, where there are sessions.

    Whoever may call tools may run code, so that each of the three needs leave to execute.
    """

    _exchange: AsgiExchange | None = None

    @allowed("execute")
    async def get(self) -> None:
        """Stream what the server has to tell a session."""
        await self._serve()

    @allowed("execute")
    async def post(self) -> None:
        """Take a message, and answers a request."""
        await self._serve()

    @allowed("execute")
    async def delete(self) -> None:
        """End a session."""
        await self._serve()

    def error_body(self, error: dict[str, Any]) -> dict[str, Any]:
        """A JSON-RPC error, which is what a client of this route reads."""
        rpc = {"code": INVALID_REQUEST, "message": error["message"], "data": {"error": error}}
        return {"jsonrpc": "2.0", "id": None, "error": rpc}

    def on_connection_close(self) -> None:
        """The client is gone."""
        super().on_connection_close()
        if self._exchange is not None:
            self._exchange.disconnect()

    async def _serve(self) -> None:
        services = self.services
        body = self.body()
        mcp = await services.mcp()
        # An unknown toolset is refused at once, not at the first call.
        services.registries.get(self.get_query_argument("toolsets", None))
        token = self.request.headers.get(TURN)
        if token is not None:
            services.workspace.turns.turn_of(token, username(self))
        self.update_api_activity()
        if "Content-Type" in self.request.headers:
            # It has been found to be JSON; the SDK compares it letter by letter.
            self.request.headers["Content-Type"] = "application/json"
        self._exchange = exchange = AsgiExchange(self, body)
        exchange.extra = {"user": username(self), GONE: exchange.gone}
        services.exchanges.add(exchange)
        try:
            await exchange.run(mcp)
        except asyncio.CancelledError:
            # The server stops; nobody is there to be answered.
            exchange.disconnect()
            raise
        finally:
            services.exchanges.discard(exchange)
