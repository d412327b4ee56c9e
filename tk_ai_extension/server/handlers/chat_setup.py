"""REST routes of a user's setup in the panel: the connection to a model, prompts, MCP servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tk_ai_extension.model.errors import PermissionDenied
from tk_ai_extension.server.handlers.base_handler import (
    RouteError,
    TkAIHandler,
    is_own_origin,
    owner_name,
    username,
)
from tk_ai_extension.server.handlers.openapi_operations import operation

if TYPE_CHECKING:
    from tk_ai_extension.server.rest_models import ChatSetupInfo, ConnectionInfo, ConnectRequest


class ModelConnectionHandler(TkAIHandler):
    """The connection of the user who runs the server.

    Its secret is write-only. It is in the configuration folder of the user who runs the server, so
    other users of the same server cannot see or change it. Pages of other origins are refused, even
    those in `TkAIExtensionApp.allowed_origins`.
    """

    @operation("read", "read_connection")
    async def get(self) -> ConnectionInfo:
        """Return which model is connected, from which source, and at most the end of its key."""
        models = await self.services.chat_models()
        found = await models.claude.connection()
        if not self.is_owner():
            return {**found, "allowed": False, "stored": None}
        return found

    @operation("execute", "connect_model")
    async def post(self, body: ConnectRequest) -> ConnectionInfo:
        """Test a connection with one message, then replace the stored one by it.

        The key is sent only to the connection's address, and no response contains it.
        """
        self.check_owner()
        models = await self.services.chat_models()
        return await models.claude.connect(body)

    @operation("execute", "disconnect_model")
    async def delete(self) -> ConnectionInfo:
        """Delete the stored connection and its key."""
        self.check_owner()
        models = await self.services.chat_models()
        return await models.claude.disconnect()

    def check_owner(self) -> None:
        """Check that the request is from the user who runs the server, on a page of the server's origin.

        Raises:
            RouteError: 403, another origin.
            PermissionDenied: Another user.
        """
        if not is_own_origin(self):
            raise RouteError(
                403,
                (
                    f"Pages of this origin may not call the server ({self.get_origin()!s}); "
                    "TkAIExtensionApp.allowed_origins lists others that may."
                ),
            )
        if not self.is_owner():
            raise PermissionDenied(
                "Only the user who runs this server can connect a model.",
                hint="Ask your administrator.",
            )

    def is_owner(self) -> bool:
        """Whether the request is from the user who runs the server."""
        return username(self) == owner_name(self.identity_provider, self.services.owner)


class ChatSetupHandler(TkAIHandler):
    """The setup of chats."""

    @operation("read", "read_chat_setup")
    async def get(self) -> ChatSetupInfo:
        """Return the file of instructions, the prompts for ``/name``, and the MCP servers without secrets."""
        chats = await self.services.chats()
        return await chats.setup.info(self.services.workspace, username(self))
