"""Tools of `nb run NOTEBOOK` and `nb verify`: more options than those for agents. No toolset has them."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from tk_ai_extension.model.cells import Cell, counted
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.operations import SetOutputs
from tk_ai_extension.model.ranges import format_ranges
from tk_ai_extension.tools.notebook_runs import run_notebook
from tk_ai_extension.tools.registry import Result, ToolContext, tool
from tk_ai_extension.tools.verification import verify_notebook
from tk_ai_extension.verification.comparing import is_error
from tk_ai_extension.workspace import editing
from tk_ai_extension.workspace.fresh_kernels import VerificationRun


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

    Cells that failed or are not compared keep their outputs. So do those whose
    outputs were made by code that is no longer the notebook's.
    """
    workspace = context.workspace
    report = workspace.executions.get(context.caller, execution_id).report
    if not isinstance(report, VerificationRun) or report.finished is None:
        raise InvalidArguments("This execution is no verification that has ended.")
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
        present = now.get(code)
        if present is None or _state(present) != _state(ran):
            result.kept += [ran.index] if is_new or count != ran.execution_count else []
            continue
        stored = await document.outputs(present.key)
        outputs = _counted(execution.outputs if is_new else stored, count)
        if outputs != stored or count != present.execution_count:
            replaces = stored, present.execution_count
            operations.append(SetOutputs(present.key, outputs, count, present.hash, replaces, code))
            result.stored.append(ran.index)
    await editing.apply(workspace, context.caller, document, operations, tool="nb verify")
    return result


def _state(cell: Cell) -> tuple[Any, ...]:
    """Return what changes when a cell runs."""
    return cell.execution_count, cell.outputs


def _counted(outputs: tuple[Json, ...], count: int | None) -> tuple[Json, ...]:
    """Return outputs with this execution count in their results."""
    return tuple(
        {**output, "execution_count": count}
        if "execution_count" in output and not is_error(output)
        else output
        for output in outputs
    )


TOOLS = (run_notebook, verify_notebook, store_outputs)
"""The tools; some have names of those for agents."""
