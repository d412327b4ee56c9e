"""The result of a verification: short text for a model, and values for a program."""

from __future__ import annotations

import asyncio
from typing import Literal

from pydantic import BaseModel, Field

from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.verification.report import CellReport, NotebookReport
from tk_ai_extension.workspace.runs import Run
from tk_ai_extension.workspace.verifications import VerificationRun

MAX_CELLS = 6
"""Maximum cells whose problems a text shows; the others are in the whole report."""
MAX_PROBLEMS = 50
"""Maximum cells in `problems`."""
LINES = 10
"""Maximum lines of a diff or traceback that a text shows."""
MAX_LINES = 40
"""Maximum lines that a text shows of one cell."""


class CellProblem(BaseModel):
    """A cell that fails or differs."""

    cell: str
    index: int
    status: Literal["differs", "failed"]
    message: str
    diff: str = ""
    """The beginning of a unified diff, or of the traceback."""


class HiddenState(BaseModel):
    """Something that the stored notebook owes to a kernel that is gone."""

    kind: Literal["order", "gap", "undefined", "later"]
    cell: str
    index: int
    message: str


class VerifiedCell(BaseModel):
    """How a code cell ended."""

    cell: str
    index: int
    status: str


class VerificationSummary(BaseModel):
    """What a verification found, or how far it is."""

    status: Literal["running", "same", "differs", "failed", "interrupted"]
    text: str
    total: int
    """Code cells to run."""
    cells: list[VerifiedCell] = Field(default_factory=list[VerifiedCell])
    """All code cells, for `nb verify`."""
    number: int
    """The cell that runs now, counted from 1; the last one at the end."""
    problems: list[CellProblem] = Field(default_factory=list[CellProblem])
    left_out: int = 0
    """The number of cells that fail or differ beyond those in `problems`."""
    hidden_state: list[HiddenState] = Field(default_factory=list[HiddenState])
    artifact: str | None = None
    """The whole report, if the text is shortened."""


async def summarize(context: ToolContext, run: Run, report: VerificationRun) -> VerificationSummary:
    """Return the summary of a run that verifies a notebook; the whole report becomes an artifact."""
    number, total = _position(run), len(run.steps)
    if not run.done or report.finished is None:
        text = f"Cell {number} of {total} code cells is {run.current.status}."
        return VerificationSummary(status="running", text=text, total=total, number=number)
    finished = report.finished
    summary, whole = await asyncio.to_thread(_rendered, finished)
    summary.total, summary.number = total, number
    if context.caller.interface == "nb":
        summary.cells = [
            VerifiedCell(cell=each.cell, index=each.index, status=each.status)
            for each in finished.cells
        ]
    if run.cancelled:
        summary.status = "interrupted"
    if whole is not None:
        summary.text, summary.artifact = await _shortened(context, summary.text, whole)
    return summary


def _rendered(finished: NotebookReport) -> tuple[VerificationSummary, str | None]:
    """Return the summary of a report, and the whole report as text if the summary's is shorter."""
    bad = [cell for cell in finished.cells if cell.is_bad]
    lines = [finished.summary]
    for cell in bad[:MAX_CELLS]:
        lines += _cell_lines(cell)
    lines += [finding.message for finding in finished.findings[:MAX_CELLS]]
    summary = VerificationSummary(
        status=finished.status,
        text="\n".join(lines),
        total=0,
        number=0,
        problems=[_problem(cell) for cell in bad[:MAX_PROBLEMS]],
        left_out=max(len(bad) - MAX_PROBLEMS, 0),
        hidden_state=[
            HiddenState(
                kind=each.kind,
                cell=each.cell,
                index=each.index,
                message=each.message,
            )
            for each in finished.findings
        ],
    )
    whole = "\n".join(finished.as_lines(None)) + "\n"
    is_whole = max(len(bad), len(finished.findings)) <= MAX_CELLS
    return summary, None if is_whole and len(summary.text) + 50 >= len(whole) else whole


def _cell_lines(cell: CellReport) -> list[str]:
    lines = list(cell.as_lines(LINES))
    if len(lines) > MAX_LINES:
        lines[MAX_LINES:] = [f"  [{len(lines) - MAX_LINES} more lines]"]
    return lines


def _position(run: Run) -> int:
    return run.steps.index(run.current) + 1 if run.steps else 0


def _problem(cell: CellReport) -> CellProblem:
    message = cell.problem
    shown = [line.removeprefix("  ") for line in cell.as_lines(LINES) if line.startswith("  ")]
    return CellProblem(
        cell=cell.cell,
        index=cell.index,
        status="failed" if cell.status == "failed" else "differs",
        message=message,
        diff="\n".join(shown[: 2 * LINES]),
    )


async def _shortened(context: ToolContext, text: str, whole: str) -> tuple[str, str | None]:
    """Return the text with a reference to the whole report, and the id of its artifact."""
    try:
        artifact = await context.workspace.artifacts.write(context.caller.user, whole)
    except ToolError as error:
        return f"{text}\n[the whole report was not saved: {error.message}]", None
    return f"{text}\n[whole report: read_output {artifact.id}]", artifact.id
