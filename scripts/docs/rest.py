"""The REST routes, from the OpenAPI description that the server gives."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast, get_type_hints

from scripts.docs.markdown import code, docstrings, literal, page, table
from tk_ai_extension.server import rest_models
from tk_ai_extension.tools.registry import Tool

METHODS = ("get", "post", "put", "patch", "delete")

Operation = Mapping[str, Any]


def rest_page(
    description: Mapping[str, Any], tools: Sequence[Tool], routes: Sequence[tuple[str, type]]
) -> str:
    """Every route with its parameters, body and answer.

    Args:
        description: The OpenAPI description.
        tools: The tools; their operations are shown together.
        routes: Patterns and handlers, as they are registered.
    """
    names = {tool.name for tool in tools}
    meanings = body_meanings(routes)
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
        "Bodies are `application/json`; anything else is refused, and so is a field that is not in the "
        "table. Bold fields are required. Errors are "
        '[typed](errors.md): `{"error": {"code", "message", "hint", "retryable"}}`.',
        *(
            _operation(*each, description["components"]["schemas"], meanings)
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


def body_meanings(routes: Sequence[tuple[str, type]]) -> Mapping[str, Mapping[str, str]]:
    """By the id of an operation, the docstrings of the fields of its body."""
    found: dict[str, Mapping[str, str]] = {}
    for _, handler in routes:
        for name in methods_of(handler):
            method = getattr(handler, name.lower())
            body = _annotations(inspect.unwrap(method)).get("body")
            if body is not None:
                found[method.operation.id] = _described(body)
    return found


def _annotations(method: Callable[..., Any]) -> Mapping[str, Any]:
    return get_type_hints(method, {**method.__globals__, **vars(rest_models)})


def _described(model: type) -> Mapping[str, str]:
    own = [
        each for each in reversed(model.__mro__) if each.__module__.startswith("tk_ai_extension")
    ]
    return {name: text for each in own for name, text in docstrings(each).items()}


def _operation(
    method: str,
    path: str,
    operation: Operation,
    schemas: Mapping[str, Any],
    meanings: Mapping[str, Mapping[str, str]],
) -> str:
    about = operation.get("description") or operation["summary"]
    kinds = ", ".join(code(kind) for kind in operation["responses"]["200"].get("content", {}))
    answer = operation["responses"]["200"]["description"]
    suffix = "" if answer == operation["summary"] else f": {answer}"
    described = meanings.get(operation["operationId"], {})
    body = _fields(operation.get("requestBody", {}), schemas, described)
    return "\n\n".join(
        part
        for part in (
            f"## {method} {path}",
            about.rstrip(".") + ".",
            _parameters(operation),
            "The body:" if body else "",
            body,
            f"Answers with {kinds}{suffix}.",
            _fields(operation["responses"]["200"], schemas),
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


def _fields(
    owner: Mapping[str, Any],
    schemas: Mapping[str, Any],
    body: Mapping[str, str] | None = None,
) -> str:
    """The fields of an answer in JSON, or of a body with the meanings of its fields."""
    content = owner.get("content", {}).get("application/json", {})
    schema = _resolved(content.get("schema", {}), schemas)
    properties: Mapping[str, Mapping[str, Any]] = schema.get("properties", {})
    required = () if body is None else schema.get("required", ())
    return table(
        ["field", "type", "meaning"],
        (
            [
                f"**{code(name)}**" if name in required else code(name),
                _form(field, schemas),
                str(field.get("description", ""))
                if body is None
                else _meaning(field, body.get(name, "")),
            ]
            for name, field in properties.items()
        ),
    )


def _meaning(field: Mapping[str, Any], described: str) -> str:
    said = str(field.get("description", "")) or described
    default = field.get("default")
    empty = default is None or default in ("", [], {})
    return said if empty else f"{said} Default: {literal(default)}.".strip()


def _resolved(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    name = schema.get("$ref")
    return schema if name is None else schemas[name.rpartition("/")[2]]


def _form(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    """The type of a value in words; for an object, the names of its fields."""
    schema = _resolved(schema, schemas)
    if "discriminator" in schema:
        key = schema["discriminator"]["propertyName"]
        return f"object, by {code(key)}: {', '.join(schema['discriminator']['mapping'])}"
    if either := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(_form(each, schemas) for each in either)
    if values := schema.get("enum"):
        return ", ".join(literal(value) for value in values)
    if "const" in schema:
        return literal(schema["const"])
    kind = schema.get("type", "any value")
    if isinstance(kind, list):
        return " or ".join(cast("list[str]", kind))
    if kind == "array":
        return f"array of {_form(schema.get('items', {}), schemas)}"
    names = schema.get("properties", ())
    return f"object with {', '.join(code(name) for name in names)}" if names else str(kind)
