"""MCP server that offers the registry's tools to an agent's process.

Names, descriptions, schemas, annotations and results are those of the MCP interface. Structured
content is omitted: agents would show it to the model instead of the text.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import mcp_types as types
from mcp.server import Server
from mcp.server.context import ServerRequestContext

from tk_ai_extension._version import __version__
from tk_ai_extension.agent.backend import ToolCall
from tk_ai_extension.mcp.calls import describe
from tk_ai_extension.tools.registry import Registry

SERVER = "tk"
"""Name of the MCP server in an agent: most models see the tools as ``mcp__tk__name``."""

CALL_ID = "claudecode/toolUseId"
"""Key in ``_meta`` under which Claude's CLI sends the id of the model's call."""

INLINE = {"anthropic/maxResultSizeChars": 500_000}
"""Limit of Claude's CLI for a result, in characters; it writes a longer one to a file,
which Claude cannot read. Our results have lower limits of their own."""


def build_tool_server(registry: Registry, call: ToolCall) -> Server[Any]:
    """Build the MCP server of one chat.

    Args:
        registry: The tools.
        call: Carries out a call; its id is the model's, or a random one if the agent sends none.
    """
    tools = [_described(each) for each in map(describe, registry)]

    async def on_list(
        _context: ServerRequestContext[Any, Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def on_call(
        context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        meta: Mapping[str, Any] = dict(context.meta or {})
        call_id = str(meta.get(CALL_ID) or f"call-{secrets.token_hex(8)}")
        result = await call(call_id, params.name, params.arguments or {})
        return result.model_copy(update={"structured_content": None})

    return Server[Any](
        "tk-ai-extension", version=__version__, on_list_tools=on_list, on_call_tool=on_call
    )


def _described(tool: types.Tool) -> types.Tool:
    return tool.model_copy(update={"output_schema": None, "meta": INLINE})
