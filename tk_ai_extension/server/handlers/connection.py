"""REST route of the connection to a model, which a user enters in the panel."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tk_ai_extension.mcp import TURN
from tk_ai_extension.model.agent_errors import ConnectForbidden
from tk_ai_extension.model.sentences import Sentence
from tk_ai_extension.server.handlers.handler import RouteError, TkAIHandler
from tk_ai_extension.server.handlers.operations import operation
from tk_ai_extension.server.users import username

if TYPE_CHECKING:
    from tk_ai_extension.agent.models import ConnectionInfo
    from tk_ai_extension.agent.requests import ConnectRequest


class ConnectionHandler(TkAIHandler):
    """The connection of the user who runs the server.

    Its secret is written only. It is in the configuration folder of the user who runs the server, so
    other users of the same server see and change nothing. Pages of other origins are refused, also
    those in `TkAIExtensionApp.allowed_origins`, and so are agents.
    """

    @operation("read", "read_connection")
    async def get(self) -> ConnectionInfo:
        """Return which model is connected, from which source, and at most the end of its key."""
        found = await (await self.services.chat_models()).connection()
        if not self._is_owner():
            return {**found, "allowed": False, "stored": None}
        return found

    @operation("execute", "connect_model")
    async def post(self, body: ConnectRequest) -> ConnectionInfo:
        """Test a connection with one message, then store it instead of the present one.

        The key is sent to the connection's own address only, and no response contains it.
        """
        self._check_owner()
        from tk_ai_extension.agent.models import NewConnection

        new = NewConnection(
            body.provider, body.secret, body.base_url, body.model, body.region, body.project
        )
        return await (await self.services.chat_models()).connect(new)

    @operation("execute", "disconnect_model")
    async def delete(self) -> ConnectionInfo:
        """Delete the stored connection and its key."""
        self._check_owner()
        return await (await self.services.chat_models()).disconnect()

    def _check_owner(self) -> None:
        """Check that the request is of the user who runs the server, on a page of its own origin.

        Raises:
            RouteError: 403, another origin.
            ConnectForbidden: Another user, or an agent.
        """
        origin = self.get_origin()
        if origin is not None and urlsplit(origin).netloc.lower() != self.request.host.lower():
            raise RouteError(403, Sentence("origin_refused", origin=origin))
        if TURN in self.request.headers or not self._is_owner():
            raise ConnectForbidden(Sentence("connect_owner"))

    def _is_owner(self) -> bool:
        hub = os.environ.get("JUPYTERHUB_USER")
        return username(self) in {self.services.owner, hub}
