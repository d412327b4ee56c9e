"""The report of a verification: the cells to run, and the result of each."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from tk_ai_extension.kernels.output_collector import OTHER_DISPLAY_MIME
from tk_ai_extension.model.cell_tags import runnable, tags_of
from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.model.executions import INTERRUPT_IGNORED, Execution, StatusDisplay
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.output_text import cut, short_traceback
from tk_ai_extension.verification.output_comparison import (
    ComparisonRules,
    OutputDifference,
    compare_outputs,
    displays,
    error_line,
    is_error,
)

QUIET = "get_ipython().history_manager.enabled = False"
"""Code for a new Python kernel, so that its code leaves no line in the user's history."""
MAX_MESSAGE = 2_000
"""Maximum characters of the reason why a cell failed."""
MAX_TRACEBACK = 100_000
"""Maximum characters of a traceback in a report."""

CellStatus = Literal["same", "ran", "differs", "failed", "skipped", "not_run"]
"""``same``: its outputs are the stored ones; ``ran``: it ran, and nothing was compared; ``differs``: its
outputs are not the stored ones; ``failed``: it raised an exception that is not stored, ran into the
timeout, or its kernel died; ``skipped``: a tag excludes it; ``not_run``: it was not reached."""

Status = Literal["same", "runs", "differs", "failed"]


@dataclass(frozen=True, slots=True)
class CellReport:
    """The result of one code cell.

    Attributes:
        cell: Its key.
        index: Its index in the notebook.
        status: The comparison's result.
        message: Why it failed or was skipped, or how it differs: one sentence.
        diff: The diffs of the outputs that differ, or the short traceback of an exception.
    """

    cell: str
    index: int
    status: CellStatus
    message: str = ""
    diff: str = ""

    @property
    def is_bad(self) -> bool:
        """Whether the cell keeps the notebook from being verified."""
        return self.status in ("differs", "failed")

    def as_lines(self) -> Iterator[str]:
        """Yield the cell's part of a report as text."""
        failed = " failed" if self.status == "failed" else ""
        yield f"Cell {self.index + 1} @{self.cell}{failed}: {self.message}"
        yield from (f"  {line}" for line in self.diff.splitlines())


@dataclass(frozen=True, slots=True)
class NotebookReport:
    """The result of a notebook in a fresh kernel.

    Attributes:
        notebook: Its path.
        cells: Its code cells, in order.
        seconds: The duration of the whole verification.
    """

    notebook: str
    cells: tuple[CellReport, ...] = ()
    seconds: float = 0.0

    @property
    def status(self) -> Status:
        """The result of the whole notebook."""
        states = {cell.status for cell in self.cells}
        if states & {"failed", "not_run"}:
            return "failed"
        return "differs" if "differs" in states else "same" if "same" in states else "runs"

    @property
    def summary(self) -> str:
        """One line: how many code cells ended in each way."""
        states = [cell.status for cell in self.cells]
        named = {status: status.replace("_", " ") for status in get_args(CellStatus)}
        counts = [f"{states.count(each)} {named[each]}" for each in named if each in states]
        compared = "; no outputs were compared" if self.status == "runs" else ""
        cells = f"{len(states)} code cell{'' if len(states) == 1 else 's'}"
        return f"{self.notebook}: {cells}: {', '.join(counts)}{compared} ({self.seconds:.1f} s)"

    def as_text(self) -> str:
        """Return the report: the summary, and each cell that fails or differs."""
        bad = (line for cell in self.cells if cell.is_bad for line in cell.as_lines())
        return "\n".join([self.summary, *bad])


class Verification:
    """The verification of one notebook. The caller runs the cells and records how each of them ended.

    Args:
        snapshot: The notebook.
        stored: The stored outputs by the keys of code cells; keys without outputs may be missing.
        rules: The differences to ignore.

    Attributes:
        snapshot: The notebook.
        stored: The stored outputs, until they are no longer needed.
        cells: The cells to run, in order.
        ended: How the cells ended that have run, by key, with their displays as later cells left them.
    """

    def __init__(
        self, snapshot: Snapshot, stored: Mapping[str, Sequence[Json]], rules: ComparisonRules
    ) -> None:
        self.snapshot = snapshot
        self.stored = stored
        self._rules = rules
        self._code = [c for c in snapshot.cells if c.type == "code" and c.source.strip()]
        self.cells = runnable(snapshot.cells)
        self.ended: dict[str, Execution] = {}
        self._displays: dict[str, list[tuple[str, int]]] = {}
        self._began = time.monotonic()

    def observe(self, event: StatusDisplay) -> None:
        """Update the display of an earlier cell by an event of the cell that runs now."""
        data: Any = event.data
        if event.mime == OTHER_DISPLAY_MIME:
            self._update(data["display_id"], data["output"])

    def record(self, cell: Cell, execution: Execution) -> None:
        """Record how a cell has ended."""
        for display_id, places in execution.displays.items():
            shown = [at for at in places if at < len(execution.outputs)]
            if shown:
                # A display with the id of an earlier one replaces that one, too.
                self._update(display_id, execution.outputs[shown[-1]])
                self._displays.setdefault(display_id, []).extend((cell.key, at) for at in shown)
        self.ended[cell.key] = execution

    def report(self, stopped: str = "") -> NotebookReport:
        """Return the report; ``stopped`` is why cells did not run.

        Raises:
            InvalidArguments: A sanitizer is invalid or took too long.
        """
        cells = tuple(self._cell_report(cell, stopped) for cell in self._code)
        return NotebookReport(self.snapshot.path, cells, time.monotonic() - self._began)

    def _update(self, display_id: str, output: Json) -> None:
        for key, at in self._displays.get(display_id, ()):
            ended = self.ended[key]
            outputs = (*ended.outputs[:at], output, *ended.outputs[at + 1 :])
            self.ended[key] = replace(ended, outputs=outputs)

    def _cell_report(self, cell: Cell, why: str) -> CellReport:
        tags, execution = tags_of(cell), self.ended.get(cell.key)
        index = self.snapshot.index(cell)
        if "nbval-skip" in tags:
            return CellReport(cell.key, index, "skipped", "its tags say so")
        if execution is None:
            return CellReport(cell.key, index, "not_run", why)
        if execution.status not in ("ok", "error"):
            message = execution.message.partition(INTERRUPT_IGNORED)[0].strip() or execution.status
            return CellReport(cell.key, index, "failed", cut(message, MAX_MESSAGE))
        stored = self.stored.get(cell.key, ())
        chosen = "nbval-check-output" in tags or not self._rules.lax
        # A cell that has never been run has no outputs to compare, as in nbval.
        has_run = cell.execution_count is not None or bool(stored)
        compares = has_run and chosen and "nbval-ignore-output" not in tags
        error = _unexpected(stored, execution, self._rules, tags, compares=compares)
        if error is not None:
            message = cut(error_line(error), MAX_MESSAGE)
            traceback = cut(short_traceback(error), MAX_TRACEBACK)
            return CellReport(cell.key, index, "failed", message, traceback)
        if not compares:
            return CellReport(cell.key, index, "ran")
        differences = compare_outputs(stored, _comparable(stored, execution), self._rules)
        if not differences:
            return CellReport(cell.key, index, "same")
        return CellReport(cell.key, index, "differs", *_described(differences))


def _described(differences: Sequence[OutputDifference]) -> tuple[str, str]:
    """Return how a cell differs: one sentence, and the diffs, each with a heading if there are several."""
    message = cut("; ".join(each.message for each in differences), MAX_MESSAGE)
    if len(differences) == 1:
        return message, differences[0].diff
    return message, "\n".join(f"{each.message}:\n{each.diff}" for each in differences)


def _unexpected(
    stored: Sequence[Json],
    execution: Execution,
    rules: ComparisonRules,
    tags: frozenset[str],
    *,
    compares: bool,
) -> Json | None:
    """Return the exception that a cell may not raise; None if there is none.

    An error among the outputs counts even if the kernel's reply is ok. Where outputs are compared, any
    exception is expected if one is stored: the comparison names the difference.
    """
    before, after = (
        [each for each in outputs if is_error(each)] for outputs in (stored, execution.outputs)
    )
    if "raises-exception" in tags or (execution.status == "ok" and not after):
        return None
    if before and (compares or not compare_outputs(before, after, rules)):
        return None
    return after[-1] if after else {"ename": "error", **(execution.error or {})}


def _comparable(stored: Sequence[Json], execution: Execution) -> Sequence[Json]:
    """Return the outputs of a run, without the text for a pager where it is not stored.

    JupyterLab stores what ``name?`` shows; nbclient and Jupyter Notebook 6 do not.
    """
    new = execution.outputs
    if not execution.pages or len(displays(stored)) >= len(displays(new)):
        return new
    return [each for each in new if each.get("data") not in execution.pages]
