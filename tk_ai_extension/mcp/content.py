"""Answers and errors as MCP carries them: text and pictures for a model, structure for a program."""

from __future__ import annotations

import mcp_types as types

from tk_ai_extension.model.encoding import encodable, encodable_text
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.tools.results import Result


def result_content(result: Result) -> types.CallToolResult:
    """A tool's answer: the whole compact reading, the pictures, and the structured reading beside."""
    return types.CallToolResult(
        content=[
            types.TextContent(text=result.full_text()),
            *(types.ImageContent(data=image.data, mime_type=image.mime) for image in result.images),
        ],
        structured_content=result.structured(),
        is_error=result.is_error,
    )


def error_content(error: ToolError) -> types.CallToolResult:
    """A tool's failure, which the model is to read and act on."""
    return types.CallToolResult(
        content=[types.TextContent(text=encodable_text(error.as_text()))],
        structured_content={"error": encodable(error.as_dict())},
        is_error=True,
    )
