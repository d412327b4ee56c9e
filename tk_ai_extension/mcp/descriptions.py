"""How MCP describes a tool: names, schemas and annotations, all taken from its definition."""

from __future__ import annotations

from typing import Any

import mcp_types as types

from tk_ai_extension.tools.registry import Tool

ERROR_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "Why the call failed",
    "properties": {
        "code": {"type": "string"},
        "message": {"type": "string"},
        "hint": {"type": "string"},
        "retryable": {"type": "boolean"},
        "details": {"type": "object"},
    },
    "required": ["code", "message", "hint", "retryable"],
}
"""`ToolError.as_dict` as a schema."""


def describe(tool: Tool) -> types.Tool:
    """The entry of a tool in ``tools/list``."""
    return types.Tool(
        name=tool.name,
        title=tool.name.replace("_", " ").capitalize(),
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=answer_schema(tool),
        annotations=types.ToolAnnotations(
            read_only_hint=tool.effect == "READ",
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
            # Code that runs in a kernel can reach anything; the rest stays in notebooks and files.
            open_world_hint=tool.effect == "EXECUTE",
        ),
    )


def answer_schema(tool: Tool) -> dict[str, Any]:
    """The schema of ``structuredContent``: the tool's answer, or an error.

    Some clients hold even an error's structured content against the output schema, so that the
    schema has to have a place for it. Its root stays an object, as the 2025-11-25 protocol demands.
    """
    schema = dict(tool.output_schema)
    required = schema.pop("required", [])
    schema["properties"] = {**schema.get("properties", {}), "error": ERROR_SCHEMA}
    schema["anyOf"] = [{"required": required}, {"required": ["error"]}]
    return schema
