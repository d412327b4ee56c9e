"""Permission to call a tool: which notebook a call concerns, and what a person is shown of it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol

from pydantic import BaseModel

from tk_ai_extension.model.errors import PermissionDenied, PermissionRequired
from tk_ai_extension.model.proposals import KernelReference, Proposal, ProposalStep, marked
from tk_ai_extension.model.sentences import Sentence
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.plans import Plan
from tk_ai_extension.workspace.permission_requests import Effect
from tk_ai_extension.workspace.permissions import Decision

Concerns = Callable[[ToolContext, BaseModel], Awaitable[str | None]]
"""The path of the one notebook that a call concerns, or None."""


class CheckedTool(Protocol):
    """What a check needs of a tool; see `registry.Tool`."""

    @property
    def name(self) -> str:
        """The tool's name."""
        ...

    @property
    def concerns(self) -> Concerns:
        """Says which notebook a call concerns."""
        ...

    def effect_for(self, parsed: BaseModel) -> Effect:
        """What a call with these arguments can do."""
        ...


async def concerned_notebook(context: ToolContext, arguments: BaseModel) -> str | None:
    """The path of the one notebook that a call concerns; None where it is none, or several.

    It is the one whose execution is named, or whose kernel, else the one that `notebook` means. An
    approval for a notebook holds for calls that concern it alone, however they name it.

    Raises:
        ExecutionNotFound, PathRefused, NotANotebook.
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
    """The path of the one notebook meant by itself and by a kernel; None where none, or several.

    Raises:
        PathRefused, NotANotebook.
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
    """Whether one call may be made, as the mode and the people say.

    Args:
        context: Who calls, and how they are asked.
        tool: The tool's name.
        effect: What the call can do.
        arguments: What it was given.
    """

    def __init__(
        self, context: ToolContext, tool: str, effect: Effect, arguments: BaseModel
    ) -> None:
        self._context = context
        self._tool = tool
        self._effect: Effect = effect
        self._arguments = arguments.model_dump(mode="json", exclude_defaults=True)

    def needs_asking(self, proposal: Proposal) -> bool:
        """Whether a person has to be asked about just this call, standing approvals counted in."""
        return self._decision(proposal.notebook) is Decision.ASK

    async def refuse(self, tool: CheckedTool, parsed: BaseModel) -> None:
        """End a call that the mode refuses, before anything is read for it.

        Raises:
            PermissionDenied.
        """
        if self._decision(None) is Decision.REFUSE:
            path = await tool.concerns(self._context, parsed)
            await self.ask(self.by_arguments(path, None))

    async def ask(self, proposal: Proposal) -> None:
        """Ask a person for approval of what is proposed.

        Raises:
            PermissionDenied, PermissionRequired, LimitReached.
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
            await workspace.journal.record(
                caller,
                proposal.notebook or "",
                self._tool,
                f"refused: {refusal.message}",
                kind="refused",
                state="failed",
                note=refusal.code,
            )
            raise

    async def of_plan(self, plan: Plan) -> Proposal:
        """Return what a plan does, with the kernel that its notebook has now."""
        proposal = plan.proposal()
        if proposal.kernel is not None or proposal.notebook is None or not proposal.runs:
            return proposal
        return replace(proposal, kernel=await self._kernel(proposal.notebook))

    async def of_arguments(self, tool: CheckedTool, parsed: BaseModel) -> Proposal:
        """Return what a tool without a plan does: its arguments, the notebook and its kernel.

        The notebook comes last: the tool finds it by the same arguments at once after that.
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
        """Return the proposal that shows the arguments, code and text whole."""
        title = Sentence("call_tool", tool=self._tool)
        short: list[str] = []
        long: list[ProposalStep] = []
        for name, value in self._arguments.items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            if "\n" in text:
                long.append(
                    ProposalStep(
                        "arguments", Sentence("with_argument", name=name), lines=marked(" ", text)
                    )
                )
            else:
                short.append(f"{name}: {text}")
        lines = marked(" ", "\n".join(short)) if short else ()
        steps = (ProposalStep("arguments", title, lines=lines), *long)
        return Proposal(title, steps, notebook, kernel)

    def _decision(self, notebook: str | None) -> Decision:
        policy = self._context.workspace.policy
        return policy.decision(self._context.caller, self._effect, notebook)

    async def _kernel(self, path: str) -> KernelReference:
        workspace = self._context.workspace
        kernel_id = await workspace.kernel_of(path)
        if kernel_id is None:
            return KernelReference()
        return KernelReference(kernel_id, (await workspace.kernels.info(kernel_id)).name)


def permission_check(
    tool: CheckedTool, parsed: BaseModel, context: ToolContext
) -> PermissionCheck | None:
    """Return the check that a call needs; None where its effect runs for this caller anyhow."""
    effect = tool.effect_for(parsed)
    if context.workspace.policy.decision(context.caller, effect, None) is Decision.RUN:
        return None
    return PermissionCheck(context, tool.name, effect, parsed)
