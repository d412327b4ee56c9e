"""Who is acting, as MCP tells it, and until when: a caller is forgotten with its session."""

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
"""Says who makes a request; a composition root chooses how."""


def turn_of(credentials: TurnCredentials, context: Context) -> ActiveTurn | None:
    """The turn whose credential a request carries; None where it carries none.

    Raises:
        InvalidTurnCredential.
    """
    request = context.request
    token = None if request is None else request.headers.get(TURN)
    if request is None or token is None:
        return None
    return credentials.turn_of(token, request.user.username)


def http_caller(credentials: TurnCredentials, context: Context) -> Caller:
    """The caller of a request over HTTP.

    The user is the one that Jupyter Server authenticated. A request with the credential of a turn acts
    in that turn. Otherwise the key is the session's id where the protocol has sessions, else
    ``?caller=`` or the header ``X-TK-Caller``, else None.

    Raises:
        InvalidTurnCredential.
        InvalidArguments: a key that is too long or not printable.
    """
    request = context.request
    if request is None:
        raise TypeError("A request over HTTP was expected.")
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
    """The caller in a mode that the call names; never in a more permissive one than theirs.

    Raises:
        InvalidArguments: there is no such mode.
    """
    if mode is None:
        return caller
    if mode not in MODES:
        raise InvalidArguments(
            f"There is no mode `{mode}`.", hint=f"The modes are {', '.join(MODES)}."
        )
    return replace(caller, mode=capped(mode, caller.mode))


def client_name(context: Context) -> str:
    """What the client calls itself, with its version; an empty string where it does not say."""
    client = context.session.client_params
    if client is None:
        return ""
    info = client.client_info
    return f"{info.name} {info.version}".strip()[:100]


def gone_of(context: Context) -> asyncio.Event:
    """The event that says that nobody waits for the answer any more."""
    request = context.request
    return asyncio.Event() if request is None else request.scope.get(GONE) or asyncio.Event()


_STATE = "tk_ai.session"


class Sessions:
    """Has the workspace forget the callers whose sessions end."""

    def __init__(self, workspace: Workspace, caller_of: CallerOf) -> None:
        self._workspace = workspace
        self._caller_of = caller_of

    async def observe(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """The SDK's middleware: at a session's first request, sees to its end."""
        connection = connection_of(ctx)
        if connection.session_id is not None and _STATE not in connection.state:
            caller = connection.state[_STATE] = self._caller_of(ctx)
            # A chat outlives the connections of its agent.
            if caller.turn is None:
                connection.exit_stack.callback(self._workspace.forget, caller)
        return await call_next(ctx)
