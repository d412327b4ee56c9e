"""The result of a verification: short text for a model, and values for a program."""

from __future__ import annotations

import asyncio
from typing import Literal

from pydantic import BaseModel, Field

from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.verification.verifying import NotebookReport
from tk_ai_extension.workspace.fresh_kernels import VerificationRun
from tk_ai_extension.workspace.runs import Run

MAX_PROBLEMS = 50
"""Maximum cells in `problems`."""
LINES = 10
"""Maximum lines of a diff or traceback that a text shows."""
MAX_LINES = 100
"""Maximum lines of a text."""


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

    status: Literal["running", "same", "runs", "differs", "failed", "interrupted"]
    """``runs``: it ran without an error, and nothing was compared."""
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
    number, total = (run.steps.index(run.current) + 1 if run.steps else 0), len(run.steps)
    if not run.done or report.finished is None:
        text = f"Cell {number} of {total} code cells is {run.current.status}."
        return VerificationSummary(status="running", text=text, total=total, number=number)
    summary, whole = await asyncio.to_thread(_rendered, report.finished)
    summary.total, summary.number = total, number
    if context.caller.interface == "nb":
        summary.cells = [
            VerifiedCell(cell=each.cell, index=each.index, status=each.status)
            for each in report.finished.cells
        ]
    if run.cancelled:
        summary.status = "interrupted"
    if len(summary.text) < len(whole):
        try:
            written = await context.workspace.artifacts.write(context.caller.user, whole)
        except ToolError as error:
            summary.text += f"\n[the whole report was not saved: {error.message}]"
        else:
            summary.artifact = written.id
            summary.text += f"\n[whole report: read_output {written.id}]"
    return summary


def _rendered(finished: NotebookReport) -> tuple[VerificationSummary, str]:
    """Return the summary of a report, and the whole report as text."""
    bad = [cell for cell in finished.cells if cell.is_bad]
    problems: list[CellProblem] = []
    for cell in bad[:MAX_PROBLEMS]:
        lines = [line[2:] for line in cell.as_lines(LINES) if line.startswith("  ")]
        problems.append(
            CellProblem(
                cell=cell.cell,
                index=cell.index,
                status="failed" if cell.status == "failed" else "differs",
                message=cell.problem,
                diff="\n".join(lines[: 2 * LINES]),
            )
        )
    lines = [*finished.as_lines(LINES)]
    lines[MAX_LINES:] = [f"[{len(lines) - MAX_LINES} more lines]"] * (len(lines) > MAX_LINES)
    summary = VerificationSummary(
        status=finished.status,
        text="\n".join(lines),
        total=0,
        number=0,
        problems=problems,
        left_out=len(bad) - len(problems),
        hidden_state=[
            HiddenState(kind=each.kind, cell=each.cell, index=each.index, message=each.message)
            for each in finished.findings
        ],
    )
    return summary, "\n".join(finished.as_lines(None))
