"""Run cells and code as planned."""

from __future__ import annotations

from collections.abc import Sequence

from tk_ai_extension.model.cells import Cell
from tk_ai_extension.model.errors import CellNotFound, ToolError
from tk_ai_extension.notebooks.base import NotebookDocument
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.execution_results import ExecutionResult, follow
from tk_ai_extension.tools.plans import Edit, RunPlan
from tk_ai_extension.verification.verifying import may_fail
from tk_ai_extension.workspace import editing
from tk_ai_extension.workspace.runs import Run, Step


async def run(context: ToolContext, plan: RunPlan, tool: str) -> ExecutionResult:
    """Run the planned cells or code in the notebook's kernel; start one if none runs."""
    workspace = context.workspace
    kernel_id, started = await kernel_for(context, plan.document)
    if plan.restart and not started:
        await workspace.kernels.restart(kernel_id)
        workspace.incarnations.end(kernel_id)
    path = plan.document.path
    if plan.snapshot is None:
        scratch = workspace.executions.start(
            context.caller,
            kernel_id,
            [Step(code=plan.code)],
            path=path,
            timeout=plan.timeout,
            approval=context.approval,
            tool=tool,
        )
        return await follow(context, scratch, plan.wait)
    begun = start_cells(
        context,
        path,
        kernel_id,
        plan.cells,
        tool=tool,
        timeout=plan.timeout,
        stop_on_error=plan.stop_on_error,
    )
    return await follow(context, begun, plan.wait, total_cells=len(plan.snapshot.cells))


async def edit_and_run(context: ToolContext, edit: Edit, tool: str) -> ExecutionResult:
    """Apply the edit and run the changed code cells."""
    # Get the kernel first: if it does not start, nothing is changed.
    kernel_id, _ = await kernel_for(context, edit.document)
    applied = await editing.apply(
        context.workspace, context.caller, edit.document, edit.operations, tool=tool
    )
    cells = code_of(applied)
    try:
        begun = start_cells(
            context, edit.document.path, kernel_id, cells, tool=tool, timeout=edit.timeout
        )
        return await follow(context, begun, edit.wait, total_cells=len(applied.snapshot.cells))
    except CellNotFound:  # Somebody deleted the cell while it waited in the queue.
        raise
    except ToolError as error:
        # A caller that retries would insert the cell twice.
        message = f"{error.message} The new cell @{cells[0].key} is in the notebook."
        details = {**error.details, "cell": cells[0].key}
        raise type(error)(message, hint=error.hint, **details) from error


async def kernel_for(context: ToolContext, document: NotebookDocument) -> tuple[str, bool]:
    """Return the notebook's kernel, and whether it was started for this call.

    Raises:
        ApprovalOutdated: The person approved another kernel.
    """
    kernel_id, started = await context.workspace.kernel_for(document)
    if context.approval is not None:
        context.approval.check_kernel(kernel_id, started=started)
    return kernel_id, started


def code_of(applied: editing.JournaledEdit) -> list[Cell]:
    """Return the inserted and replaced code cells, in notebook order."""
    return [cell for cell in applied.written if cell.type == "code"]


def steps_of(cells: Sequence[Cell], *, allow_errors: bool = False) -> list[Step]:
    """Return the steps that run cells; those that their tags or the caller allow to may fail."""
    return [
        Step(cell.key, cell.index, cell.source, may_fail=allow_errors or may_fail(cell))
        for cell in cells
    ]


def start_cells(
    context: ToolContext,
    path: str,
    kernel_id: str,
    cells: Sequence[Cell],
    *,
    tool: str,
    timeout: float | None = None,
    stop_on_error: bool = True,
) -> Run:
    """Queue cells for a kernel; their outputs are written to the notebook."""
    workspace = context.workspace
    return workspace.executions.start(
        context.caller,
        kernel_id,
        steps_of(cells),
        open_document=workspace.store.open,
        path=path,
        timeout=timeout,
        stop_on_error=stop_on_error,
        approval=context.approval,
        tool=tool,
    )
