"""MCP server over the registry, for any transport of the SDK."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mcp_types as types
from mcp.server import Server
from mcp.shared.exceptions import MCPError

from tk_ai_extension._version import __version__
from tk_ai_extension.mcp import MODE, McpClient
from tk_ai_extension.mcp.approvals import ElicitingApprover
from tk_ai_extension.mcp.calls import Outcome, ProgressReporter, RunningCalls
from tk_ai_extension.mcp.descriptions import INSTRUCTIONS, describe, error_content, result_content
from tk_ai_extension.mcp.prompts import Prompts
from tk_ai_extension.mcp.requests import Context, Requests, can_ask, in_mode, one_page
from tk_ai_extension.mcp.resources import Resources
from tk_ai_extension.model.errors import PermissionRequired, ToolError, UnknownTool
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.registry import Registry


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
