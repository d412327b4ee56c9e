"""The OpenAPI description of the routes, made from the registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from tk_ai_extension import __version__
from tk_ai_extension.server.openapi.changes import changes_paths
from tk_ai_extension.server.openapi.chat import MODELS, chat_paths
from tk_ai_extension.server.openapi.permissions import permissions_paths
from tk_ai_extension.server.openapi.schemas import (
    FLAG,
    NAMES,
    SOME,
    TEXT,
    content,
    event_of,
    in_path,
    instead,
    last_event_id,
    list_of,
    object_of,
    operation,
)
from tk_ai_extension.tools.registry import Registry, Tool

PREFIX = "/api/tk-ai"

_ERROR: dict[str, Any] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "hint", "retryable"],
            "properties": {
                "code": {"type": "string", "description": "Stable; names the kind of error"},
                "message": {"type": "string"},
                "hint": {"type": "string", "description": "What to do next"},
                "retryable": {"type": "boolean"},
                "details": {"type": "object"},
            },
        }
    },
}

_HEALTH = object_of(
    status={"enum": ["ok", "degraded"]},
    problems=list_of(cast("dict[str, Any]", _ERROR["properties"]["error"])),
    version=TEXT,
    features=NAMES,
    toolsets=NAMES,
    backends={"type": "object", "additionalProperties": TEXT},
    missing_parts={"type": "object", "additionalProperties": NAMES},
    chat=MODELS,
)

_TOOLS = object_of(
    tools=list_of(
        object_of(
            name=TEXT,
            description=TEXT,
            effect={"enum": ["READ", "WRITE", "EXECUTE"]},
            destructive=FLAG,
            idempotent=FLAG,
            input_schema=SOME,
            output_schema=SOME,
        )
    )
)

_CALLER = {
    "name": "caller",
    "in": "query",
    "description": "Names the session of calls that belong together; X-TK-Caller does the same",
    "schema": {"type": "string", "maxLength": 200},
}
_TOOLSETS = {
    "name": "toolsets",
    "in": "query",
    "description": "Toolsets to choose from, with commas between; the server's usual ones if left out",
    "schema": {"type": "string", "minLength": 1},
}


def describe(registry: Registry, base_url: str) -> dict[str, Any]:
    """The description of a server's routes, as OpenAPI 3.1.

    Args:
        registry: The tools; each has a path of its own.
        base_url: The server's own prefix.
    """
    schemas: dict[str, Any] = {"Error": _ERROR}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "tk-ai-extension",
            "version": __version__,
            "description": "Notebook tools for programs. MCP clients use `/api/tk-ai/mcp` instead.",
            "license": {"name": "BSD-3-Clause", "identifier": "BSD-3-Clause"},
        },
        "servers": [{"url": base_url.rstrip("/") or "/"}],
        "security": [{"token": []}, {"tokenInQuery": []}],
        "paths": {
            **chat_paths(PREFIX, schemas),
            f"{PREFIX}/health": {
                "get": operation("health", "Whether the extension is up", _HEALTH)
            },
            f"{PREFIX}/tools": {
                "get": operation("list_tools", "The tools and their schemas", _TOOLS, [_TOOLSETS])
            },
            **{f"{PREFIX}/tools/{tool.name}": {"post": _call(tool, schemas)} for tool in registry},
            f"{PREFIX}/executions/{{id}}": {"get": _execution()},
            f"{PREFIX}/artifacts/{{id}}": {"get": _artifact()},
            **changes_paths(PREFIX),
            **permissions_paths(PREFIX),
            f"{PREFIX}/openapi.json": {
                "get": operation("openapi", "This description", {"type": "object"})
            },
        },
        "components": {
            "schemas": schemas,
            "responses": {
                "Error": {
                    "description": "What went wrong, and what to do next",
                    "content": content({"$ref": "#/components/schemas/Error"}),
                }
            },
            "securitySchemes": {
                "token": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Authorization",
                    "description": "`token TOKEN` or `Bearer TOKEN`, with the server's token",
                },
                "tokenInQuery": {"type": "apiKey", "in": "query", "name": "token"},
            },
        },
    }


def _call(tool: Tool, schemas: dict[str, Any]) -> dict[str, Any]:
    summary, _, rest = tool.description.partition("\n")
    answer = _hoisted(tool.output_schema, tool.name, schemas)
    return {
        "operationId": tool.name,
        "summary": summary,
        "description": rest.strip() or summary,
        "tags": [tool.effect],
        "parameters": [_CALLER, _TOOLSETS],
        "requestBody": {
            "required": bool(tool.input_schema.get("required")),
            "content": content(_hoisted(tool.input_schema, tool.name, schemas)),
        },
        "responses": {
            "200": {
                "description": "What happened",
                "content": {**content(answer), "text/plain": {"schema": {"type": "string"}}},
            },
            "default": {"$ref": "#/components/responses/Error"},
        },
    }


def _execution() -> dict[str, Any]:
    parameters = [
        in_path("An execution's id"),
        last_event_id(
            "Goes on after the event with this id", "^([0-9]+(-[0-9]+-[0-9]+-[0-9]+)?)?$"
        ),
    ]
    follow = operation(
        "follow_execution", "The events of an execution, as they come", {}, parameters
    )
    events = "Server-sent events: started, output, input, ended, and at the end done"
    return instead(follow, events, "text/event-stream", of=event_of(TEXT))


def _artifact() -> dict[str, Any]:
    get = operation(
        "get_artifact", "An output that was too long to show", {}, [in_path("An artifact's id")]
    )
    whole = "The whole of it, with its own content type"
    return instead(get, whole, "*/*", of={**TEXT, "format": "binary"})


def _hoisted(schema: Mapping[str, Any], prefix: str, schemas: dict[str, Any]) -> dict[str, Any]:
    """A schema whose definitions went to the components, under names of their own."""
    definitions = cast("dict[str, Any]", schema.get("$defs", {}))
    for name, definition in definitions.items():
        schemas[f"{prefix}.{name}"] = _rewritten(definition, prefix)
    return _rewritten({key: value for key, value in schema.items() if key != "$defs"}, prefix)


def _rewritten(node: Any, prefix: str) -> Any:
    if isinstance(node, list):
        return [_rewritten(item, prefix) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    items = cast("dict[str, Any]", node)
    return {
        key: f"#/components/schemas/{prefix}.{value.removeprefix('#/$defs/')}"
        if key == "$ref" and isinstance(value, str)
        else _rewritten(value, prefix)
        for key, value in items.items()
    }
