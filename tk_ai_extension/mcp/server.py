"""MCP server over the registry, for any transport of the SDK."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import mcp_types as types
from mcp.server import Server
from mcp.shared.exceptions import MCPError

from tk_ai_extension._version import __version__
from tk_ai_extension.mcp import MODE
from tk_ai_extension.mcp.approvals import ElicitingApprover
from tk_ai_extension.mcp.callers import CallerOf, GoneOf, Sessions, in_mode, turn_of
from tk_ai_extension.mcp.calls import Calls, Outcome, RunningCalls
from tk_ai_extension.mcp.descriptions import INSTRUCTIONS, describe, error_content, result_content
from tk_ai_extension.mcp.notifications import ClientLog, ProgressReporter
from tk_ai_extension.mcp.prompts import Prompts
from tk_ai_extension.mcp.resources import Resources, one_page
from tk_ai_extension.mcp.sdk import Context
from tk_ai_extension.model.errors import PermissionRequired, ToolError, UnknownTool
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.registry import Registry
from tk_ai_extension.workspace.workspace import Workspace

RegistryOf = Callable[[Context], Registry]
"""Returns the tools of a request; set by the composition root."""


class Tools:
    """``tools/list`` and ``tools/call``."""

    def __init__(
        self,
        workspace: Workspace,
        *,
        registry_of: RegistryOf,
        caller_of: CallerOf,
        gone_of: GoneOf,
        calls: Calls,
        log: ClientLog,
    ) -> None:
        self._workspace = workspace
        self._registry_of = registry_of
        self._caller_of = caller_of
        self._gone_of = gone_of
        self._calls = calls
        self._log = log

    async def list(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """List the tools of the connection's toolsets."""
        one_page(params)
        return types.ListToolsResult(tools=[describe(tool) for tool in self._registry_of(context)])

    async def call(self, context: Context, params: types.CallToolRequestParams) -> Outcome:
        """Call a tool. An unknown name is a protocol error; all other errors are results."""
        registry = self._registry_of(context)
        try:
            registry.get(params.name)
        except UnknownTool as error:
            raise MCPError(
                types.INVALID_PARAMS, error.message, {"error": error.as_dict()}
            ) from None
        began = time.monotonic()
        result = await self._calls.run(context, self._call(context, registry, params))
        failed = isinstance(result, types.CallToolResult) and result.is_error
        await self._log.send(
            context,
            "warning" if failed else "debug",
            {"tool": params.name, "seconds": round(time.monotonic() - began, 3), "failed": failed},
        )
        return result

    async def _call(
        self, context: Context, registry: Registry, params: types.CallToolRequestParams
    ) -> Outcome:
        progress = ProgressReporter(context.session)
        gone = self._gone_of(context)
        approver = (
            ElicitingApprover(context, params.input_responses, gone)
            if ElicitingApprover.can_ask(context)
            else None
        )
        try:
            turn = turn_of(self._workspace.turns, context)
            if turn is not None:
                return await turn.call(None, params.name, params.arguments or {})
            caller = in_mode(self._caller_of(context), (params.meta or {}).get(MODE))
            tool_context = ToolContext(self._workspace, caller, progress, approver, gone)
            result = await registry.call(params.name, params.arguments or {}, tool_context)
        except PermissionRequired as error:
            if approver is not None and approver.question is not None:
                return approver.question
            return error_content(error)
        except ToolError as error:
            return error_content(error)
        finally:
            await progress.close()
        return result_content(result)


def build_server(
    workspace: Workspace,
    *,
    registry_of: RegistryOf,
    default_registry: Callable[[], Registry],
    caller_of: CallerOf,
    gone_of: GoneOf,
    running: RunningCalls,
) -> Server[Any]:
    """Build an MCP server over a workspace.

    Args:
        workspace: What the tools work on.
        registry_of: Returns the tools of a request.
        default_registry: Returns the tools that read resources.
        caller_of: Returns the caller of a request.
        gone_of: Returns the event that is set when the client of a request disconnects.
        running: Where its calls run, and are ended.
    """
    calls, log = Calls(running), ClientLog()
    resources = Resources(workspace, default_registry, caller_of)
    tools = Tools(
        workspace,
        registry_of=registry_of,
        caller_of=caller_of,
        gone_of=gone_of,
        calls=calls,
        log=log,
    )
    prompts = Prompts(resources)
    server = Server[Any](
        "tk-ai-extension",
        version=__version__,
        title="Jupyter notebooks",
        instructions=INSTRUCTIONS,
        on_list_tools=tools.list,
        on_call_tool=tools.call,
        on_list_resources=resources.list,
        on_list_resource_templates=resources.templates,
        on_read_resource=resources.read,
        on_list_prompts=prompts.list,
        on_get_prompt=prompts.get,
    )
    # Registered by name: the constructor's argument warns that the newest protocol lacks this method.
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, log.set_level)
    server.middleware += [calls.observe, Sessions(workspace, caller_of).observe]
    return server
