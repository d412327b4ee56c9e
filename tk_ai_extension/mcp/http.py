"""MCP over Streamable HTTP: an ASGI application over the SDK's session manager."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

import sse_starlette.sse
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Receive, Scope, Send

from tk_ai_extension.mcp.admission import Admission, user_of
from tk_ai_extension.mcp.callers import http_caller, http_gone
from tk_ai_extension.mcp.calls import RunningCalls
from tk_ai_extension.mcp.sdk import Context
from tk_ai_extension.mcp.server import build_server
from tk_ai_extension.mcp.single_response import SingleResponse
from tk_ai_extension.tools.registry import Registry
from tk_ai_extension.workspace.workspace import Workspace

logger = logging.getLogger(__name__)


class McpHttp:
    """MCP over HTTP, with or without sessions, as a request's protocol version requires.

    Requests must be authenticated already. A session belongs to the user who opened it, and does not
    exist for others.

    Args:
        workspace: What the tools work on.
        registry: Returns the tools of ``?toolsets=``, or of the default toolsets for None.
        session_timeout: Seconds after which an idle session ends.
        max_sessions: Maximum number of sessions; beyond it, an idle one ends.
        max_body: Maximum size of a request's body, in bytes.
    """

    def __init__(
        self,
        workspace: Workspace,
        registry: Callable[[str | None], Registry],
        *,
        session_timeout: float,
        max_sessions: int,
        max_body: int,
    ) -> None:
        def registry_of(context: Context) -> Registry:
            return registry(
                context.request.query_params.get("toolsets") if context.request else None
            )

        self.workspace = workspace
        self._registry = registry
        self.running = RunningCalls()
        """The calls of all clients."""
        server = build_server(
            workspace,
            registry_of=registry_of,
            default_registry=self.default_registry,
            caller_of=partial(http_caller, workspace.turns),
            gone_of=http_gone,
            running=self.running,
        )
        self._manager = StreamableHTTPSessionManager(
            server,
            session_idle_timeout=session_timeout,
            # `Admission` keeps the limit, since it knows the idle sessions.
            max_sessions=None,
            max_request_body_size=max_body,
        )
        self._admission = Admission(self._manager.asgi_app, max_sessions)
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def default_registry(self) -> Registry:
        """Tools of the default toolsets."""
        return self._registry("default")

    async def start(self) -> None:
        """Start the session manager."""
        _watch_no_uvicorn()
        ready = asyncio.Event()
        self._task = asyncio.create_task(self._run(ready), name="tk-ai MCP sessions")
        await ready.wait()

    async def close(self) -> None:
        """Close all sessions and calls."""
        await self.running.close()
        self._stop.set()
        if self._task is not None:
            await self._task

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; the scope's ``user`` is the name of the user.

        Raises:
            InvalidArguments: it is no message of the protocol.
            LimitReached: every session is in use.
        """
        if scope["method"] == "POST":
            send = SingleResponse(send)
        await self._admission({**scope, "user": user_of(scope["user"])}, receive, send)

    async def _run(self, ready: asyncio.Event) -> None:
        # One task from start to end: a task group must be exited by the task that entered it.
        async with self._manager.run():
            ready.set()
            await self._stop.wait()


def _watch_no_uvicorn() -> None:
    """Keep sse-starlette from polling uvicorn's shutdown twice a second: there is no uvicorn.

    Its task would never end, and asyncio would warn about it at the end of the loop. Streams end
    with their sessions (`McpHttp.close`).
    """
    state = getattr(sse_starlette.sse, "_get_shutdown_state", None)
    if state is not None:
        state().watcher_started = True
