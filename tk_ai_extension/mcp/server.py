"""MCP server over the registry, for any transport of the SDK.

Calls outlive their connections. After a disconnect a call continues: a lost connection must not kill a
training run. ``notifications/cancelled`` cancels the call, and the tool interrupts its code. The SDK
cancels the handler in both cases (docs/adr/0011).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import mcp_types as types
from mcp.server import Server
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError

from tk_ai_extension._version import __version__
from tk_ai_extension.mcp import MODE, McpClient
from tk_ai_extension.mcp.approvals import ElicitingApprover
from tk_ai_extension.mcp.descriptions import INSTRUCTIONS, describe, error_content, result_content
from tk_ai_extension.mcp.requests import (
    Context,
    Requests,
    can_ask,
    in_mode,
    is_cancelled,
    one_page,
)
from tk_ai_extension.mcp.resources import Prompts, Resources
from tk_ai_extension.model.errors import PermissionRequired, ToolError, UnknownTool
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.registry import Registry

logger = logging.getLogger(__name__)

GRACE = 0.5
"""Grace period for calls when the server stops, in seconds."""
MAX_WAITING = 100
"""Maximum number of queued reports for a slow client; the oldest are dropped: the result is complete."""
DRAIN = 1.0
"""Grace period for queued reports before the result, in seconds."""

Outcome = types.CallToolResult | types.InputRequiredResult
"""Result of a tool call."""


class RunningCalls:
    """Running calls of all clients."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Outcome]] = set()

    async def run(self, context: Context, call: Coroutine[Any, Any, Outcome]) -> Outcome:
        """Run a call to its end, even after a disconnect."""
        task = asyncio.create_task(call)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if is_cancelled(context):
                task.cancel()
            elif not task.done():
                logger.info("The client of %s has disconnected; the call continues", context.method)
            raise

    async def close(self) -> None:
        """End all calls: calls with ended executions return by themselves, the others are cancelled."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=GRACE)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Outcome]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # A waiting client gets the exception as well; otherwise this is the only trace.
            logger.error("A tool call failed", exc_info=error)


class ProgressReporter:
    """Sends a tool's progress in order, as fast as the client reads; never blocks the tool."""

    def __init__(self, session: ServerSession) -> None:
        self._session = session
        # None is the end.
        self._waiting: asyncio.Queue[str | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def __call__(self, message: str) -> None:
        """Queue a report; does not block."""
        if self._closed:
            return
        if self._waiting.qsize() == MAX_WAITING:
            self._waiting.get_nowait()
        self._waiting.put_nowait(message)
        if self._task is None:
            self._task = asyncio.create_task(self._send())

    async def close(self) -> None:
        """Flush queued reports for a moment, then drop the rest: the result follows."""
        self._closed = True
        if self._task is not None:
            self._waiting.put_nowait(None)
            await asyncio.wait((self._task,), timeout=DRAIN)
            self._task.cancel()
            (failed,) = await asyncio.gather(self._task, return_exceptions=True)
            if isinstance(failed, Exception):
                logger.warning("Reporting progress failed", exc_info=failed)

    async def _send(self) -> None:
        sent = 0
        while (message := await self._waiting.get()) is not None:
            sent += 1
            await self._session.report_progress(sent, message=message)


class Tools:
    """``tools/list`` and ``tools/call``."""

    def __init__(self, requests: Requests, running: RunningCalls) -> None:
        self._requests = requests
        self._running = running

    async def list(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """List the tools of the connection's toolsets."""
        one_page(params)
        registry = self._requests.client_of(context).registry
        return types.ListToolsResult(tools=[describe(tool) for tool in registry])

    async def call(self, context: Context, params: types.CallToolRequestParams) -> Outcome:
        """Call a tool. An unknown name is a protocol error; all other errors are results."""
        client = self._requests.client_of(context)
        try:
            client.registry.get(params.name)
        except UnknownTool as error:
            data = {"error": error.as_dict()}
            raise MCPError(types.INVALID_PARAMS, error.message, data) from None
        return await self._running.run(context, self._call(context, client, params))

    async def _call(
        self, context: Context, client: McpClient, params: types.CallToolRequestParams
    ) -> Outcome:
        arguments = params.arguments or {}
        progress = ProgressReporter(context.session)
        approver = None
        if can_ask(context):
            approver = ElicitingApprover(context, params.input_responses, client.gone)
        try:
            if client.turn is not None:
                return await client.turn.call(None, params.name, arguments)
            caller = in_mode(self._requests.caller(context), (params.meta or {}).get(MODE))
            tool_context = ToolContext(
                self._requests.workspace, caller, progress, approver, client.gone
            )
            return result_content(await client.registry.call(params.name, arguments, tool_context))
        except PermissionRequired as error:
            if approver is not None and approver.question is not None:
                return approver.question
            return error_content(error)
        except ToolError as error:
            return error_content(error)
        finally:
            await progress.close()


def build_server(
    requests: Requests, default_registry: Callable[[], Registry], running: RunningCalls
) -> Server[Any]:
    """Build an MCP server over a workspace.

    Args:
        requests: Returns the clients and callers of its requests.
        default_registry: Returns the tools that read resources.
        running: Where its calls run, and are ended.
    """
    tools = Tools(requests, running)
    resources = Resources(requests, default_registry)
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
