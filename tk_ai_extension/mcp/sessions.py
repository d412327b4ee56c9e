"""What is known of a session's caller goes when the session ends: its key never comes again."""

from __future__ import annotations

from mcp.server.context import CallNext, HandlerResult

from tk_ai_extension.mcp.callers import CallerOf
from tk_ai_extension.mcp.sdk import Context, connection_of
from tk_ai_extension.workspace.workspace import Workspace

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
