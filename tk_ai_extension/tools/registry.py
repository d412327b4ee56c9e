"""The tool registry. The decorator `tool` makes a typed async function the definition of a tool.

Every interface derives names, descriptions, JSON schemas, annotations, validation, permission and
error handling from it. The registry imports the modules of a toolset's package and collects their
tools, so a new tool is one function in one file.
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
    LimitReached,
    ToolError,
    UnknownTool,
    is_out_of_files,
)
from tk_ai_extension.model.json_values import Json
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
"""Maximum requests for approval for one call whose proposal changes while the person decides."""

ToolFunction = Callable[..., Awaitable[Any]]
"""Returns a `Result`, or a `Plan` that `CarryOut` executes."""
CarryOut = Callable[[ToolContext, Any, str], Awaitable[Result]]
"""Executes a plan for the tool of that name."""


@dataclass(frozen=True)
class Tool:
    """A tool: its function and the properties derived from it.

    Attributes:
        name: The name in every interface.
        description: The docstring: when to use the tool and what it returns.
        effect: What it can do: READ, WRITE or EXECUTE.
        destructive: Whether it can remove content for good (MCP's ``destructiveHint``).
        idempotent: Whether a repeated call has no further effect (MCP's ``idempotentHint``).
        function: Does the work; with ``carry_out``, returns a `Plan` and changes nothing.
        carry_out: Executes the plan; None if the arguments alone describe what a call does.
        concerns: Returns the notebook that a call concerns; approvals for a notebook depend on it.
        effect_of: Returns the effect of a call, if it depends on the arguments.
        command: The command in `nb` and its positional arguments, such as ``insert index source``;
            if empty, the tool's name with dashes. A command that `nb` defines itself replaces those
            of the tools that it calls.
        arguments: The pydantic model of the arguments.
        result: The class of the result.
        notebook_argument: The argument that names the notebook, if there is one.
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
    def input_schema(self) -> Json:
        """The compact JSON schema of the arguments."""
        schema = compact_schema(self.arguments.model_json_schema())
        schema.setdefault("properties", {})
        return schema

    @cached_property
    def output_schema(self) -> Json:
        """The compact JSON schema of the structured result."""
        return compact_schema(self.result.model_json_schema())

    @property
    def parameters(self) -> frozenset[str]:
        """The names of the arguments."""
        return frozenset(self.arguments.model_fields)

    def effect_for(self, parsed: BaseModel) -> Effect:
        """Return the effect of a call with these arguments."""
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
    """Define a tool from an async function ``(context, *arguments) -> Result``.

    The function's name is the tool's name, its docstring the description, its annotated parameters
    the arguments, and its return annotation the result. With ``carry_out`` the function changes
    nothing: it returns a `Plan`, which a person may have to approve, and ``carry_out`` executes it.

    >>> class CellCount(Result):
    ...     count: int
    ...
    ...     def as_text(self) -> str:
    ...         return f"{self.count} cells"
    >>> @tool("READ")
    ... async def count_cells(context: ToolContext, notebook: str) -> CellCount:
    ...     '''Count the cells of a notebook.'''
    ...     document = await context.workspace.open(context.caller, notebook)
    ...     return CellCount(count=len((await document.read()).cells))
    >>> count_cells.name, count_cells.description
    ('count_cells', 'Count the cells of a notebook.')
    >>> count_cells.input_schema["required"]
    ['notebook']

    The arguments are attributes of `Tool`.
    """

    def define(function: ToolFunction) -> Tool:
        hints = typing.get_type_hints(function, include_extras=True)
        result = hints.pop("return")
        fields: Json = {}
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
    """Decides which calls belong to another server."""

    async def check(self, tool: Tool, parsed: Any, context: ToolContext) -> list[str]:
        """Check that a call belongs to this server, before it runs; return notes for its caller.

        Raises:
            ToolError: The call belongs to another server.
        """
        ...


class Registry:
    """The tools of the chosen toolsets. All calls go through `call`.

    >>> registry = Registry.load(("default", "omp"))
    >>> registry.get("python").effect
    'EXECUTE'
    >>> tool = registry.get("move_cell")
    >>> registry.validate(tool, {"cell": "318a", "to": 0}).to
    0

    Args:
        tools: The tools.
        ownership: Decides which calls belong to another server; None if all belong to this one.

    Raises:
        InvalidArguments: Two tools have the same name.
    """

    def __init__(self, tools: Iterable[Tool], ownership: Ownership | None = None) -> None:
        self._ownership = ownership
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            known = self._tools.setdefault(tool.name, tool)
            if known is not tool:
                origins = sorted({known.function.__module__, tool.function.__module__})
                raise InvalidArguments(
                    f"Two tools have the name `{tool.name}`, in {' and '.join(origins)}.",
                    hint="Choose toolsets without a common tool name.",
                )

    @classmethod
    def load(
        cls, toolsets: Iterable[str] = ("default",), ownership: Ownership | None = None
    ) -> Registry:
        """Return a registry with the tools of these toolsets.

        Args:
            toolsets: Names of built-in toolsets, or of entry points of other packages.
            ownership: See `Registry`.

        Raises:
            InvalidArguments: A toolset does not exist, or two of them share a tool name.
            InternalError: A toolset cannot be imported.
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
        """Return the tool of that name.

        Raises:
            UnknownTool: No tool of the chosen toolsets has that name.
        """
        try:
            return self._tools[name]
        except KeyError:
            names = ", ".join(sorted(self._tools))
            raise UnknownTool(f"Unknown tool `{name}`.", hint=f"The tools are: {names}.") from None

    def validate(self, tool: Tool, arguments: Mapping[str, Any]) -> BaseModel:
        """Return the arguments as an instance of the tool's model.

        Raises:
            InvalidArguments: Some arguments are invalid; the message names each one and the reason.
        """
        given = encodable(dict(arguments))
        return parsed(tool.arguments, given, tool.name, fields="arguments")

    async def call(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> Result:
        """Validate the arguments, check the permission, and run a tool.

        Args:
            name: The tool's name.
            arguments: JSON values by argument name.
            context: The caller and the workspace.

        Raises:
            ToolError: The call failed. An unexpected exception is an `InternalError`; its traceback
                is in the log.
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
                raise LimitReached(
                    f"{name} could not open a file: {error}",
                    hint=(
                        "Shut down unused kernels, or restart the server with a higher `ulimit -n`."
                    ),
                ) from error
            logger.exception("Tool %s failed", name)
            raise InternalError(f"{name} failed: {type(error).__name__}: {error}") from error
        result.notices += notes + context.workspace.notices.take(context.caller)
        return result


async def _perform(tool: Tool, parsed: BaseModel, context: ToolContext) -> Result:
    """Run a call. If the mode requires approval, run exactly what the person approved."""
    given = {key: getattr(parsed, key) for key in tool.parameters}
    check = permission_check(tool, parsed, context)
    if check is None:
        return await _do(tool, given, context, await _planned(tool, given, context))
    await check.refuse(tool, parsed)
    for _ in range(MAX_ASKED):
        shown, plan = await _proposed(check, tool, parsed, given, context)
        if not check.needs_asking(shown):
            # A standing approval for this plan's notebook.
            return await _do(tool, given, context, plan)
        await check.ask(shown)
        # The proposal may have changed while the person decided: then ask again.
        now, plan = await _proposed(check, tool, parsed, given, context)
        if now.digest() != shown.digest():
            continue
        try:
            return await _do(tool, given, replace(context, approval=Approval(now)), plan)
        except ApprovalOutdated:
            continue
    raise ApprovalOutdated(f"The effect of {tool.name} changed each time the user was asked.")


async def _planned(tool: Tool, given: Mapping[str, Any], context: ToolContext) -> Plan | None:
    return None if tool.carry_out is None else await tool.function(context, **given)


async def _proposed(
    check: PermissionCheck,
    tool: Tool,
    parsed: BaseModel,
    given: Mapping[str, Any],
    context: ToolContext,
) -> tuple[Proposal, Plan | None]:
    """Return the proposal and the plan of a call as of now."""
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
