"""The result of a verification: short text for a model, and values for a program."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Literal

from pydantic import BaseModel, Field

from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.sentences import Sentence, sentence_info
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.verification.report import CellReport, NotebookReport
from tk_ai_extension.workspace.runs import Run
from tk_ai_extension.workspace.verifications import VerificationRun

MAX_CELLS = 6
"""Maximum cells whose problems a text shows; the others are in the whole report."""
LINES = 10
"""Maximum lines of a diff or traceback that a text shows."""


class CellProblem(BaseModel):
    """A cell that fails, differs, or was not run."""

    cell: str
    index: int
    status: Literal["differs", "failed", "not_run"]
    message: str
    sentence: Json | None = None
    """Code and parameters of the message, for a front end that translates it."""
    diff: str = ""
    """The beginning of a unified diff, or of the traceback."""


class HiddenState(BaseModel):
    """Something that the stored notebook owes to a kernel that is gone."""

    kind: Literal["order", "gap", "undefined", "later"]
    cell: str
    index: int
    message: str
    sentence: Json | None = None
    """Code and parameters of the message, for a front end that translates it."""


class VerificationSummary(BaseModel):
    """What a verification found, or how far it is."""

    status: Literal["running", "same", "differs", "failed", "interrupted"]
    text: str
    total: int
    """Code cells to run."""
    number: int
    """The cell that runs now, counted from 1; the last one at the end."""
    problems: list[CellProblem] = Field(default_factory=list[CellProblem])
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
    # Agents read the English text only.
    said = _sentence if context.caller.interface == "rest" else _no_sentence
    bad = [cell for cell in finished.cells if cell.is_bad]
    lines = [finished.summary]
    for cell in bad[:MAX_CELLS]:
        lines += cell.as_lines(LINES)
    lines += [finding.message for finding in finished.findings[:MAX_CELLS]]
    whole = "\n".join(finished.as_lines(1_000_000)) + "\n"
    text, artifact = "\n".join(lines), None
    if len(bad) > MAX_CELLS or len(finished.findings) > MAX_CELLS or len(text) + 50 < len(whole):
        text, artifact = await _shortened(context, text, whole)
    return VerificationSummary(
        status="interrupted" if run.cancelled else finished.status,
        text=text,
        total=total,
        number=number,
        problems=[_problem(cell, said) for cell in finished.cells if cell.is_bad],
        hidden_state=[
            HiddenState(
                kind=each.kind,
                cell=each.cell,
                index=each.index,
                message=each.message,
                sentence=said(each.message),
            )
            for each in finished.findings
        ],
        artifact=artifact,
    )


def finished_report(run: Run) -> NotebookReport | None:
    """Return the whole report of a run that has verified a notebook; None for any other."""
    return run.report.finished if isinstance(run.report, VerificationRun) else None


def _position(run: Run) -> int:
    return run.steps.index(run.current) + 1 if run.steps else 0


def _sentence(message: str) -> Json | None:
    info = sentence_info(message)
    return None if info is None else info.as_dict()


def _no_sentence(_message: str) -> None:
    return None


def _two(first: str, second: str) -> str:
    return Sentence("differences_two", first=first, second=second)


def _problem(cell: CellReport, said: Callable[[str], Json | None]) -> CellProblem:
    messages = [cell.message] if cell.status == "failed" else [d.message for d in cell.differences]
    message = reduce(_two, messages)
    shown = [line.removeprefix("  ") for line in cell.as_lines(LINES) if line.startswith("  ")]
    return CellProblem(
        cell=cell.cell,
        index=cell.index,
        status="failed" if cell.status == "failed" else "differs",
        message=message,
        sentence=said(message),
        diff="\n".join(shown[: 2 * LINES]),
    )


async def _shortened(context: ToolContext, text: str, whole: str) -> tuple[str, str | None]:
    """Return the text with a reference to the whole report, and the id of its artifact."""
    try:
        artifact = await context.workspace.artifacts.write(context.caller.user, whole)
    except ToolError as error:
        return f"{text}\n[the whole report was not saved: {error.message}]", None
    return f"{text}\n[whole report: read_output {artifact.id}]", artifact.id
