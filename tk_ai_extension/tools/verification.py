"""Verify a notebook in a fresh kernel: the plan, and the tool with all options that `nb verify` calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from tk_ai_extension.model.cells import Snapshot, counted
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.model.proposals import KernelReference, Proposal
from tk_ai_extension.notebooks.document import NotebookDocument
from tk_ai_extension.tools.changes import cell_step
from tk_ai_extension.tools.parameters import Notebook, Wait
from tk_ai_extension.tools.registry import ToolContext, tool
from tk_ai_extension.tools.runs import ExecutionResult, follow
from tk_ai_extension.verification.comparing import DEFAULT, ComparisonRules, sanitizers_in
from tk_ai_extension.verification.verifying import Verification
from tk_ai_extension.workspace.fresh_kernels import VerificationRun, fresh_kernel

CellTimeout = Annotated[float | None, Field(gt=0, description="seconds per cell")]


@dataclass(frozen=True)
class VerificationPlan:
    """A notebook to run in a fresh kernel, without changing it.

    Attributes:
        document: The notebook.
        snapshot: The notebook as it was read: these sources run.
        rules: What the comparison ignores.
        kernel_name: The kernelspec; None for the default one.
        wait: Seconds to wait for the end.
        timeout: Seconds after which a cell is interrupted; None for no limit.
    """

    document: NotebookDocument
    snapshot: Snapshot
    rules: ComparisonRules
    kernel_name: str | None
    wait: float
    timeout: float | None

    def proposal(self) -> Proposal:
        """Return all of the code, and the kernelspec of the new kernel."""
        cells = Verification(self.snapshot, {}, DEFAULT).cells
        return Proposal(
            f"Run {counted(len(cells))} in a new kernel, without changing the notebook",
            tuple(cell_step(self.snapshot, cell) for cell in cells),
            notebook=self.snapshot.path,
            kernel=KernelReference(None, self.kernel_name),
        )


async def plan_verification(
    context: ToolContext,
    notebook: str | None,
    *,
    wait: float,
    timeout: float | None,
    rules: ComparisonRules = DEFAULT,
    kernel_name: str | None = None,
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
    if not Verification(snapshot, {}, DEFAULT).cells:
        raise InvalidArguments(f"{path} has no code to run.", hint="list_cells shows its cells.")
    name = kernel_name or snapshot.kernel_name
    return VerificationPlan(document, snapshot, rules, name, wait, timeout)


async def verify(context: ToolContext, plan: VerificationPlan, tool: str) -> ExecutionResult:
    """Run the planned cells in a fresh kernel and compare their outputs."""
    workspace, snapshot = context.workspace, plan.snapshot
    stored = {
        cell.key: await plan.document.outputs(cell.key)
        for cell in snapshot.cells
        if cell.type == "code" and cell.outputs.count
    }
    async with fresh_kernel(workspace.kernels, plan.kernel_name, snapshot.path) as kernel_id:
        report = VerificationRun(workspace.kernels, Verification(snapshot, stored, plan.rules))
        run = workspace.executions.start(
            context.caller,
            kernel_id,
            report.steps,
            path=snapshot.path,
            timeout=plan.timeout,
            stop_on_error=False,
            approval=context.approval,
            tool=tool,
            supervisor=report,
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
    image_tolerance: Annotated[float, Field(ge=0, le=1)] = DEFAULT.image,
    lax: bool = False,
    kernel_name: str | None = None,
    wait: Wait = 30,
    timeout: CellTimeout = None,
) -> VerificationPlan:
    """Run all code cells in a fresh kernel and compare their outputs with the stored ones."""
    rules = ComparisonRules(
        sanitizers=tuple(each for text in sanitizers for each in sanitizers_in(text)),
        ignore_times=ignore_times,
        image=image_tolerance,
        lax=lax,
    )
    return await plan_verification(
        context, notebook, wait=wait, timeout=timeout, rules=rules, kernel_name=kernel_name
    )
