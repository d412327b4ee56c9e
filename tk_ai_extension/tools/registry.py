"""The registry: `@tool` makes a typed async function the only definition of a tool.

Names, descriptions, JSON schemas, annotations, validation, permission and error handling of every
face come from here. Tools are found by importing the modules of a toolset's package, so that a new
tool is one function in one file.
"""

from __future__ import annotations

import inspect
import logging
import typing
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, create_model

from tk_ai_extension.model.encoding import encodable
from tk_ai_extension.model.errors import (
    ApprovalOutdated,
    InternalError,
    InvalidArguments,
    ToolError,
    TooManyOpenFiles,
    UnknownTool,
    is_out_of_files,
)
from tk_ai_extension.model.proposals import Proposal
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.permission_checks import (
    Concerns,
    PermissionCheck,
    concerned_notebook,
    permission_check,
)
from tk_ai_extension.tools.plans import Plan
from tk_ai_extension.tools.results import Result
from tk_ai_extension.tools.schemas import compact_schema, parsed
from tk_ai_extension.tools.toolsets import modules
from tk_ai_extension.workspace.approvals import Approval
from tk_ai_extension.workspace.permission_requests import Effect

logger = logging.getLogger(__name__)

MAX_ASKED = 3
"""How often a person is asked about one call that changes while they are asked."""

ToolFunction = Callable[..., Awaitable[Any]]
"""Answers with a `Result`, or with the `Plan` of one."""
CarryOut = Callable[[ToolContext, Any, str], Awaitable[Result]]
"""Does what a plan says, by the tool of that name."""


@dataclass(frozen=True)
class Tool:
    """A tool: its function and all that is derived from it.

    Attributes:
        name: The name in every face.
        description: The docstring: what it is for and what it answers.
        effect: What it can do.
        destructive: Whether it can remove what it does not give back (MCP's ``destructiveHint``).
        idempotent: Whether calling it twice changes nothing more.
        function: Does it; or, with ``carry_out``, works out a `Plan` and changes nothing.
        carry_out: Does what was planned; None where the arguments say all that a call would do.
        concerns: Which notebook a call is about: what approvals for a notebook go by.
        effect_of: What a call with these arguments can do, where that depends on them.
        command: Its command on the command line, and the arguments that are given there by place,
            such as ``insert index source``; its name with dashes, where there is none. A command of
            the command line's own takes the place of the tools that it is made of.
        arguments: The pydantic model of its arguments.
        result: The class of its answer.
        notebook_argument: The argument that names the notebook, where there is one.
    """

    name: str
    description: str
    effect: Effect
    function: ToolFunction
    arguments: type[BaseModel]
    result: type[Result]
    destructive: bool = False
    idempotent: bool = False
    carry_out: CarryOut | None = None
    concerns: Concerns = concerned_notebook
    effect_of: Callable[[BaseModel], Effect] | None = None
    command: str = ""
    notebook_argument: str = "notebook"

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

    def effect_for(self, parsed: BaseModel) -> Effect:
        """What a call with these arguments can do."""
        return self.effect if self.effect_of is None else self.effect_of(parsed)


def tool(
    effect: Effect,
    *,
    destructive: bool = False,
    idempotent: bool = False,
    carry_out: CarryOut | None = None,
    concerns: Concerns = concerned_notebook,
    effect_of: Callable[[BaseModel], Effect] | None = None,
    command: str = "",
    notebook_argument: str = "notebook",
) -> Callable[[ToolFunction], Tool]:
    """Makes a tool of an async function ``(context, *arguments) -> Result``.

    The function's name is the tool's, its docstring the description, its annotated parameters the
    arguments, its return annotation the answer. With ``carry_out`` the function only plans: it
    changes nothing and returns a `Plan`, which a person may be shown, and ``carry_out`` does it and
    answers.
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
            result=typing.get_type_hints(carry_out)["return"] if carry_out else result,
            destructive=destructive,
            idempotent=idempotent or effect == "READ",
            carry_out=carry_out,
            concerns=concerns,
            effect_of=effect_of,
            command=command,
            notebook_argument=notebook_argument,
        )

    return define


class Ownership(Protocol):
    """Says which calls belong to another server than this one."""

    async def check(self, tool: Tool, parsed: Any, context: ToolContext) -> list[str]:
        """Check that a call belongs here, before anything else is done; return notes for its caller.

        Raises:
            ToolError: it does not.
        """
        ...


class Registry:
    """The tools of the chosen toolsets, and the one way to call them.

    Args:
        tools: The tools.
        ownership: Says which calls belong to another server; None where all belong here.

    Raises:
        InvalidArguments: two tools have one name.
    """

    def __init__(self, tools: Iterable[Tool], ownership: Ownership | None = None) -> None:
        self._ownership = ownership
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            known = self._tools.setdefault(tool.name, tool)
            if known is not tool:
                homes = sorted({known.function.__module__, tool.function.__module__})
                raise InvalidArguments(
                    f"Two tools are called `{tool.name}`: of {' and '.join(homes)}.",
                    hint="Choose toolsets that go together.",
                )

    @classmethod
    def load(
        cls, toolsets: Iterable[str] = ("default",), ownership: Ownership | None = None
    ) -> Registry:
        """The tools of these toolsets, ours and those that other packages bring.

        Raises:
            InvalidArguments: a toolset that does not exist, or two that do not go together.
            InternalError: a toolset that cannot be imported.
        """
        tools = (
            value
            for toolset in toolsets
            for module in modules(toolset)
            for value in vars(module).values()
            if isinstance(value, Tool)
        )
        return cls(tools, ownership)

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
        given = encodable(dict(arguments))
        return parsed(tool.arguments, given, tool.name, fields="arguments")

    async def call(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> Result:
        """Calls a tool for a caller: validates, asks for permission, runs.

        Raises:
            ToolError: every failure, one that nobody foresaw as `InternalError` with the traceback
                in the log.
        """
        tool = self.get(name)
        parsed = self.validate(tool, arguments)
        notes: list[str] = []
        if self._ownership is not None:
            notes = await self._ownership.check(tool, parsed, context)
        try:
            result = await _perform(tool, parsed, replace(context, tools=self))
        except ToolError:
            raise
        except Exception as error:
            if is_out_of_files(error):
                logger.warning("Tool %s: %s", name, error)
                raise TooManyOpenFiles(f"{name} could not open a file: {error}") from error
            logger.exception("Tool %s failed", name)
            raise InternalError(f"{name} failed: {type(error).__name__}: {error}") from error
        result.notices += notes + context.workspace.notices.take(context.caller)
        return result


async def _perform(tool: Tool, parsed: BaseModel, context: ToolContext) -> Result:
    """Run a call; where the mode asks, do just what a person was shown and approved."""
    given = {key: getattr(parsed, key) for key in tool.parameters}
    check = permission_check(tool, parsed, context)
    if check is None:
        return await _do(tool, given, context, await _planned(tool, given, context))
    await check.refuse(tool, parsed)
    for _ in range(MAX_ASKED):
        shown, plan = await _proposed(check, tool, parsed, given, context)
        if not check.needs_asking(shown):
            # By a standing approval for the notebook of this very plan.
            return await _do(tool, given, context, plan)
        await check.ask(shown)
        # A person takes their time: what changed meanwhile is shown again.
        now, plan = await _proposed(check, tool, parsed, given, context)
        if now.digest() != shown.digest():
            continue
        try:
            return await _do(tool, given, replace(context, approval=Approval(now)), plan)
        except ApprovalOutdated:
            continue
    raise ApprovalOutdated(f"What {tool.name} would do changed each time the user was asked.")


async def _planned(tool: Tool, given: Mapping[str, Any], context: ToolContext) -> Plan | None:
    return None if tool.carry_out is None else await tool.function(context, **given)


async def _proposed(
    check: PermissionCheck,
    tool: Tool,
    parsed: BaseModel,
    given: Mapping[str, Any],
    context: ToolContext,
) -> tuple[Proposal, Plan | None]:
    """What a call would do now, for a person and for the tool."""
    plan = await _planned(tool, given, context)
    if plan is None:
        return await check.of_arguments(tool, parsed), None
    return await check.of_plan(plan), plan


async def _do(
    tool: Tool, given: Mapping[str, Any], context: ToolContext, plan: Plan | None
) -> Result:
    if tool.carry_out is None:
        return await tool.function(context, **given)
    return await tool.carry_out(context, plan, tool.name)
