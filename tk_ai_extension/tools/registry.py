"""The registry: `@tool` makes a typed async function the only definition of a tool.

Names, descriptions, JSON schemas, annotations, validation, permission and error handling of every
face come from here. Tools are found by importing the modules of a toolset's package, so that a new
tool is one function in one file.
"""

from __future__ import annotations

import inspect
import logging
import pkgutil
import typing
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from tk_ai_extension.model.errors import (
    InternalError,
    InvalidArguments,
    PermissionDenied,
    PermissionRequired,
    ToolError,
    UnknownTool,
)
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.results import Result

logger = logging.getLogger(__name__)

Effect = Literal["READ", "WRITE", "EXECUTE"]
"""What a tool can do: read only, change notebooks, or run code and manage kernels."""

ToolFunction = Callable[..., Awaitable[Result]]
Preview = Callable[[ToolContext, BaseModel], Awaitable[str]]
"""What a person is shown before they allow a call: the diff or the code."""

TOOLSETS: Mapping[str, str] = {"default": "tk_ai_extension.tools.default"}
"""The toolsets by name, each a package whose modules define the tools."""


@dataclass(frozen=True)
class Tool:
    """A tool: its function and all that is derived from it.

    Attributes:
        name: The name in every face.
        description: The docstring: what it is for and what it answers.
        effect: What it can do.
        destructive: Whether it can remove what it does not give back (MCP's ``destructiveHint``).
        idempotent: Whether calling it twice changes nothing more.
        effect_of: What a call with these arguments can do, where that depends on them.
        arguments: The pydantic model of its arguments.
        result: The class of its answer.
    """

    name: str
    description: str
    effect: Effect
    function: ToolFunction
    arguments: type[BaseModel]
    result: type[Result]
    destructive: bool = False
    idempotent: bool = False
    preview: Preview | None = None
    effect_of: Callable[[BaseModel], Effect] | None = None

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments, in as few characters as say the same."""
        schema = compact_schema(self.arguments.model_json_schema())
        schema.setdefault("properties", {})
        return schema

    @cached_property
    def output_schema(self) -> dict[str, Any]:
        """The JSON schema of the structured answer."""
        return compact_schema(self.result.model_json_schema())

    @property
    def parameters(self) -> frozenset[str]:
        """The names of the arguments."""
        return frozenset(self.arguments.model_fields)


def tool(
    effect: Effect,
    *,
    destructive: bool = False,
    idempotent: bool = False,
    preview: Preview | None = None,
    effect_of: Callable[[BaseModel], Effect] | None = None,
) -> Callable[[ToolFunction], Tool]:
    """Makes a tool of an async function ``(context, *arguments) -> Result``.

    The function's name is the tool's, its docstring the description, its annotated parameters the
    arguments, its return annotation the answer.
    """

    def define(function: ToolFunction) -> Tool:
        hints = typing.get_type_hints(function, include_extras=True)
        result = hints.pop("return")
        fields: dict[str, Any] = {}
        for name, parameter in list(inspect.signature(function).parameters.items())[1:]:
            default = ... if parameter.default is inspect.Parameter.empty else parameter.default
            fields[name] = (hints[name], default)
        arguments = create_model(
            f"{function.__name__}_arguments", __config__=ConfigDict(extra="forbid"), **fields
        )
        return Tool(
            name=function.__name__,
            description=inspect.cleandoc(function.__doc__ or ""),
            effect=effect,
            function=function,
            arguments=arguments,
            result=result,
            destructive=destructive,
            idempotent=idempotent or effect == "READ",
            preview=preview,
            effect_of=effect_of,
        )

    return define


class Registry:
    """The tools of the chosen toolsets, and the one way to call them."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = {tool.name: tool for tool in tools}

    @classmethod
    def load(cls, toolsets: Iterable[str] = ("default",)) -> Registry:
        """The tools of these toolsets.

        Raises:
            InvalidArguments: a toolset that does not exist.
        """
        tools: list[Tool] = []
        for name in toolsets:
            if name not in TOOLSETS:
                raise InvalidArguments(
                    f"There is no toolset `{name}`.",
                    hint=f"Choose among: {', '.join(sorted(TOOLSETS))}.",
                )
            package = import_module(TOOLSETS[name])
            for info in pkgutil.iter_modules(package.__path__):
                module = import_module(f"{package.__name__}.{info.name}")
                tools += [value for value in vars(module).values() if isinstance(value, Tool)]
        return cls(tools)

    def __iter__(self) -> typing.Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def get(self, name: str) -> Tool:
        """The tool of that name.

        Raises:
            UnknownTool.
        """
        try:
            return self._tools[name]
        except KeyError:
            names = ", ".join(sorted(self._tools))
            raise UnknownTool(
                f"There is no tool `{name}`.", hint=f"The tools are: {names}."
            ) from None

    def validate(self, tool: Tool, arguments: Mapping[str, Any]) -> BaseModel:
        """The arguments as the tool's model.

        Raises:
            InvalidArguments: names each argument that is wrong, and why.
        """
        try:
            return tool.arguments.model_validate(dict(arguments))
        except ValidationError as error:
            problems = [
                f"`{'.'.join(str(part) for part in item['loc']) or 'arguments'}`: {item['msg']}"
                for item in error.errors(include_url=False)
            ]
            known = ", ".join(f"`{name}`" for name in tool.arguments.model_fields) or "none"
            raise InvalidArguments(
                f"{tool.name}: {'; '.join(problems)}.", hint=f"Its arguments are: {known}."
            ) from None

    async def call(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> Result:
        """Calls a tool for a caller: validates, asks for permission, runs.

        Raises:
            ToolError: every failure, one that nobody foresaw as `InternalError` with the traceback
                in the log.
        """
        tool = self.get(name)
        parsed = self.validate(tool, arguments)
        try:
            await self._permit(tool, parsed, context)
            result = await tool.function(
                context, **{key: getattr(parsed, key) for key in tool.parameters}
            )
        except ToolError:
            raise
        except Exception as error:
            logger.exception("Tool %s failed", name)
            raise InternalError(f"{name} failed: {type(error).__name__}: {error}") from error
        result.notices += context.workspace.notices.take(context.caller)
        return result

    async def _permit(self, tool: Tool, parsed: BaseModel, context: ToolContext) -> None:
        policy, caller = context.workspace.policy, context.caller
        effect = tool.effect_of(parsed) if tool.effect_of else tool.effect
        if effect == "READ" or not policy.concerns(caller, effect):
            return
        arguments = parsed.model_dump(mode="json", exclude_defaults=True)
        preview = (
            await tool.preview(context, parsed) if tool.preview else _default_preview(arguments)
        )
        notebook: Any = arguments.get("notebook")
        path = context.current_path(notebook if isinstance(notebook, str) else None)
        try:
            await policy.check(
                caller,
                tool.name,
                effect,
                arguments=arguments,
                notebook=path,
                preview=preview,
                approver=context.approver,
            )
        except (PermissionDenied, PermissionRequired) as refusal:
            journal = context.workspace.journal
            entry = await journal.intend(
                caller, path or "", tool.name, f"refused: {refusal.message}", kind="refused"
            )
            await journal.failed(entry, refusal.code)
            raise


def _default_preview(arguments: Mapping[str, Any]) -> str:
    """The arguments as lines, code and text whole."""
    return "\n".join(
        f"{name}:\n{value}" if isinstance(value, str) and "\n" in value else f"{name}: {value}"
        for name, value in arguments.items()
    )


def compact_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON schema without what tells a reader nothing: titles, null alternatives, null defaults."""
    return typing.cast("dict[str, Any]", _compact(schema, property_names=False))


def _compact(node: Any, *, property_names: bool) -> Any:
    if isinstance(node, list):
        return [_compact(item, property_names=False) for item in node]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(node, Mapping):
        return node
    items = typing.cast("Mapping[str, Any]", node)
    if property_names:
        return {name: _compact(value, property_names=False) for name, value in items.items()}
    compacted: dict[str, Any] = {}
    for key, value in items.items():
        if key == "title" or (key == "default" and value is None):
            continue
        if key == "anyOf":
            choices = [choice for choice in value if choice != {"type": "null"}]
            if len(choices) < len(value) and len(choices) == 1:
                compacted |= _compact(choices[0], property_names=False)
                continue
            if all(set(choice) == {"type"} for choice in choices):
                compacted["type"] = [choice["type"] for choice in choices]
                continue
        compacted[key] = _compact(value, property_names=key in ("properties", "$defs"))
    return compacted
