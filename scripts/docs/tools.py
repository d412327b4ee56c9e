"""The tools, from the registry."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, get_args

from pydantic import BaseModel

from scripts.docs.markdown import code, docstrings, literal, page, prose, sentence, table
from tk_ai_extension.mcp.tool_calls import describe
from tk_ai_extension.tools.parameter_docs import FIELDS, meaning
from tk_ai_extension.tools.registry import TOOLSETS, Registry, Result, Tool

FAMILIES = (
    "notebooks",
    "focus",
    "reading",
    "search",
    "write_notebook",
    "cells",
    "execution",
    "kernels",
    "variables",
    "files",
    "history",
)
"""The modules of tools in reading order; others follow."""

EFFECTS: Mapping[str, str] = {
    "READ": "changes nothing",
    "WRITE": "changes notebooks",
    "EXECUTE": "runs code, or manages kernels",
}


def families(registry: Iterable[Tool]) -> Mapping[str, list[Tool]]:
    """The tools by the module that defines them, in reading order."""
    by_module: dict[str, list[Tool]] = {}
    for tool in registry:
        by_module.setdefault(tool.function.__module__, []).append(tool)
    rank = {name: position for position, name in enumerate(FAMILIES)}
    ordered = sorted(by_module, key=lambda name: rank.get(title(name), len(rank)))
    return {name: by_module[name] for name in ordered}


def title(module: str) -> str:
    """The last part of a module's name, with its toolset's before it, unless that is the default."""
    package, _, name = module.rpartition(".")
    toolset = next((each for each, home in TOOLSETS.items() if home == package), "default")
    return (name if toolset == "default" else f"{toolset}: {name}").replace("_", " ")


def tools_page(registry: Registry, default: Registry) -> str:
    """Every tool with its effect, arguments and answer.

    Args:
        registry: The tools of all toolsets.
        default: Those of the default one.
    """
    return page(
        "Tools",
        "*For authors of agents and programs that call the tools.*",
        "Every tool has one definition, a typed function. This page, the MCP schemas and the "
        f"[REST routes](rest.md) are generated from it. The default toolset has {len(default)} tools; their "
        f"names, descriptions and input schemas take {characters(default):,} characters of a model's "
        "context.",
        table(
            ["family", "tools"],
            (
                [
                    title(module).capitalize(),
                    ", ".join(f"[`{tool.name}`](#{tool.name})" for tool in tools),
                ]
                for module, tools in families(registry).items()
            ),
        ),
        "**Effects.** "
        + "; ".join(f"*{name}* {what}" for name, what in EFFECTS.items())
        + ". The [permission mode](guarantees.md#permission-modes) decides which run. *Destructive*: can "
        "remove what it does not give back. *Idempotent*: a second call changes nothing more. Each tool "
        "ends with its MCP annotations.",
        "**Toolsets.** A connection [chooses](../agents.md#toolsets) among them.",
        table(
            ["toolset", "what it is", "tools"],
            (
                [
                    code(name),
                    sentence(import_module(package).__doc__),
                    str(len(default))
                    if name == "default"
                    else ", ".join(
                        f"[`{tool.name}`](#{tool.name})" for tool in Registry.load([name])
                    ),
                ]
                for name, package in TOOLSETS.items()
            ),
        ),
        *(
            part
            for module, tools in families(registry).items()
            for part in (
                f"## {title(module).capitalize()}",
                sentence(sys.modules[module].__doc__),
                *(_tool(tool) for tool in tools),
            )
        ),
        "## Answers",
        "The structured answers, as REST gives them and as MCP's `structuredContent`; a field without a "
        "value is left out. Every answer may also have `notices`: what the caller has to know besides, such "
        "as that a kernel died. A model reads the same as compact text.",
        *(_values(model) for model in answers(registry)),
        "## Values in arguments and answers",
        *(_values(model) for model in nested(registry)),
    )


def characters(registry: Iterable[Tool]) -> int:
    """The tools as a model gets them: names, descriptions and input schemas, as compact JSON."""
    listed = (
        {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
        for tool in registry
    )
    return sum(len(json.dumps(each, separators=(",", ":"))) for each in listed)


def answers(registry: Iterable[Tool]) -> list[type[BaseModel]]:
    """The classes of the answers, each once, by name."""
    return sorted({tool.result for tool in registry}, key=lambda model: model.__name__)


def nested(registry: Iterable[Tool]) -> list[type[BaseModel]]:
    """The classes of the values within arguments and answers, each once, by name."""
    found: set[type[BaseModel]] = set()
    waiting: list[type[BaseModel]] = [*answers(registry), *(tool.arguments for tool in registry)]
    while waiting:
        new = set(_models_in(waiting.pop())) - found
        found |= new
        waiting += new
    return sorted(found, key=lambda model: model.__name__)


def _models_in(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    waiting: list[Any] = [field.annotation for field in model.model_fields.values()]
    while waiting:
        annotation = waiting.pop()
        if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
            yield annotation
        waiting += get_args(annotation)


def _tool(tool: Tool) -> str:
    properties: Mapping[str, Any] = tool.input_schema["properties"]
    required = tool.input_schema.get("required", ())
    hints = describe(tool).annotations
    annotations = hints.model_dump(by_alias=True, exclude_none=True) if hints else {}
    traits = [
        tool.effect,
        *(name for name in ("destructive", "idempotent") if getattr(tool, name)),
    ]
    fields = ", ".join(code(name) for name in tool.result.model_fields if name != "notices")
    return "\n\n".join(
        [
            f"### {tool.name} {{ #{tool.name} }}",
            f"*{' · '.join(traits)}{', depending on the arguments' if tool.effect_of else ''}*",
            " ".join(tool.description.split()),
            table(
                ["argument", "type", "default", "meaning"],
                (
                    [
                        code(name),
                        type_of(schema),
                        "required" if name in required else _default(schema),
                        _sentence(schema.get("description") or meaning(tool.name, name)),
                    ]
                    for name, schema in properties.items()
                ),
            )
            or "It takes no arguments.",
            f"Answers with [`{tool.result.__name__}`](#{tool.result.__name__}): {fields}.",
            "MCP: "
            + ", ".join(f"`{name}: {json.dumps(value)}`" for name, value in annotations.items()),
        ]
    )


def _values(model: type[BaseModel]) -> str:
    name = model.__name__
    described: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base not in (BaseModel, Result):
            described |= docstrings(base)
    fields = table(
        ["field", "type", "meaning"],
        (
            [
                code(field),
                type_of(schema),
                _sentence(
                    schema.get("description") or described.get(field) or FIELDS.get(field, "")
                ),
            ]
            for field, schema in model.model_json_schema()["properties"].items()
            if field != "notices"
        ),
    )
    return f"#### {name} {{ #{name} }}\n\n{prose(model.__doc__)}\n\n{fields}"


def _default(schema: Mapping[str, Any]) -> str:
    default = schema.get("default")
    return "" if default in (None, "") else literal(default)


def _sentence(text: str) -> str:
    """A description as a sentence."""
    if not text:
        return ""
    return text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")


def type_of(schema: Mapping[str, Any]) -> str:
    """A JSON schema's type in words; a value with fields as a link to them."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return f"[`{name}`](#{name})"
    if "anyOf" in schema:
        choices = [type_of(choice) for choice in schema["anyOf"] if choice != {"type": "null"}]
        return " or ".join(choices)
    if "enum" in schema:
        return ", ".join(literal(value) for value in schema["enum"])
    kind = schema.get("type", "any")
    if kind == "array":
        items = type_of(schema["items"]) if schema.get("items") else "values"
        return f"list of {items}{_range(schema, 'Items')}"
    return (" or ".join(kind) if isinstance(kind, list) else str(kind)) + _range(schema, "imum")


def _range(schema: Mapping[str, Any], suffix: str) -> str:
    least, most = schema.get(f"min{suffix}"), schema.get(f"max{suffix}")
    if (above := schema.get("exclusiveMinimum")) is not None:
        return f", above {above:,}"
    if most is not None:
        return f", {least or 0:,} to {most:,}"
    return "" if least is None else f", at least {least:,}"
