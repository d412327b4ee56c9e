"""The OpenAPI description, generated from the routes, their models and the tools."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import NoneType
from typing import Any, cast, get_args, get_type_hints

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from tk_ai_extension._version import __version__
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.server import rest_models
from tk_ai_extension.server.handlers.base_handler import TkAIHandler
from tk_ai_extension.server.handlers.openapi_operations import CALLER, TOOLSETS, OpenAPIOperation
from tk_ai_extension.server.handlers.routes import ROUTES
from tk_ai_extension.server.handlers.tools import ToolHandler
from tk_ai_extension.tools.registry import Registry, Tool

Schema = Json

TEXT: Schema = {"type": "string"}
ERROR = {"default": {"$ref": "#/components/responses/Error"}}
SHARED = frozenset(
    model.__name__ for model in (*rest_models.CHAT_EVENTS, *get_args(rest_models.Attachment))
)
"""Models that are components, shared by several operations."""


@lru_cache(maxsize=1)
def describe(registry: Registry, base_url: str) -> Mapping[str, Any]:
    """Return the description of a server's routes, as OpenAPI 3.1.

    This blocks the server for a tenth of a second, so it is done once.

    Args:
        registry: The tools; each has its own path.
        base_url: The server's prefix.
    """
    schemas: dict[str, Schema] = {"Error": _schema(rest_models.ErrorAnswer, {})}
    # The response of a failed turn has more fields.
    del schemas["Error"]["additionalProperties"]
    paths: Json = {}
    for pattern, handler in ROUTES:
        if handler is ToolHandler:
            for tool in registry:
                paths[_path(pattern, [tool.name])] = {"post": _call(tool, schemas)}
        elif methods := _methods(handler):
            arguments = _arguments(next(iter(methods.values()))[1])
            paths[_path(pattern, [f"{{{_name(each)}}}" for each in arguments])] = {
                name: _described(*each, schemas) for name, each in methods.items()
            }
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
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": {
                "Error": {
                    "description": "An error: what happened and what to do",
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


def _methods(
    handler: type[TkAIHandler],
) -> dict[str, tuple[OpenAPIOperation, Callable[..., Any]]]:
    """Return the operations of a route, by the name of the HTTP method."""
    found: dict[str, tuple[OpenAPIOperation, Callable[..., Any]]] = {}
    for name in map(str.lower, handler.methods()):
        method = getattr(handler, name)
        operation: OpenAPIOperation | None = getattr(method, "operation", None)
        if operation is not None:
            found[name] = operation, inspect.unwrap(method)
    return found


def _path(pattern: str, groups: Iterable[str]) -> str:
    """Return the path of a route's pattern, with a string in place of each group."""
    texts = iter(groups)
    return "/" + re.sub(r"\([^()]*\)", lambda _: next(texts), pattern).replace("\\", "")


def _arguments(method: Callable[..., Any]) -> list[str]:
    """Return the arguments of an operation that are in its path, in order."""
    return [name for name in inspect.signature(method).parameters if name not in ("self", "body")]


def _name(argument: str) -> str:
    """Return the name of a parameter in the path: `id` identifies the resource of the route."""
    return "id" if argument.endswith("_id") else argument


def _described(
    operation: OpenAPIOperation, method: Callable[..., Any], schemas: dict[str, Schema]
) -> Json:
    """Describe an operation: its path, query, body and responses."""
    hints = get_type_hints(method, {**method.__globals__, **vars(rest_models)})
    answer = hints.pop("return")
    if NoneType in get_args(answer):
        answer = get_args(answer)[0]
    body = hints.get("body")
    text = _prose(inspect.cleandoc(method.__doc__ or ""))
    summary = _first_sentence(text)
    content: Json = {}
    if answer is not NoneType:
        content = _json(_schema(answer, schemas))
    for media in operation.media:
        content[media] = {"schema": _media_schema(media)}
    if operation.streams:
        events = _schema(getattr(rest_models, operation.streams), schemas)
        content["text/event-stream"] = {"schema": _event(events)}
    taken = body and _schema(body, schemas, mode="validation")
    return {
        "operationId": operation.id,
        "summary": summary,
        "description": text,
        "parameters": [*map(_in_path, _arguments(method)), *operation.parameters],
        **({"requestBody": _body(taken)} if taken else {}),
        "responses": {"200": {"description": summary, "content": content}, **ERROR},
    }


def _call(tool: Tool, schemas: dict[str, Schema]) -> Json:
    def component(name: str) -> str:
        return f"{tool.name}.{name}"

    description = " ".join(tool.description.split())
    content = _json(_placed(tool.output_schema, schemas, component))
    return {
        "operationId": tool.name,
        "summary": _first_sentence(description),
        "description": description,
        "tags": [tool.effect],
        "parameters": [CALLER, TOOLSETS],
        "requestBody": _body(_placed(tool.input_schema, schemas, component)),
        "responses": {
            "200": {
                "description": "The result",
                "content": {**content, "text/plain": {"schema": TEXT}},
            },
            **ERROR,
        },
    }


def _json(schema: Mapping[str, Any]) -> Json:
    return {"application/json": {"schema": schema}}


def _body(schema: Schema) -> Json:
    return {"required": bool(schema.get("required")), "content": _json(schema)}


def _in_path(argument: str) -> Json:
    name = _name(argument)
    described = f"The {argument.removesuffix('_id')}" + ("'s id" if name == "id" else "")
    return {"name": name, "in": "path", "required": True, "description": described, "schema": TEXT}


def _media_schema(media: str) -> Schema:
    if media == "application/json":
        return {"type": "object"}
    return {**TEXT, "format": "binary"} if media == "*/*" else TEXT


def _event(data: Schema) -> Schema:
    """Describe a server-sent event with data in this JSON schema."""
    text = {**TEXT, "contentMediaType": "application/json", "contentSchema": data}
    return {
        "type": "object",
        "required": ["data"],
        "properties": {"id": TEXT, "event": TEXT, "data": text},
        "additionalProperties": False,
    }


def definitions(found: Sequence[Any]) -> dict[str, Schema]:
    """Return the schemas of models and of all models that they refer to, by class name."""
    inputs: list[Any] = [
        (number, "serialization", TypeAdapter(each)) for number, each in enumerate(found)
    ]
    _, made = TypeAdapter.json_schemas(inputs, schema_generator=_ModelSchema)
    return made["$defs"]


def _schema(model: Any, schemas: dict[str, Schema], mode: Any = "serialization") -> Schema:
    made = TypeAdapter(model).json_schema(mode=mode, schema_generator=_ModelSchema)
    return _placed(made, schemas, lambda name: f"chat.{name}" if name in SHARED else None)


class _ModelSchema(GenerateJsonSchema):
    """JSON schemas without titles and without unknown fields; docstrings describe the fields."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> Schema:
        return _documented(super().typed_dict_schema(schema), cast("Any", schema).get("cls"))

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> Schema:
        return _documented(super().dataclass_schema(schema), schema["cls"])

    def model_schema(self, schema: core_schema.ModelSchema) -> Schema:
        return _documented(super().model_schema(schema), schema["cls"])


def _documented(schema: Schema, model: type[Any]) -> Schema:
    """Return the schema of a class with descriptions from its docstring."""
    summary, described = _docstring(model)
    properties: dict[str, Schema] = schema.get("properties", {})
    if is_dataclass(model):
        for field in fields(model):
            if field.metadata.get("internal"):
                del properties[field.name]
        for each in properties.values():
            each.pop("default", None)
        schema["required"] = list(properties)
    for name in properties.keys() & described.keys():
        properties[name]["description"] = described[name]
    schema.pop("title", None)
    if summary:
        schema["description"] = summary
    return {**schema, "additionalProperties": False}


def _docstring(model: type[Any]) -> tuple[str, dict[str, str]]:
    """Return the first paragraph of a class's docstring, and its attributes (Google style)."""
    text = inspect.cleandoc(model.__doc__ or "")
    summary, _, rest = text.partition("\n\n")
    section = rest.partition("Attributes:\n")[2].partition("\n\n")[0]
    described: dict[str, str] = {}
    for entry in re.split(r"\n(?=    \w)", f"\n{section}")[1:]:
        names, _, words = entry.partition(":")
        for name in names.split(","):
            described[name.strip()] = _prose(words)
    return _prose(summary), described


def _prose(text: str) -> str:
    """Return the text of a docstring in one line, as Markdown."""
    return " ".join(text.replace("``", "`").split())


def _first_sentence(text: str) -> str:
    """Return the first sentence of a text, without its full stop.

    >>> _first_sentence("Write it back. Merges it with others' changes.")
    'Write it back'
    """
    return re.split(r"\.(?:\s|$)", text, maxsplit=1)[0]


def _placed(
    schema: Mapping[str, Any],
    schemas: dict[str, Schema],
    component: Callable[[str], str | None],
) -> Schema:
    """Return a schema with its definitions as components or inlined.

    Args:
        schema: A schema, perhaps with ``$defs``.
        schemas: The components; receives those that the schema refers to.
        component: Returns the component name of a definition; None to inline it.
    """
    definitions: Json = schema.get("$defs", {})

    def reference(name: str) -> str | None:
        found = component(name)
        if found is not None and found not in schemas:
            schemas[found] = {}
            schemas[found] = walk(definitions[name])
        return found and f"#/components/schemas/{found}"

    def walk(node: Any) -> Any:
        if isinstance(node, list):
            return [walk(item) for item in cast("list[Any]", node)]
        if not isinstance(node, dict):
            return node
        items = dict(cast("Json", node))
        items.pop("$defs", None)
        choice: Any = items.get("discriminator")
        if isinstance(choice, dict) and "mapping" in choice:
            choice = cast("Json", items.pop("discriminator"))
            targets = choice["mapping"].items()
            mapping = {kind: reference(target.rpartition("/")[2]) for kind, target in targets}
            # The union contains references only.
            if None not in mapping.values():
                return {**walk(items), "discriminator": {**choice, "mapping": mapping}}
        if isinstance(items.get("$ref"), str):
            name = items.pop("$ref").rpartition("/")[2]
            target = reference(name)
            found: Schema = walk(definitions[name]) if target is None else {"$ref": target}
            return {**found, **walk(items)}
        return {key: walk(value) for key, value in items.items()}

    return walk(schema)
