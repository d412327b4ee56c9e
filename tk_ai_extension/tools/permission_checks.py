"""Permission checks of tool calls: the notebook that a call concerns, and the proposal to approve."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from pydantic import BaseModel

from tk_ai_extension.model.errors import PermissionDenied, PermissionRequired, ToolError
from tk_ai_extension.model.proposals import KernelReference, Proposal, ProposalStep, marked
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.plans import Plan
from tk_ai_extension.workspace.permission_requests import Effect
from tk_ai_extension.workspace.permissions import PermissionDecision

logger = logging.getLogger(__name__)

Concerns = Callable[[ToolContext, BaseModel], Awaitable[str | None]]
"""Returns the path of the one notebook that a call concerns, or None."""


class CheckedTool(Protocol):
    """The part of `registry.Tool` that a permission check uses."""

    @property
    def name(self) -> str:
        """The tool's name."""
        ...

    @property
    def concerns(self) -> Concerns:
        """Return the notebook that a call concerns."""
        ...

    def effect_for(self, parsed: BaseModel) -> Effect:
        """Return the effect of a call with these arguments."""
        ...


async def concerned_notebook(context: ToolContext, arguments: BaseModel) -> str | None:
    """Return the path of the one notebook that a call concerns; None for none or several.

    It is the notebook of the execution or the kernel that the arguments name, else the one that
    `notebook` names. An approval for a notebook applies to calls that concern only that notebook.

    Raises:
        ExecutionNotFound: The caller has no such execution.
        PathRefused: The path is outside the root or hidden.
        InvalidArguments: The path does not end in ``.ipynb``.
    """
    workspace, caller = context.workspace, context.caller
    execution_id: str | None = getattr(arguments, "execution_id", None)
    if execution_id is not None:
        return workspace.executions.get(caller, execution_id).path
    notebook: str | None = getattr(arguments, "notebook", None)
    kernel_id: str | None = getattr(arguments, "kernel_id", None)
    return await path_of_kernel(context, notebook, kernel_id)


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
        return self._decision(proposal.notebook) is PermissionDecision.ASK

    async def refuse(self, tool: CheckedTool, parsed: BaseModel) -> None:
        """Refuse a call that the mode forbids, before the tool reads anything.

        Raises:
            PermissionDenied: The mode forbids the call.
        """
        if self._decision(None) is PermissionDecision.REFUSE:
            path = await tool.concerns(self._context, parsed)
            await self.ask(self.by_arguments(path, None))

    async def ask(self, proposal: Proposal) -> None:
        """Ask a person to approve a proposal.

        Raises:
            PermissionDenied: The mode forbids the call, or the person denied it.
            PermissionRequired: Nobody can be asked during the call.
            LimitReached: Too many requests of this user are pending.
        """
        workspace, caller = self._context.workspace, self._context.caller
        try:
            await workspace.policy.check(
                caller,
                self._tool,
                self._effect,
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

    async def of_plan(self, plan: Plan) -> Proposal:
        """Return a plan's proposal, with the current kernel of its notebook."""
        proposal = plan.proposal()
        if proposal.kernel is not None or proposal.notebook is None or not proposal.runs:
            return proposal
        return replace(proposal, kernel=await self._kernel(proposal.notebook))

    async def of_arguments(self, tool: CheckedTool, parsed: BaseModel) -> Proposal:
        """Return the proposal of a tool without a plan: its arguments, the notebook and its kernel.

        The notebook is resolved last, immediately before the tool resolves it by the same arguments.
        """
        kernel = None
        if self._effect == "EXECUTE":
            kernel_id: str | None = getattr(parsed, "kernel_id", None)
            path = await tool.concerns(self._context, parsed)
            if kernel_id is not None:
                kernel = KernelReference(kernel_id)
            elif path is not None:
                kernel = await self._kernel(path)
        return self.by_arguments(await tool.concerns(self._context, parsed), kernel)

    def by_arguments(self, notebook: str | None, kernel: KernelReference | None) -> Proposal:
        """Return a proposal that shows the arguments in full."""
        return argument_proposal(f"Call {self._tool}", self._arguments, notebook, kernel)

    def _decision(self, notebook: str | None) -> PermissionDecision:
        policy = self._context.workspace.policy
        return policy.decision(self._context.caller, self._effect, notebook, tool=self._tool)

    async def _kernel(self, path: str) -> KernelReference:
        workspace = self._context.workspace
        kernel_id = await workspace.kernel_of(path)
        if kernel_id is None:
            return KernelReference()
        return KernelReference(kernel_id, (await workspace.kernels.info(kernel_id)).name)


def argument_proposal(
    title: str,
    arguments: Mapping[str, Any],
    notebook: str | None = None,
    kernel: KernelReference | None = None,
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


def permission_check(
    tool: CheckedTool, parsed: BaseModel, context: ToolContext
) -> PermissionCheck | None:
    """Return the check that a call needs; None if the caller's mode allows its effect."""
    effect = tool.effect_for(parsed)
    policy = context.workspace.policy
    if policy.decision(context.caller, effect, None, tool=tool.name) is PermissionDecision.RUN:
        return None
    return PermissionCheck(context, tool.name, effect, parsed)
