"""The REST routes, from the OpenAPI description that the server gives."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scripts.docs.markdown import code, page, table
from tk_ai_extension.tools.registry import Tool

METHODS = ("get", "post", "put", "patch", "delete")

Operation = Mapping[str, Any]


def rest_page(
    description: Mapping[str, Any], tools: Sequence[Tool], routes: Sequence[tuple[str, type]]
) -> str:
    """Every route: what it takes and what it answers.

    Args:
        description: The OpenAPI description.
        tools: The tools; their operations are shown together.
        routes: Patterns and handlers, as they are registered.
    """
    names = {tool.name for tool in tools}
    return page(
        "REST",
        "*For authors of programs that use HTTP without MCP.*",
        f"The paths begin with the server's `base_url`. `/api/tk-ai/openapi.json` describes them as OpenAPI "
        f"{description['openapi']}; this page is generated from that description.",
        table(
            ["route", "methods"],
            (
                [code(path_of(pattern)), ", ".join(methods_of(handler))]
                for pattern, handler in routes
                if methods_of(handler)
            ),
        ),
        "Any other path below `/api/tk-ai` is a typed error. MCP has its own protocol at "
        "`/api/tk-ai/mcp`: see [Connect an agent](../connect.md).",
        "## Authentication",
        table(
            ["scheme", "where", "form"],
            (
                [code(name), f"{scheme['in']} `{scheme['name']}`", scheme.get("description", "")]
                for name, scheme in description["components"]["securitySchemes"].items()
            ),
        ),
        "A request with a cookie instead of a token needs the XSRF header, as everywhere in Jupyter Server. "
        "Bodies are `application/json`; anything else is refused. Errors are "
        '[typed](errors.md): `{"error": {"code", "message", "hint", "retryable"}}`.',
        *(
            _operation(*each)
            for each in operations(description)
            if each[2]["operationId"] not in names
        ),
        "## POST /api/tk-ai/tools/{name}",
        "Calls a tool. The body is an object with its arguments; the answer is the tool's structured "
        "reading, or its compact text with `Accept: text/plain`.",
        _parameters(
            next((op for _, _, op in operations(description) if op["operationId"] in names), {})
        ),
        table(
            ["tool", "arguments", "answer"],
            (
                [
                    f"[`{tool.name}`](tools.md#{tool.name})",
                    ", ".join(
                        f"**`{name}`**"
                        if name in tool.input_schema.get("required", ())
                        else code(name)
                        for name in tool.input_schema["properties"]
                    ),
                    f"[`{tool.result.__name__}`](tools.md#{tool.result.__name__})",
                ]
                for tool in tools
            ),
        ),
        "Bold arguments are required.",
    )


def operations(description: Mapping[str, Any]) -> Iterator[tuple[str, str, Operation]]:
    """Method, path and operation, in the description's order."""
    for path, item in description["paths"].items():
        for method in METHODS:
            if method in item:
                yield method.upper(), path, item[method]


def path_of(pattern: str) -> str:
    """A route's path as a person writes it: ``([^/]+)`` is a parameter."""
    return "/" + re.sub(r"\([^)]*\)", "{…}", pattern).replace("\\", "").lstrip("/")


def methods_of(handler: type) -> list[str]:
    """The methods that a handler answers itself."""
    return [method.upper() for method in METHODS if method in vars(handler)]


def _operation(method: str, path: str, operation: Operation) -> str:
    about = operation.get("description") or operation["summary"]
    kinds = ", ".join(code(kind) for kind in operation["responses"]["200"].get("content", {}))
    answer = operation["responses"]["200"]["description"]
    suffix = "" if answer == operation["summary"] else f": {answer}"
    return "\n\n".join(
        part
        for part in (
            f"## {method} {path}",
            about.rstrip(".") + ".",
            _parameters(operation),
            f"Answers with {kinds}{suffix}.",
            _properties(operation),
        )
        if part
    )


def _parameters(operation: Operation) -> str:
    return table(
        ["parameter", "in", "type", "meaning"],
        (
            [
                code(each["name"]),
                each["in"],
                str(each["schema"].get("type", "")),
                each.get("description", "") + ("" if each.get("required") else " (optional)"),
            ]
            for each in operation.get("parameters", ())
        ),
    )


def _properties(operation: Operation) -> str:
    content = operation["responses"]["200"].get("content", {}).get("application/json", {})
    properties: Mapping[str, Any] = content.get("schema", {}).get("properties", {})
    return table(
        ["field", "type"],
        (
            [code(name), str(schema.get("type", schema.get("const", "")))]
            for name, schema in properties.items()
        ),
    )
