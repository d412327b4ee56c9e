"""The tool registry. The decorator `tool` makes a typed async function the definition of a tool.

Every interface derives names, descriptions, JSON schemas, annotations, validation, permission and
error handling from it. The registry imports the modules of a toolset's package and collects their
tools, so a new tool is one function in one file.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import pkgutil
import typing
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, Protocol, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, create_model
from pydantic_core import PydanticSerializationError

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import (
    ApprovalOutdated,
    InternalError,
    InvalidArguments,
    LimitReached,
    PermissionDenied,
    PermissionRequired,
    ToolError,
    UnknownTool,
    is_out_of_files,
)
from tk_ai_extension.model.json_values import Json, encodable, encodable_text
from tk_ai_extension.model.proposals import Proposal, ProposalKernel, ProposalStep, marked
from tk_ai_extension.workspace.permission_requests import CallApproval, Effect
from tk_ai_extension.workspace.permissions import Approver, PermissionDecision
from tk_ai_extension.workspace.workspace import Workspace

logger = logging.getLogger(__name__)

_Model = TypeVar("_Model", bound=BaseModel)

ACTIVE = "active"
"""Means the notebook that the caller's person looks at, unless it is a name that the caller has given."""

MAX_PROBLEMS = 10
"""Maximum invalid fields that an error names."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image for a model: base64 data and its MIME type (image/png or image/jpeg)."""

    data: str
    mime: str


class Result(BaseModel):
    """Base class of every tool's result.

    The fields are the structured result; their JSON schema is the tool's output schema. `as_text`
    renders the same result compactly, with all that a model needs.

    >>> class Greeting(Result):
    ...     name: str
    ...
    ...     def as_text(self) -> str:
    ...         return f"Hello, {self.name}."
    >>> greeting = Greeting(name="Ada", notices=["The kernel was restarted."])
    >>> print(greeting.full_text())
    Note: The kernel was restarted.
    Hello, Ada.
    >>> Greeting(name="Ada").structured()
    {'name': 'Ada'}
    """

    model_config = ConfigDict(extra="forbid", ser_json_inf_nan="null")

    notices: list[str] = Field(default_factory=list[str])
    """Notes for the caller, for example that a kernel's variables are lost."""

    _images: tuple[Image, ...] = PrivateAttr(default=())

    def as_text(self) -> str:
        """Return the result as compact text, without the notices."""
        raise TypeError(f"{type(self).__name__} has no text")

    @property
    def is_error(self) -> bool:
        """Whether the result reports a failure, for example an execution that did not end ok."""
        return False

    @property
    def images(self) -> tuple[Image, ...]:
        """The images of the result."""
        return self._images

    def with_images(self, images: tuple[Image, ...]) -> Result:
        """Set the images and return the same result."""
        self._images = images
        return self

    def full_text(self) -> str:
        """Return the compact text, after the notices."""
        notes = (f"Note: {notice}" for notice in self.notices)
        return encodable_text("\n".join([*notes, self.as_text()]))

    def structured(self) -> Json:
        """Return the result as JSON values, without None values and empty notices."""
        try:
            data: Json = json.loads(self.model_dump_json(exclude_none=True))
        except (PydanticSerializationError, UnicodeError):  # A text with a lone surrogate.
            data = encodable(self.model_dump(mode="json", exclude_none=True))
        if not self.notices:
            del data["notices"]
        return data


ProgressSink = Callable[[str], Awaitable[None]]
"""Receives a line of text that describes the progress of a call."""


async def _no_progress(_message: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The context of one tool call: the workspace, the caller, and ways to reach the caller.

    Attributes:
        workspace: The notebooks, kernels, journal and permissions of this server.
        caller: The caller.
        progress: Reports progress to the caller; does nothing if the interface has no progress.
        approver: Asks a person during the call; None if nobody can be asked.
        gone: Set when the client has disconnected. The call continues, but its result counts as
            not received.
        approval: The approval of this call; None if none was needed. Code that changed after the
            approval does not run.
        tools: The registry that the call came through, for tools that let code call other tools.
    """

    workspace: Workspace
    caller: Caller
    progress: ProgressSink = _no_progress
    approver: Approver | None = None
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    approval: CallApproval | None = None
    tools: Registry | None = None

    def current_path(self, notebook: str | None) -> str | None:
        """Return the path of the named or current notebook, which may not exist; None if there is none.

        Raises:
            PathRefused: The path is outside the root or hidden.
            InvalidArguments: The path does not end in ``.ipynb``.
        """
        workspace = self.workspace
        managed = workspace.notebooks.resolve(self.caller, notebook)
        if managed is not None:
            return managed.path
        return None if notebook is None else workspace.contain(notebook)


class CallPlan(Protocol):
    """The effects of a call, computed before it changes anything.

    A tool with ``carry_out`` returns a plan. If the mode requires approval, a person is shown its
    proposal; then the same plan is executed. A plan is bound to the sources that it was made for, so it
    fails with a conflict instead of changing other sources.

    >>> from tk_ai_extension.model.proposals import ProposalStep
    >>> class Greet:
    ...     def proposal(self) -> Proposal:
    ...         return Proposal("Greet Ada", (ProposalStep("arguments", "Greet Ada"),))
    >>> plan: CallPlan = Greet()
    >>> plan.proposal().as_text()
    'Greet Ada'
    """

    def proposal(self) -> Proposal:
        """Return all effects of the call, for the person who approves it.

        The registry adds the kernel of the notebook.
        """
        ...


def parsed(
    model: type[_Model], values: Mapping[str, Any], failure: str, *, fields: str = "fields"
) -> _Model:
    """Return the values as an instance of the model.

    Args:
        model: A pydantic model.
        values: The values to validate.
        failure: The beginning of the error message.
        fields: The name of the model's fields in the error message.

    Raises:
        InvalidArguments: Some fields are invalid; the message names each one and the reason.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problems = [
            f"`{'.'.join(str(part) for part in item['loc']) or fields}`: {item['msg']}"
            for item in error.errors(include_url=False, include_input=False)
        ]
        known = ", ".join(f"`{name}`" for name in model.model_fields) or "none"
        raise InvalidArguments(
            f"{failure}: {'; '.join(problems[:MAX_PROBLEMS])}.", hint=f"The {fields} are: {known}."
        ) from None


def compact_schema(schema: Mapping[str, Any]) -> Json:
    """Return a JSON schema without titles, null alternatives and null defaults."""
    return cast("Json", _compact(schema, property_names=False))


def _compact(node: Any, *, property_names: bool) -> Any:
    if isinstance(node, list):
        return [_compact(item, property_names=False) for item in node]  # pyrefly: ignore[unknown-argument-type, unknown-variable-type]
    if not isinstance(node, Mapping):
        return node
    items = cast("Mapping[str, Any]", node)
    if property_names:
        return {name: _compact(value, property_names=False) for name, value in items.items()}
    compacted: Json = {}
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


async def concerned_notebook(context: ToolContext, tool: Tool, parsed: BaseModel) -> str | None:
    """Return the path of the one notebook that a call concerns; None for none or several.

    It is the notebook of the execution or the kernel in the arguments, else the notebook in the
    arguments. An approval for a notebook applies to calls that concern only that notebook.

    Raises:
        NotFound: The caller has no such execution.
        PathRefused: The path is outside the root or hidden.
        InvalidArguments: The path does not end in ``.ipynb``.
    """
    execution_id: str | None = getattr(parsed, "execution_id", None)
    if execution_id is not None:
        return context.workspace.executions.get(context.caller, execution_id).path
    if tool.notebook_argument not in tool.parameters:
        return None
    kernel_id: str | None = getattr(parsed, "kernel_id", None)
    return await path_of_kernel(context, getattr(parsed, tool.notebook_argument), kernel_id)


async def path_of_kernel(
    context: ToolContext, notebook: str | None, kernel_id: str | None
) -> str | None:
    """Return the path of the one notebook that a name and a kernel refer to; None for none or several.

    Raises:
        PathRefused: The path is outside the root or hidden.
        InvalidArguments: The path does not end in ``.ipynb``.
    """
    workspace = context.workspace
    if kernel_id is None:
        return context.current_path(notebook)
    paths = set(await workspace.sessions.paths_of(kernel_id))
    paths |= {managed.path for managed in workspace.notebooks.with_kernel(kernel_id)}
    if notebook is not None and (path := context.current_path(notebook)) is not None:
        paths.add(path)
    return paths.pop() if len(paths) == 1 else None


class PermissionCheck:
    """Checks whether a call may run, by the permission mode and by asking a person.

    Args:
        context: The caller, and how to ask a person.
        tool: The tool's name.
        effect: The effect of the call.
        arguments: The arguments of the call.
    """

    def __init__(
        self, context: ToolContext, tool: str, effect: Effect, arguments: BaseModel
    ) -> None:
        self._context = context
        self._tool = tool
        self._effect: Effect = effect
        self._arguments = arguments.model_dump(mode="json", exclude_defaults=True)

    def needs_asking(self, proposal: Proposal) -> bool:
        """Return whether a person must approve this call; standing approvals are considered."""
        effect = self._effect_of(proposal)
        return self._decision(proposal.notebook, effect) is PermissionDecision.ASK

    async def refuse(self, tool: Tool, parsed: BaseModel) -> None:
        """Refuse a call that the mode forbids, before the tool reads anything.

        Raises:
            PermissionDenied: The mode forbids the call.
        """
        if self._decision(None, self._effect) is PermissionDecision.REFUSE:
            path = await concerned_notebook(self._context, tool, parsed)
            await self.ask(self.by_arguments(path, None))

    async def ask(self, proposal: Proposal) -> None:
        """Ask a person to approve a proposal.

        Raises:
            PermissionDenied: The mode forbids the call, or the person denied it.
            PermissionRequired: No person can be asked during the call.
            LimitReached: Too many requests of this user are pending.
        """
        workspace, caller = self._context.workspace, self._context.caller
        try:
            await workspace.policy.check(
                caller,
                self._tool,
                self._effect_of(proposal),
                arguments=self._arguments,
                proposal=proposal,
                approver=self._context.approver,
            )
        except (PermissionDenied, PermissionRequired) as refusal:
            try:
                await workspace.journal.record(
                    caller,
                    proposal.notebook or "",
                    self._tool,
                    f"refused: {refusal.message}",
                    kind="refused",
                    state="failed",
                    note=refusal.code,
                )
            except ToolError as error:
                # The caller needs the refusal, with the request's id.
                logger.warning("The refusal of %s was not recorded: %s", self._tool, error.message)
            raise

    async def of_plan(self, plan: CallPlan) -> Proposal:
        """Return a plan's proposal, with the current kernel of its notebook."""
        proposal = plan.proposal()
        if proposal.kernel is not None or proposal.notebook is None or not proposal.runs:
            return proposal
        return replace(proposal, kernel=await self._kernel(proposal.notebook))

    async def of_arguments(self, tool: Tool, parsed: BaseModel) -> Proposal:
        """Return the proposal of a tool without a plan: its arguments, the notebook and its kernel.

        The notebook is resolved last, immediately before the tool resolves it by the same arguments.
        """
        kernel = None
        if self._effect == "EXECUTE":
            kernel_id: str | None = getattr(parsed, "kernel_id", None)
            path = await concerned_notebook(self._context, tool, parsed)
            if kernel_id is not None:
                kernel = ProposalKernel(kernel_id)
            elif path is not None:
                kernel = await self._kernel(path)
        return self.by_arguments(await concerned_notebook(self._context, tool, parsed), kernel)

    def by_arguments(self, notebook: str | None, kernel: ProposalKernel | None) -> Proposal:
        """Return a proposal that shows the arguments in full."""
        return argument_proposal(f"Call {self._tool}", self._arguments, notebook, kernel)

    def _decision(self, notebook: str | None, effect: Effect) -> PermissionDecision:
        policy = self._context.workspace.policy
        return policy.decision(self._context.caller, effect, notebook, tool=self._tool)

    def _effect_of(self, proposal: Proposal) -> Effect:
        """Return the effect of a call: loading an address on another host can leak data, as code can."""
        return "EXECUTE" if proposal.loads else self._effect

    async def _kernel(self, path: str) -> ProposalKernel:
        workspace = self._context.workspace
        kernel_id = await workspace.kernel_of(path)
        if kernel_id is None:
            return ProposalKernel()
        return ProposalKernel(kernel_id, (await workspace.kernels.info(kernel_id)).name)


def argument_proposal(
    title: str,
    arguments: Mapping[str, Any],
    notebook: str | None = None,
    kernel: ProposalKernel | None = None,
) -> Proposal:
    """Return a proposal that shows the arguments of a call in full.

    Args:
        title: What the call does.
        arguments: The arguments, JSON values.
        notebook: The notebook that it concerns, if any.
        kernel: The kernel that it uses, if any.
    """
    short: list[str] = []
    long: list[ProposalStep] = []
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if "\n" in text:
            long.append(ProposalStep("arguments", f"Argument {name}", lines=marked(" ", text)))
        else:
            short.append(f"{name}: {text}")
    lines = marked(" ", "\n".join(short)) if short else ()
    steps = (ProposalStep("arguments", title, lines=lines), *long)
    return Proposal(title, steps, notebook, kernel)


def permission_check(tool: Tool, parsed: BaseModel, context: ToolContext) -> PermissionCheck | None:
    """Return the check that a call needs; None if the caller's mode allows all of its effects."""
    effect = tool.effect_for(parsed)
    policy = context.workspace.policy
    # The addresses that a write adds may count as more than a write.
    effects: set[Effect] = {effect}
    if effect == "WRITE" and tool.carry_out is not None:
        effects.add("EXECUTE")
    decisions = {policy.decision(context.caller, each, None, tool=tool.name) for each in effects}
    if decisions == {PermissionDecision.RUN}:
        return None
    return PermissionCheck(context, tool.name, effect, parsed)


TOOLSETS: Mapping[str, str] = {
    "default": "tk_ai_extension.tools.default",
    "claude-code": "tk_ai_extension.tools.claude_code",
    "omp": "tk_ai_extension.tools.omp",
}
"""Built-in toolsets by name. Each is a package with modules that define the tools."""

ENTRY_POINTS = "tk_ai_extension.toolsets"
"""Entry point group for toolsets of other packages: ``name = "package.of.its.tools"``."""


def modules(toolset: str) -> Iterator[ModuleType]:
    """Import and yield the modules of a toolset: the package and its modules, or a single module.

    >>> [module.__name__ for module in modules("claude-code")]
    ['tk_ai_extension.tools.claude_code', 'tk_ai_extension.tools.claude_code.notebook_edit']

    Raises:
        InvalidArguments: No package provides a toolset of that name, or several do.
        InternalError: The toolset cannot be imported.
    """
    name = TOOLSETS.get(toolset) or _entry_point(toolset).value
    try:
        package = import_module(name)
        yield package
        for info in pkgutil.iter_modules(getattr(package, "__path__", ())):
            yield import_module(f"{name}.{info.name}")
    except ImportError as error:
        raise InternalError(
            f"The toolset `{toolset}` cannot be loaded: {error}.",
            hint="Fix or uninstall the package that provides it.",
        ) from error


def _entry_point(toolset: str) -> EntryPoint:
    # Only for names that are not built in: reading entry points takes longer with each package.
    found = entry_points(group=ENTRY_POINTS)
    named = {entry.value: entry for entry in found if entry.name == toolset}
    if not named:
        known = ", ".join(sorted({*TOOLSETS, *found.names}))
        raise InvalidArguments(f"Unknown toolset `{toolset}`.", hint=f"Choose one of: {known}.")
    if len(named) > 1:
        raise InvalidArguments(
            f"Several packages provide a toolset `{toolset}`: {', '.join(sorted(named))}.",
            hint="Uninstall all but one.",
        )
    return next(iter(named.values()))


MAX_ASKED = 3
"""Maximum requests for approval of one call, if its proposal changes while the person decides."""

ToolFunction = Callable[..., Awaitable[Any]]
"""Returns a `Result`, or a `CallPlan` that `CarryOut` executes."""
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
        function: Does the work; with ``carry_out``, returns a `CallPlan` and changes nothing.
        carry_out: Executes the plan; None if the arguments alone describe a call's effects.
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
    effect_of: Callable[[BaseModel], Effect] | None = None
    command: str = ""
    notebook_argument: str = "notebook"

    @cached_property
    def input_schema(self) -> Json:
        """The compact JSON schema of the arguments."""
        schema = compact_schema(self.arguments.model_json_schema())
        schema.setdefault("properties", {})
        for definition in schema.get("$defs", {}).values():
            definition.pop("description", None)  # The tool has a description.
        return schema

    @cached_property
    def output_schema(self) -> Json:
        """The compact JSON schema of the structured result."""
        return compact_schema(self.result.model_json_schema())

    @property
    def parameters(self) -> frozenset[str]:
        """The names of the arguments."""
        return frozenset(self.arguments.model_fields)

    def for_commands(self) -> Json:
        """Return the properties from which `nb` builds the tool's command."""
        return {
            "name": self.name,
            "description": self.description,
            "effect": self.effect,
            "command": self.command,
            "input_schema": self.input_schema,
        }

    def effect_for(self, parsed: BaseModel) -> Effect:
        """Return the effect of a call with these arguments."""
        return self.effect if self.effect_of is None else self.effect_of(parsed)


def tool(
    effect: Effect,
    *,
    destructive: bool = False,
    idempotent: bool = False,
    carry_out: CarryOut | None = None,
    effect_of: Callable[[BaseModel], Effect] | None = None,
    command: str = "",
    notebook_argument: str = "notebook",
) -> Callable[[ToolFunction], Tool]:
    """Define a tool from an async function ``(context, *arguments) -> Result``.

    The function's name is the tool's name, its docstring the description, its annotated parameters
    the arguments, and its return annotation the result. With ``carry_out`` the function changes
    nothing: it returns a `CallPlan`, which a person may have to approve, and ``carry_out`` executes it.

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
            effect_of=effect_of,
            command=command,
            notebook_argument=notebook_argument,
        )

    return define


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

    Raises:
        InvalidArguments: Two tools have the same name.
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
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
    def load(cls, toolsets: Iterable[str] = ("default",)) -> Registry:
        """Return a registry with the tools of these toolsets.

        Args:
            toolsets: Names of built-in toolsets, or of entry points of other packages.

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
        return cls(tools)

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
        notebooks, caller = context.workspace.notebooks, context.caller
        key = tool.notebook_argument
        if arguments.get(key) == ACTIVE and notebooks.resolve(caller, ACTIVE) is None:
            # Resolved once: an approval is for this notebook only.
            arguments = {**arguments, key: context.workspace.active_tab(caller).path}
        parsed = self.validate(tool, arguments)
        if context.tools is not self:
            context = replace(context, tools=self)
        try:
            result = await _perform(tool, parsed, context)
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
        result.notices.extend(context.workspace.notices.take(context.caller))
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
            return await _do(tool, given, replace(context, approval=CallApproval(now)), plan)
        except ApprovalOutdated:
            continue
    raise ApprovalOutdated(f"The effect of {tool.name} changed each time the user was asked.")


async def _planned(tool: Tool, given: Mapping[str, Any], context: ToolContext) -> CallPlan | None:
    return None if tool.carry_out is None else await tool.function(context, **given)


async def _proposed(
    check: PermissionCheck,
    tool: Tool,
    parsed: BaseModel,
    given: Mapping[str, Any],
    context: ToolContext,
) -> tuple[Proposal, CallPlan | None]:
    """Return the proposal and the plan of a call as of now."""
    plan = await _planned(tool, given, context)
    if plan is None:
        return await check.of_arguments(tool, parsed), None
    return await check.of_plan(plan), plan


async def _do(
    tool: Tool, given: Mapping[str, Any], context: ToolContext, plan: CallPlan | None
) -> Result:
    if tool.carry_out is None:
        return await tool.function(context, **given)
    return await tool.carry_out(context, plan, tool.name)
