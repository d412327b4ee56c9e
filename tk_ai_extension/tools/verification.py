"""Verify a notebook in a fresh kernel: the plan, and the tool with all options that `nb verify` calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.model.proposals import KernelReference, Proposal
from tk_ai_extension.notebooks.base import NotebookDocument
from tk_ai_extension.tools.context import Notebook, ToolContext, Wait
from tk_ai_extension.tools.execution_results import ExecutionResult, follow
from tk_ai_extension.tools.plans import cell_step
from tk_ai_extension.tools.registry import tool
from tk_ai_extension.verification.rules import DEFAULT, Rules, sanitizers_in
from tk_ai_extension.verification.stored import stored_outputs
from tk_ai_extension.verification.verifying import Verification
from tk_ai_extension.workspace.verifications import (
    VerificationRun,
    VerificationSupervisor,
    steps_of,
)

CellTimeout = Annotated[float | None, Field(gt=0, description="seconds per cell")]


@dataclass(frozen=True)
class VerificationPlan:
    """A notebook to run in a fresh kernel, without changing it.

    Attributes:
        document: The notebook.
        snapshot: The notebook as it was read: these sources run.
        cells: The code cells that run.
        rules: What the comparison ignores.
        kernel_name: The kernelspec; None for the notebook's.
        wait: Seconds to wait for the end.
        timeout: Seconds after which a cell is interrupted; None for no limit.
    """

    document: NotebookDocument
    snapshot: Snapshot
    cells: tuple[Cell, ...]
    rules: Rules = DEFAULT
    kernel_name: str | None = None
    wait: float = 30.0
    timeout: float | None = None

    def proposal(self) -> Proposal:
        """Return all of the code, and the kernelspec of the new kernel."""
        name = self.kernel_name or self.snapshot.kernel_name
        return Proposal(
            (
                f"Run {len(self.cells)} cell in a new kernel, without changing the notebook"
                if len(self.cells) == 1
                else f"Run {len(self.cells)} cells in a new kernel, without changing the notebook"
            ),
            tuple(cell_step(self.snapshot, cell) for cell in self.cells),
            notebook=self.snapshot.path,
            kernel=KernelReference(None, name),
        )


async def plan_verification(
    context: ToolContext,
    notebook: str | None,
    *,
    rules: Rules | None = None,
    kernel_name: str | None = None,
    wait: float = 30.0,
    timeout: float | None = None,
) -> VerificationPlan:
    """Plan the verification of a notebook.

    Raises:
        InvalidArguments: It has no code to run.
        InvalidArguments, NotebookNotFound, InvalidNotebook.
    """
    workspace = context.workspace
    path = workspace.path(context.caller, notebook, tool="verify_notebook")
    document = await workspace.store.open(path)
    snapshot = await document.read()
    cells = tuple(Verification(snapshot, {}, DEFAULT).cells)
    if not cells:
        raise InvalidArguments(f"{path} has no code to run.", hint="list_cells shows its cells.")
    return VerificationPlan(
        document, snapshot, cells, rules or DEFAULT, kernel_name, wait=wait, timeout=timeout
    )


async def verify(context: ToolContext, plan: VerificationPlan, tool: str) -> ExecutionResult:
    """Run the planned cells in a fresh kernel and compare their outputs."""
    workspace, snapshot = context.workspace, plan.snapshot
    stored = await stored_outputs(plan.document, snapshot)
    name = plan.kernel_name or snapshot.kernel_name
    async with workspace.fresh.handed_over(context.caller.user, name, snapshot.path) as kernel_id:
        kernel = (await workspace.kernels.info(kernel_id)).name
        report = VerificationRun(Verification(snapshot, stored, plan.rules), kernel)
        run = workspace.executions.start(
            context.caller,
            kernel_id,
            steps_of(report.verification),
            path=snapshot.path,
            timeout=plan.timeout,
            stop_on_error=False,
            approval=context.approval,
            tool=tool,
            supervisor=VerificationSupervisor(workspace.fresh, report),
            report=report,
        )
    return await follow(context, run, plan.wait, total_cells=len(snapshot.cells))


@tool("EXECUTE", carry_out=verify)
async def verify_notebook(
    context: ToolContext,
    notebook: Notebook = None,
    *,
    sanitizers: Annotated[list[str], Field(description="texts of files in nbval's format")] = [],  # noqa: B006 - the schema's default
    ignore_times: bool = False,
    tolerance: Annotated[float, Field(ge=0)] = DEFAULT.relative,
    image_tolerance: Annotated[float, Field(ge=0, le=1)] = DEFAULT.image,
    lax: bool = False,
    kernel_name: str | None = None,
    wait: Wait = 30,
    timeout: CellTimeout = None,
) -> VerificationPlan:
    """Run all code cells in a fresh kernel and compare their outputs with the stored ones."""
    rules = Rules(
        sanitizers=tuple(each for text in sanitizers for each in sanitizers_in(text)),
        ignore_times=ignore_times,
        relative=tolerance,
        image=image_tolerance,
        lax=lax,
    )
    return await plan_verification(
        context, notebook, rules=rules, kernel_name=kernel_name, wait=wait, timeout=timeout
    )
