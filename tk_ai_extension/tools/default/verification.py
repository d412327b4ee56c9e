"""Verify a notebook: run it in a fresh kernel, and compare its outputs with the stored ones."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic.json_schema import SkipJsonSchema

from tk_ai_extension.model.cell_tags import runnable
from tk_ai_extension.model.cells import Snapshot, counted
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.model.proposals import Proposal, ProposalKernel
from tk_ai_extension.notebooks.document import NotebookDocument
from tk_ai_extension.tools.edit_plans import cell_step
from tk_ai_extension.tools.parameter_types import CellTimeout, Notebook, Wait
from tk_ai_extension.tools.registry import ToolContext, tool
from tk_ai_extension.tools.run_plans import ExecutionResult, follow
from tk_ai_extension.verification.output_comparison import ComparisonRules
from tk_ai_extension.verification.report import Verification
from tk_ai_extension.workspace.fresh_kernels import VerificationRun, fresh_kernel


@dataclass(frozen=True)
class VerificationPlan:
    """A notebook to run in a fresh kernel, without changing it.

    Attributes:
        document: The notebook.
        snapshot: The notebook as it was read: these sources run.
        rules: The differences that the comparison ignores.
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
        cells = runnable(self.snapshot.cells)
        return Proposal(
            f"Run {counted(len(cells))} in a new kernel, without changing the notebook",
            tuple(cell_step(self.snapshot, cell) for cell in cells),
            notebook=self.snapshot.path,
            kernel=ProposalKernel(None, self.kernel_name),
        )


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


@tool("EXECUTE", carry_out=verify, command="verify notebook")
async def verify_notebook(
    context: ToolContext,
    notebook: Notebook = None,
    wait: Wait = 30,
    timeout: CellTimeout = None,
    # Options of `nb verify`. Agents do not see them.
    sanitizers: SkipJsonSchema[list[str]] = [],  # noqa: B006 - pydantic copies it
    ignore_times: SkipJsonSchema[bool] = False,
    lax: SkipJsonSchema[bool] = False,
    kernel_name: SkipJsonSchema[str | None] = None,
) -> VerificationPlan:
    """Run all code cells in a fresh kernel. Returns cells that fail, or have outputs that differ from the
    stored ones. The notebook and its kernel do not change.
    """
    rules = ComparisonRules.of(sanitizers, ignore_times=ignore_times, lax=lax)
    path = context.workspace.path(context.caller, notebook, tool="verify_notebook")
    document = await context.workspace.store.open(path)
    snapshot = await document.read()
    if not runnable(snapshot.cells):
        raise InvalidArguments(f"{path} has no code to run.", hint="list_cells shows its cells.")
    kernel_name = kernel_name or snapshot.kernel_name
    return VerificationPlan(document, snapshot, rules, kernel_name, wait, timeout)
