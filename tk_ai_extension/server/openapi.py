"""The OpenAPI description of the routes, made from the registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from tk_ai_extension import __version__
from tk_ai_extension.server.openapi_changes import changes_paths
from tk_ai_extension.server.openapi_chat import MODELS, chat_paths
from tk_ai_extension.server.openapi_permissions import permissions_paths
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

_HEALTH: dict[str, Any] = {
    "type": "object",
    "required": ["status", "version", "toolsets", "backends", "chat"],
    "properties": {
        "status": {"const": "ok"},
        "version": {"type": "string"},
        "toolsets": {"type": "array", "items": {"type": "string"}},
        "backends": {"type": "object", "additionalProperties": {"type": "string"}},
        "chat": MODELS,
    },
    "additionalProperties": False,
}

_TOOLS: dict[str, Any] = {
    "type": "object",
    "required": ["tools"],
    "properties": {
        "tools": {
            "type": "array",
            "items": {
                "type": "object",
                "required": [
                    "name",
                    "description",
                    "effect",
                    "destructive",
                    "idempotent",
                    "input_schema",
                    "output_schema",
                ],
                "properties": {
                    "name": {"type": "string"},
                    "description": {"type": "string"},
                    "effect": {"enum": ["READ", "WRITE", "EXECUTE"]},
                    "destructive": {"type": "boolean"},
                    "idempotent": {"type": "boolean"},
                    "input_schema": {"type": "object"},
                    "output_schema": {"type": "object"},
                },
            },
        }
    },
}

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
    "schema": {"type": "string"},
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
            **chat_paths(PREFIX, _operation, schemas),
            f"{PREFIX}/health": {
                "get": _operation("health", "Whether the extension is up", _HEALTH)
            },
            f"{PREFIX}/tools": {
                "get": _operation("list_tools", "The tools and their schemas", _TOOLS, [_TOOLSETS])
            },
            **{f"{PREFIX}/tools/{tool.name}": {"post": _call(tool, schemas)} for tool in registry},
            f"{PREFIX}/executions/{{id}}": {"get": _execution()},
            f"{PREFIX}/artifacts/{{id}}": {"get": _artifact()},
            **changes_paths(PREFIX, _operation),
            **permissions_paths(PREFIX, _operation),
            f"{PREFIX}/openapi.json": {
                "get": _operation("openapi", "This description", {"type": "object"})
            },
        },
        "components": {
            "schemas": schemas,
            "responses": {
                "Error": {
                    "description": "What went wrong, and what to do next",
                    "content": _json({"$ref": "#/components/schemas/Error"}),
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


def _operation(
    name: str,
    summary: str,
    schema: Mapping[str, Any],
    parameters: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    return {
        "operationId": name,
        "summary": summary,
        "parameters": parameters or [],
        "responses": {
            "200": {"description": summary, "content": _json(schema)},
            "default": {"$ref": "#/components/responses/Error"},
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
            "content": _json(_hoisted(tool.input_schema, tool.name, schemas)),
        },
        "responses": {
            "200": {
                "description": "What happened",
                "content": {**_json(answer), "text/plain": {"schema": {"type": "string"}}},
            },
            "default": {"$ref": "#/components/responses/Error"},
        },
    }


def _execution() -> dict[str, Any]:
    operation = _operation("follow_execution", "The events of an execution, as they come", {})
    operation["parameters"] = [
        _id("An execution's id"),
        {
            "name": "Last-Event-ID",
            "in": "header",
            "description": "Goes on after the event with this id",
            "schema": {"type": "string", "pattern": "^[0-9]+(-[0-9]+-[0-9]+-[0-9]+)?$"},
        },
    ]
    operation["responses"]["200"] = {
        "description": "Server-sent events: started, output, input, ended, and at the end done",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
    return operation


def _artifact() -> dict[str, Any]:
    operation = _operation("get_artifact", "An output that was too long to show", {})
    operation["parameters"] = [_id("An artifact's id")]
    operation["responses"]["200"] = {
        "description": "The whole of it, with its own content type",
        "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}},
    }
    return operation


def _id(description: str) -> dict[str, Any]:
    return {
        "name": "id",
        "in": "path",
        "required": True,
        "description": description,
        "schema": {"type": "string"},
    }


def _json(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


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
