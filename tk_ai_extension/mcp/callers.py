"""Callers of MCP requests, and their end with the session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from mcp.server.context import CallNext, HandlerResult

from tk_ai_extension.mcp import GONE, TURN
from tk_ai_extension.mcp.sdk import Context, connection_of
from tk_ai_extension.model.callers import Caller, checked_key
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.workspace.permissions import MODES, capped
from tk_ai_extension.workspace.turn_credentials import ActiveTurn, TurnCredentials
from tk_ai_extension.workspace.workspace import Workspace

CallerOf = Callable[[Context], Caller]
"""Returns the caller of a request; set by the composition root."""

GoneOf = Callable[[Context], asyncio.Event]
"""Returns the event that is set when the client of a request disconnects; set by the transport."""


def turn_of(credentials: TurnCredentials, context: Context) -> ActiveTurn | None:
    """Return the turn of a request's credential; None without a credential.

    Raises:
        InvalidTurnCredential.
    """
    request = context.request
    token = None if request is None else request.headers.get(TURN)
    if request is None or token is None:
        return None
    return credentials.turn_of(token, request.user.username)


def http_caller(credentials: TurnCredentials, context: Context) -> Caller:
    """Return the caller of a request over HTTP.

    The user is the one that Jupyter Server authenticated. A request with the credential of a turn acts
    in that turn. Otherwise the key is the session's id, or without sessions
    ``?caller=`` or the header ``X-TK-Caller``, else None.

    Raises:
        InvalidTurnCredential.
        InvalidArguments: a key that is too long or not printable.
    """
    request = context.request
    if request is None:
        raise TypeError("Expected a request over HTTP.")
    turn = turn_of(credentials, context)
    if turn is not None:
        return turn.caller
    key = (
        connection_of(context).session_id
        or checked_key(request.query_params.get("caller"))
        or checked_key(request.headers.get("x-tk-caller"))
    )
    return Caller(user=request.user.username, key=key, interface="mcp", name=client_name(context))


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


def client_name(context: Context) -> str:
    """Return the client's name and version; empty if unknown."""
    client = context.session.client_params
    if client is None:
        return ""
    info = client.client_info
    return f"{info.name} {info.version}".strip()[:100]


def http_gone(context: Context) -> asyncio.Event:
    """Return the event that is set when the client of a request over HTTP disconnects."""
    if context.request is None:
        raise TypeError("Expected a request over HTTP.")
    return context.request.scope[GONE]


_STATE = "tk_ai.session"


class Sessions:
    """Removes callers from the workspace when their sessions end."""

    def __init__(self, workspace: Workspace, caller_of: CallerOf) -> None:
        self._workspace = workspace
        self._caller_of = caller_of

    async def observe(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """SDK middleware: at a session's first request, register its clean-up."""
        connection = connection_of(ctx)
        if connection.session_id is not None and _STATE not in connection.state:
            caller = connection.state[_STATE] = self._caller_of(ctx)
            # A chat outlives its agent's connections.
            if caller.turn is None:
                connection.exit_stack.callback(self._workspace.forget, caller)
        return await call_next(ctx)
