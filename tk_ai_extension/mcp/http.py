"""MCP over Streamable HTTP: an ASGI application over the SDK's session manager."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import sse_starlette.sse
from mcp.server import Server
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, AuthorizationContext
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Receive, Scope, Send

from tk_ai_extension._version import __version__
from tk_ai_extension.mcp import ConnectedClient
from tk_ai_extension.mcp.resources import Prompts, Resources
from tk_ai_extension.mcp.tool_calls import CLIENT, INSTRUCTIONS, McpCallers, McpTools, RunningCalls
from tk_ai_extension.tools.registry import Registry
from tk_ai_extension.workspace.workspace import Workspace

_alone: ContextVar[bool] = ContextVar("tk_ai_alone", default=False)
"""Whether the present request can only get its response: no progress, and no question."""


def build_server(
    callers: McpCallers, default_registry: Callable[[], Registry], running: RunningCalls
) -> Server[Any]:
    """Build an MCP server over a workspace.

    Args:
        callers: Returns the callers of its requests.
        default_registry: Returns the tools that read resources.
        running: Runs its calls, and ends them.
    """
    tools = McpTools(callers, running)
    resources = Resources(callers, default_registry)
    prompts = Prompts(resources)
    return Server[Any](
        "tk-ai-extension",
        version=__version__,
        title="Jupyter notebooks",
        instructions=INSTRUCTIONS,
        # No argument of a tool is sent as a header (`x-mcp-header` in a schema).
        get_tool_input_schema=lambda _name: None,
        on_list_tools=tools.list,
        on_call_tool=tools.call,
        on_list_resources=resources.list,
        on_list_resource_templates=resources.templates,
        on_read_resource=resources.read,
        on_list_prompts=prompts.list,
        on_get_prompt=prompts.get,
    )


class McpHttp:
    """MCP over HTTP, with or without sessions, as a request's protocol version requires.

    Requests must be authenticated already. A session belongs to the user who opened it, and does not
    exist for others.

    Args:
        workspace: What the tools work on.
        default_registry: Returns the tools of the default toolsets.
        session_timeout: Seconds after which an idle session ends. One with an open stream is not idle.
        max_sessions: Maximum number of sessions; beyond it, none is opened.
        max_body: Maximum size of a request's body, in bytes.

    Attributes:
        running: The calls of all clients.
    """

    def __init__(
        self,
        workspace: Workspace,
        default_registry: Callable[[], Registry],
        *,
        session_timeout: float,
        max_sessions: int,
        max_body: int,
    ) -> None:
        self.workspace = workspace
        self.default_registry = default_registry
        self.running = RunningCalls()
        self._callers = McpCallers(workspace)
        self._manager = _Sessions(
            build_server(self._callers, default_registry, self.running),
            session_idle_timeout=session_timeout,
            max_sessions=max_sessions,
            max_request_body_size=max_body,
        )
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

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

    async def serve(
        self, client: ConnectedClient, body: bytes, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request of ASGI, with this client and this body."""
        # A call that may wait for a long time gets a stream: its pings keep proxies from closing it.
        alone = (
            client.session in self._callers.silent
            and b"progressToken" not in body
            and b'"wait"' not in body
        )
        token = _alone.set(alone)
        try:
            scope.update(user=_user(client.user), **{CLIENT: client})
            await self._manager.asgi_app(scope, receive, send)
        finally:
            _alone.reset(token)

    async def _run(self, ready: asyncio.Event) -> None:
        # One task from start to end: a task group must be exited by the task that entered it.
        async with self._manager.run():
            ready.set()
            await self._stop.wait()


class _Transport(StreamableHTTPServerTransport):
    """Answers requests that only get a response in JSON, and all others with a stream.

    The SDK decides it for a whole session. A stream of one message costs three chunks and the client's
    connection.
    """

    @property
    def is_json_response_enabled(self) -> bool:
        """Whether the present request is answered in JSON."""
        return _alone.get()

    @is_json_response_enabled.setter
    def is_json_response_enabled(self, _value: bool) -> None:
        """Ignore the setting of the session manager."""


class _Sessions(StreamableHTTPSessionManager):
    """The SDK's session manager with `_Transport`; without the method below, all answers are streams."""

    def _admit_session(  # pyrefly: ignore[bad-override-param-name]
        self, user: AuthorizationContext | None
    ) -> StreamableHTTPServerTransport | None:
        transport = super()._admit_session(user)
        if transport is not None:
            transport.__class__ = _Transport
        return transport


@lru_cache(maxsize=100)
def _user(name: str) -> AuthenticatedUser:
    """Return the user in the form that the SDK's session manager compares."""
    return AuthenticatedUser(AccessToken(token="", client_id=name, scopes=[]))


def _watch_no_uvicorn() -> None:
    """Keep sse-starlette from polling uvicorn's shutdown twice a second: there is no uvicorn.

    Its task would never end, and asyncio would warn about it at the end of the loop. Streams end
    with their sessions (`McpHttp.close`).
    """
    state = getattr(sse_starlette.sse, "_get_shutdown_state", None)
    if state is not None:
        state().watcher_started = True
