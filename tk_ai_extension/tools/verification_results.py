"""The result of a verification: short text for a model, and values for a program."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import BaseModel, Field

from tk_ai_extension.model.digest import shorten
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.tools.registry import ToolContext
from tk_ai_extension.verification.verifying import CellReport
from tk_ai_extension.workspace.fresh_kernels import VerificationRun
from tk_ai_extension.workspace.runs import Run

MAX_PROBLEMS = 50
"""Maximum cells in `problems`."""
MAX_DIFF = 2_000
"""Maximum characters of the diff of one cell in `problems`."""
MAX_TEXT = 8_000
"""Maximum characters of the text."""


class VerificationSummary(BaseModel):
    """What a verification found, or how far it is."""

    status: Literal["running", "same", "runs", "differs", "failed", "interrupted"]
    """``runs``: it ran without an error, and nothing was compared."""
    text: str
    total: int
    """Code cells to run."""
    number: int
    """The cell that runs now, counted from 1; the last one at the end."""
    problems: list[CellReport] = Field(default_factory=list[CellReport])
    left_out: int = 0
    """The number of cells that fail or differ beyond those in `problems`."""
    artifact: str | None = None
    """The whole report, if the text is shortened."""


async def summarize(context: ToolContext, run: Run, report: VerificationRun) -> VerificationSummary:
    """Return the summary of a run that verifies a notebook; the whole report becomes an artifact."""
    number, total = (run.steps.index(run.current) + 1 if run.steps else 0), len(run.steps)
    finished = report.finished
    if not run.done or finished is None:
        text = f"Cell {number} of {total} code cells is {run.current.status}."
        return VerificationSummary(status="running", text=text, total=total, number=number)
    whole = finished.as_text()
    bad = [cell for cell in finished.cells if cell.is_bad]
    summary = VerificationSummary(
        status="interrupted" if run.cancelled else finished.status,
        text=shorten(whole, MAX_TEXT).text,
        total=total,
        number=number,
        problems=[
            replace(cell, diff=shorten(cell.diff, MAX_DIFF).text) for cell in bad[:MAX_PROBLEMS]
        ],
        left_out=max(len(bad) - MAX_PROBLEMS, 0),
    )
    if len(whole) > MAX_TEXT:
        try:
            written = await context.workspace.artifacts.write(context.caller.user, whole)
        except ToolError as error:
            summary.text += f"\n[the whole report was not saved: {error.message}]"
        else:
            summary.artifact = written.id
            summary.text += f"\n[whole report: read_output {written.id}]"
    return summary
