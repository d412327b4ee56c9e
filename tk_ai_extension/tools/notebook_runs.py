"""Run a whole notebook in a fresh kernel: the plan, and the tool that `nb run NOTEBOOK` calls."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from tk_ai_extension.model.background import run_to_completion
from tk_ai_extension.model.cell_tags import runnable
from tk_ai_extension.model.cells import Snapshot, counted
from tk_ai_extension.model.errors import ApprovalOutdated, Conflict, InvalidArguments
from tk_ai_extension.model.operations import Operation, SetOutputs, expecting
from tk_ai_extension.model.proposals import KernelReference, Proposal, ProposalStep, marked
from tk_ai_extension.notebooks.document import NotebookDocument
from tk_ai_extension.tools.changes import cell_step
from tk_ai_extension.tools.parameters import Wait
from tk_ai_extension.tools.registry import ToolContext, tool
from tk_ai_extension.tools.runs import ExecutionResult, follow, steps_of
from tk_ai_extension.tools.verification import CellTimeout
from tk_ai_extension.verification.parameters import (
    injection,
    source_of,
    unknown_parameters,
    values_of,
)
from tk_ai_extension.workspace import editing
from tk_ai_extension.workspace.fresh_kernels import FreshKernelSupervisor, fresh_kernel


@dataclass(frozen=True)
class NotebookRunPlan:
    """A notebook to run from the top in a fresh kernel.

    Attributes:
        document: The notebook.
        snapshot: The notebook as it was read.
        output: The path of the copy to run instead; None to run the notebook in place.
        replaces: Whether there is a file at that path, which is replaced.
        parameters: The source of the cell that sets parameters; empty for none.
        notices: What the caller has to know.
        kernel_name: The kernelspec; None for the default one.
        allow_errors: Whether all cells run, whatever fails.
        wait: Seconds to wait for the end.
        timeout: Seconds after which a cell is interrupted; None for no limit.
    """

    document: NotebookDocument
    snapshot: Snapshot
    output: str | None = None
    replaces: bool = False
    parameters: str = ""
    notices: tuple[str, ...] = ()
    kernel_name: str | None = None
    allow_errors: bool = False
    wait: float = 30.0
    timeout: float | None = None

    @property
    def path(self) -> str:
        """The notebook that outputs are written to."""
        return self.output or self.snapshot.path

    def proposal(self) -> Proposal:
        """Return all of the code, the file that is written, and the kernelspec of the new kernel."""
        steps: list[ProposalStep] = []
        cells = runnable(self.snapshot.cells)
        if self.output is not None:
            number = counted(len(self.snapshot.cells))
            title = f"Create {self.output} with {number}"
            if self.replaces:
                title = f"Replace {self.output} by a notebook with {number}"
            steps.append(ProposalStep("create", title))
        if self.parameters:
            lines = marked("+", self.parameters)
            steps.append(ProposalStep("insert", "Insert a code cell", runs=True, lines=lines))
        return Proposal(
            f"Run {counted(len(cells))} in a new kernel",
            (*steps, *(cell_step(self.snapshot, cell) for cell in cells)),
            notebook=self.path,
            kernel=KernelReference(None, self.kernel_name),
        )


async def run_plan(context: ToolContext, plan: NotebookRunPlan, tool: str) -> ExecutionResult:
    """Write the copy and the parameters, and run all cells in a fresh kernel."""
    workspace = context.workspace
    # The kernel first: if it does not start, nothing is changed.
    async with fresh_kernel(workspace.kernels, plan.kernel_name, plan.snapshot.path) as kernel_id:
        snapshot = plan.snapshot
        if plan.output is not None:
            snapshot = await run_to_completion(_copied(context, plan, plan.output))
        elif plan.parameters:
            injected = expecting(snapshot, [injection(snapshot, plan.parameters)])
            applied = await editing.apply(
                workspace, context.caller, plan.document, injected, tool=tool, shown=False
            )
            snapshot = applied.snapshot
        run = workspace.executions.start(
            context.caller,
            kernel_id,
            steps_of(runnable(snapshot.cells), allow_errors=plan.allow_errors),
            open_document=workspace.store.open,
            path=plan.path,
            timeout=plan.timeout,
            approval=context.approval,
            tool=tool,
            supervisor=FreshKernelSupervisor(workspace.kernels),
        )
    result = await follow(context, run, plan.wait, total_cells=len(snapshot.cells))
    result.notices += plan.notices
    return result


async def _copied(context: ToolContext, plan: NotebookRunPlan, output: str) -> Snapshot:
    """Write the copy that runs, with the parameters and without outputs; return it.

    Outputs of its source would look like a result. What belongs to a notebook that it replaces is
    forgotten.

    Raises:
        Conflict: A file has appeared at the path, or a person has opened it.
        ApprovalOutdated: The notebook has changed since the person approved its code.
    """
    workspace = context.workspace
    replaces = await _is_replaced(context, plan.document.path, output)
    if replaces and not plan.replaces:
        raise Conflict(
            f"{output} has since been created.", hint="Choose another name, or run again."
        )
    if context.approval is not None:
        now = await plan.document.read()
        if now.revision != plan.snapshot.revision:
            raise ApprovalOutdated("The notebook changed before it ran.")
    document = await workspace.store.copy(plan.document, output)
    if replaces:
        await workspace.replaced(output)
    snapshot = await document.read()
    operations: list[Operation] = [
        SetOutputs(cell.key)
        for cell in snapshot.cells
        if cell.type == "code" and (cell.outputs.count or cell.execution_count is not None)
    ]
    if plan.parameters:
        operations.append(injection(snapshot, plan.parameters))
    if not operations:
        return snapshot
    # A new file: there is nothing to undo.
    return (await document.apply(expecting(snapshot, operations))).snapshot


@tool("EXECUTE", carry_out=run_plan)
async def run_notebook(
    context: ToolContext,
    notebook: str,
    *,
    output: str | None = None,
    parameters: dict[str, str] = {},  # noqa: B006 - the schema's default
    parameter_files: dict[str, str] = {},  # noqa: B006 - the schema's default
    kernel_name: str | None = None,
    allow_errors: bool = False,
    wait: Wait = 30,
    timeout: CellTimeout = None,
) -> NotebookRunPlan:
    """Run all code cells of a notebook in a fresh kernel, with their outputs written into it.

    Parameters are texts, as those of files are: JSON has no infinity.
    """
    # papermill's import takes long.
    values = await asyncio.to_thread(values_of, parameters, parameter_files)
    workspace = context.workspace
    path = workspace.path(context.caller, notebook, tool="run_notebook")
    document = await workspace.store.open(path)
    snapshot = await document.read()
    if not runnable(snapshot.cells):
        raise InvalidArguments(f"{path} has no code to run.", hint="list_cells shows its cells.")
    target = None if output is None else workspace.contain(output)
    if values and target is None:
        raise InvalidArguments(
            "Parameters add a cell, so the notebook is not run in place.",
            hint="Name the file for the result with --output.",
        )
    is_copy = target is not None and target != path
    replaces = False
    if is_copy and target is not None:
        replaces = await _is_replaced(context, path, target)
    kernel_name = kernel_name or snapshot.kernel_name
    source = await asyncio.to_thread(source_of, values, snapshot, kernel_name) if values else ""
    unknown = ", ".join(unknown_parameters(snapshot, values))
    notice = f"The cell with the tag `parameters` does not set {unknown}."
    return NotebookRunPlan(
        document,
        snapshot,
        target if is_copy else None,
        replaces,
        source,
        (notice,) if unknown else (),
        kernel_name,
        allow_errors,
        wait,
        timeout,
    )


async def _is_replaced(context: ToolContext, path: str, target: str) -> bool:
    """Return whether there is a file that would be replaced.

    Raises:
        InvalidArguments: It is the file of the notebook at ``path``, under another name.
        Conflict: A person has it open, or a run writes it.
    """
    store = context.workspace.store
    context.workspace.executions.check_replaceable(target)
    if store.file_of(target) == store.file_of(path):
        raise InvalidArguments(
            f"{target} is the notebook {path} itself, under another name.",
            hint=f"Leave --output out or give it {path} to run in place, or choose another name.",
        )
    if store.is_open(target):
        raise Conflict(
            f"{target} is open in a browser, which would overwrite the result.",
            hint="Close it there, or choose another name.",
        )
    return await store.exists(target)
