"""The requests of MCP clients: their callers, and what the SDK keeps about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request

from tk_ai_extension.mcp import McpClient
from tk_ai_extension.model.callers import Caller, checked_key
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.workspace.permissions import MODES, capped
from tk_ai_extension.workspace.workspace import Workspace

Context = ServerRequestContext[Any, Request | None]
"""Context that the SDK passes to a handler; ``request`` is None without HTTP (stdio)."""

CALLER = "tk_ai.caller"
"""Key of the caller in the state of a connection."""


def connection_of(context: Context) -> Connection:
    """Return the connection of a request: its session id, state and clean-up.

    The SDK documents that handlers push clean-up to ``connection.exit_stack``, but offers no public
    access to it yet.
    """
    return context.session._connection  # noqa: SLF001


def is_cancelled(context: Context) -> bool:
    """Whether the client has sent ``notifications/cancelled`` for a request.

    The SDK has this on its `Context`, which it does not pass to handlers yet.
    """
    return context.session._request_outbound.cancel_requested.is_set()  # noqa: SLF001


def is_modern(context: Context) -> bool:
    """Whether the request uses the protocol without sessions (2026-07-28 and later)."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


def can_ask(context: Context) -> bool:
    """Whether the client declared that it shows forms (elicitation)."""
    capabilities = context.session.client_capabilities
    elicitation = capabilities.elicitation if capabilities else None
    # An empty declaration means forms: earlier protocols had no URL mode.
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def one_page(params: types.PaginatedRequestParams | None) -> None:
    """Refuse cursors for lists with a single page.

    Raises:
        MCPError.
    """
    if params is not None and params.cursor is not None:
        raise MCPError(types.INVALID_PARAMS, "Unknown cursor.")


class Requests:
    """Clients and callers of requests.

    Args:
        workspace: Forgets a caller when its session ends.
        client_of: Returns the client of a request; set by the transport.
        silent: Ids of the sessions whose clients are never asked, as they cannot show a form.
    """

    def __init__(
        self, workspace: Workspace, client_of: Callable[[Context], McpClient], silent: set[str]
    ) -> None:
        self.workspace = workspace
        self.client_of = client_of
        self._silent = silent

    def caller(self, context: Context) -> Caller:
        """Return the caller of a request: the turn's, the session, or the key of the client.

        Raises:
            InvalidArguments: a key that is too long or not printable.
        """
        client = self.client_of(context)
        if client.turn is not None:
            # A chat outlives its agent's connections.
            return client.turn.caller
        connection = connection_of(context)
        caller: Caller | None = connection.state.get(CALLER)
        if caller is None:
            caller = self._new_caller(context, client, connection)
        return caller

    def _new_caller(self, context: Context, client: McpClient, connection: Connection) -> Caller:
        session = connection.session_id
        key = session or checked_key(client.key)
        caller = Caller(client.user, key, "mcp", name=_client_name(context))
        connection.state[CALLER] = caller
        if session is not None:
            connection.exit_stack.callback(self.workspace.forget, caller)
            if not can_ask(context):
                self._silent.add(session)
                connection.exit_stack.callback(self._silent.discard, session)
        return caller


def in_mode(caller: Caller, mode: object) -> Caller:
    """Return the caller with the call's mode, which cannot be more permissive than theirs.

    Raises:
        InvalidArguments: there is no such mode.
    """
    if mode is None:
        return caller
    if mode not in MODES:
        raise InvalidArguments(f"Unknown mode `{mode}`.", hint=f"The modes are {', '.join(MODES)}.")
    return replace(caller, mode=capped(mode, caller.mode))


def _client_name(context: Context) -> str:
    """Return the client's name and version; empty if unknown."""
    client = context.session.client_params
    if client is None:
        return ""
    info = client.client_info
    return f"{info.name} {info.version}".strip()[:100]
