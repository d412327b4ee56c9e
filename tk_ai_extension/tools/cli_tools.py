"""Tools of `nb run NOTEBOOK`, `nb verify --update` and `nb blame`. They are in no toolset."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, Field

from tk_ai_extension.model.background_tasks import run_to_completion
from tk_ai_extension.model.cell_operations import Operation, SetOutputs, expecting
from tk_ai_extension.model.cell_tags import runnable
from tk_ai_extension.model.cells import Cell, Snapshot, counted
from tk_ai_extension.model.errors import ApprovalOutdated, Conflict, InvalidArguments
from tk_ai_extension.model.index_ranges import format_ranges
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.proposals import Proposal, ProposalKernel, ProposalStep, marked
from tk_ai_extension.notebooks.document import NotebookDocument
from tk_ai_extension.tools.default.verification import verify_notebook
from tk_ai_extension.tools.edit_plans import cell_step
from tk_ai_extension.tools.parameter_types import CellTimeout, MaybeAddress, Notebook, Wait
from tk_ai_extension.tools.registry import Result, ToolContext, tool
from tk_ai_extension.tools.run_plans import ExecutionResult, follow, steps_of
from tk_ai_extension.verification.notebook_parameters import (
    injection,
    source_of,
    unknown_parameters,
    values_of,
)
from tk_ai_extension.verification.output_comparison import is_error
from tk_ai_extension.workspace import editing
from tk_ai_extension.workspace.fresh_kernels import (
    FreshKernelSupervisor,
    VerificationRun,
    fresh_kernel,
)


@dataclass(frozen=True)
class NotebookRunPlan:
    """A notebook to run from the top in a fresh kernel.

    Attributes:
        document: The notebook.
        snapshot: The notebook as it was read.
        output: The path of the copy to run instead; None to run the notebook in place.
        replaces: Whether there is a file at that path, which is replaced.
        parameters: The source of the cell that sets parameters; empty for none.
        notices: Notices for the caller.
        kernel_name: The kernelspec; None for the default one.
        allow_errors: Whether all cells run, even after a failure.
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
            kernel=ProposalKernel(None, self.kernel_name),
        )


async def run_plan(context: ToolContext, plan: NotebookRunPlan, tool: str) -> ExecutionResult:
    """Write the copy and the parameters, and run all cells in a fresh kernel."""
    workspace = context.workspace
    # The kernel first: if it does not start, nothing is changed.
    async with fresh_kernel(workspace.kernels, plan.kernel_name, plan.snapshot.path) as kernel_id:
        snapshot = plan.snapshot
        if plan.output is not None:
            snapshot = await run_to_completion(_copied(context, plan, plan.output))
        run = workspace.executions.start(
            context.caller,
            kernel_id,
            steps_of(snapshot, runnable(snapshot.cells), allow_errors=plan.allow_errors),
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

    Outputs of the source notebook would look like results. The state of a replaced notebook is
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
    # A new file: the undo of its creation is not offered.
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

    Parameters are texts, as in files: JSON has no infinity.
    """
    # Imported late: papermill is slow to import.
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
    replaces = target is not None and await _is_replaced(context, path, target)
    kernel_name = kernel_name or snapshot.kernel_name
    source = await asyncio.to_thread(source_of, values, snapshot, kernel_name) if values else ""
    unknown = ", ".join(unknown_parameters(snapshot, values))
    notice = f"The cell with the tag `parameters` does not set {unknown}."
    return NotebookRunPlan(
        document,
        snapshot,
        target,
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
        InvalidArguments: It is the file of the notebook at ``path``.
        Conflict: A person has it open, or a run writes it.
    """
    store = context.workspace.store
    context.workspace.executions.check_replaceable(target)
    if store.file_of(target) == store.file_of(path):
        raise InvalidArguments(
            f"{target} is the notebook {path} itself.",
            hint="Leave --output out to run in place, or choose another name.",
        )
    if store.is_open(target):
        raise Conflict(
            f"{target} is open in a browser, which would overwrite the result.",
            hint="Close it there, or choose another name.",
        )
    return await store.exists(target)


class OutputsStored(Result):
    """The cells with new outputs stored, and those that keep theirs."""

    notebook: str
    stored: list[int]
    kept: list[int] = Field(default_factory=list[int])
    """Their code, or that of a cell above, changed after they ran, or another caller ran them."""

    def as_text(self) -> str:
        """Return what was stored."""
        text = f"Stored the outputs of {counted(len(self.stored))}."
        if self.kept:
            places = format_ranges([index + 1 for index in self.kept])
            text += f" Not of cell {places}: the code there or above has since changed."
        return text


@tool("WRITE")
async def store_outputs(context: ToolContext, execution_id: str) -> OutputsStored:
    """Store the outputs that differ, and the execution counts, of a verification that has ended.

    Cells that failed or are not compared keep their outputs. So do cells with
    outputs of code that has changed in the notebook since.
    """
    workspace = context.workspace
    report = workspace.executions.get(context.caller, execution_id).report
    if not isinstance(report, VerificationRun) or report.finished is None:
        raise InvalidArguments("This execution is not a verification that has ended.")
    verification, finished = report.verification, report.finished
    document = await workspace.store.open(verification.snapshot.path)
    now = (await document.read()).code_hashes
    operations: list[SetOutputs] = []
    result = OutputsStored(notebook=document.path, stored=[])
    states = {cell.cell: cell.status for cell in finished.cells}
    for code, ran in verification.snapshot.code_hashes.items():
        execution, status = verification.ended.get(ran.key), states[ran.key]
        if execution is None or status == "failed":
            continue
        count = execution.execution_count
        is_new = status == "differs" or (ran.execution_count is None and not ran.outputs.count)
        present, index = now.get(code), verification.snapshot.index(ran)
        if present is None or _state(present) != _state(ran):
            result.kept += [index] if is_new or count != ran.execution_count else []
            continue
        stored = await document.outputs(present.key)
        outputs = _counted(execution.outputs if is_new else stored, count)
        if outputs != stored or count != present.execution_count:
            replaces = stored, present.execution_count
            operations.append(SetOutputs(present.key, outputs, count, present.hash, replaces, code))
            result.stored.append(index)
    await editing.apply(workspace, context.caller, document, operations, tool="nb verify")
    return result


def _state(cell: Cell) -> tuple[Any, ...]:
    """Return the parts of a cell that a run changes."""
    return cell.execution_count, cell.outputs


def _counted(outputs: tuple[Json, ...], count: int | None) -> tuple[Json, ...]:
    """Return outputs with this execution count in their results."""
    return tuple(
        {**output, "execution_count": count}
        if "execution_count" in output and not is_error(output)
        else output
        for output in outputs
    )


class BlameEntry(BaseModel):
    """The last change of a cell's source, or its last run."""

    index: int = 0
    cell: str = ""
    kind: str
    time: float
    """In seconds since the epoch."""
    author: str
    user: str
    tool: str
    turn: str | None
    model: str
    edited_since: bool = False
    """Whether the source was edited by hand after the change."""


class BlameResult(Result):
    """Who changed and ran the cells of a notebook last."""

    notebook: str
    cells: list[BlameEntry]

    def as_text(self) -> str:
        """Return a line for each change and run."""
        lines: list[str] = []
        for each in self.cells:
            time = datetime.fromtimestamp(each.time, UTC).strftime("%Y-%m-%d %H:%M:%S")
            model = f" ({each.model})" if each.model else ""
            user = f" for {each.user}" if each.author != each.user else ""
            turn = f", turn {each.turn}" if each.turn else ""
            since = "; edited by hand since" if each.edited_since else ""
            who = f"{each.author}{model}{user}, {each.tool}{turn}{since}"
            lines.append(f"{each.index} @{each.cell} {each.kind} {time} by {who}")
        return "\n".join(lines) or f"{self.notebook} has no recorded history."


@tool("READ")
async def blame(
    context: ToolContext, cell: MaybeAddress = None, notebook: Notebook = None
) -> BlameResult:
    """Show who changed each cell last, and who ran it (calls of tools, not a person's typing)."""
    workspace, caller = context.workspace, context.caller
    document = await workspace.store.open(workspace.path(caller, notebook, tool="nb blame"))
    snapshot = await document.read()
    found = await workspace.journal.blame(document.path, caller.user)
    result = BlameResult(notebook=document.path, cells=[])
    for each in snapshot.cells if cell is None else (snapshot.cell(cell),):
        for entry in found.get(each.key, ()):
            after = entry.changes[-1].after if entry.changes else None
            blamed = BlameEntry.model_validate(entry, from_attributes=True)
            blamed.index, blamed.cell = snapshot.index(each), snapshot.short_key(each)
            blamed.edited_since = after is not None and after.source != each.source
            result.cells.append(blamed)
    return result


TOOLS = (run_notebook, verify_notebook, store_outputs, blame)
"""The tools; some have names of those for agents."""
