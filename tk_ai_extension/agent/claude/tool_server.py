"""The registry as the MCP server that Claude's process has its tools from.

Names, descriptions, schemas, annotations and answers are those of the MCP face. The structured
reading is left out: the CLI would show it to the model in the place of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import mcp_types as types
from mcp.server import Server
from mcp.server.context import ServerRequestContext

from tk_ai_extension import __version__
from tk_ai_extension.agent.backend import ToolCall
from tk_ai_extension.mcp.descriptions import describe
from tk_ai_extension.tools.registry import Registry

SERVER = "tk"
"""What the CLI calls our MCP server: tools are ``mcp__tk__name`` to the model."""

CALL_ID = "claudecode/toolUseId"
"""Under this the CLI says in ``_meta`` which of the model's calls it carries out."""
INLINE = {"anthropic/maxResultSizeChars": 500_000}
"""Up to so many characters an answer reaches the model; a longer one would become a file's name,
which Claude cannot read. Our answers are within budgets of their own."""


def build_tool_server(registry: Registry, call: ToolCall, token: Callable[[], str]) -> Server[Any]:
    """An MCP server for one chat.

    Args:
        registry: The tools.
        call: Calls one; never raises what is not a cancellation.
        token: Gives the token of the turn under way.
    """
    tools = [_described(describe(tool)) for tool in registry]

    async def on_list(
        _context: ServerRequestContext[Any, Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def on_call(
        context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        meta: Mapping[str, Any] = dict(context.meta or {})
        call_id = str(meta.get(CALL_ID) or f"call-{context.request_id}")
        result = await call(token(), call_id, params.name, params.arguments or {})
        return result.model_copy(update={"structured_content": None})

    return Server[Any](
        "tk-ai-extension", version=__version__, on_list_tools=on_list, on_call_tool=on_call
    )


def _described(tool: types.Tool) -> types.Tool:
    return tool.model_copy(update={"output_schema": None, "meta": INLINE})
