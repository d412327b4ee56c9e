"""Verify a notebook: hand out its cells to run, and compare what each one printed and showed."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tk_ai_extension.kernels.collector import OTHER_DISPLAY_MIME
from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.model.digest import cut, short_traceback
from tk_ai_extension.model.executions import INTERRUPT_IGNORED, Execution, StatusEvent
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.outputs import summarise
from tk_ai_extension.verification.comparing import (
    compare_outputs,
    count_displays,
    error_line,
    is_error,
)
from tk_ai_extension.verification.hidden_state import hidden_state
from tk_ai_extension.verification.report import CellReport, NotebookReport
from tk_ai_extension.verification.rules import Rules

_MARKER = re.compile(
    r"^[^\S\n]*#[^\S\n]*(NBVAL_[A-Z_]+|PYTEST_VALIDATE_IGNORE_OUTPUT)[^\S\n]*$", re.MULTILINE
)
MAX_MESSAGE = 2_000
"""Maximum characters of why a cell failed."""
MAX_TRACEBACK = 100_000
"""Maximum characters of a traceback in a report."""
_BY_COMMENT: Mapping[str, str] = {
    "NBVAL_IGNORE_OUTPUT": "nbval-ignore-output",
    "PYTEST_VALIDATE_IGNORE_OUTPUT": "nbval-ignore-output",
    "NBVAL_CHECK_OUTPUT": "nbval-check-output",
    "NBVAL_RAISES_EXCEPTION": "raises-exception",
    "NBVAL_SKIP": "nbval-skip",
}


def tags_of(cell: Cell) -> frozenset[str]:
    """Return a cell's tags, and those that nbval's comments in its source stand for."""
    stored = cell.metadata.get("tags")
    tags = {str(tag) for tag in stored} if isinstance(stored, list) else set[str]()  # pyrefly: ignore[unknown-argument-type, unknown-variable-type]
    tags |= {_BY_COMMENT[name] for name in _MARKER.findall(cell.source) if name in _BY_COMMENT}
    if "nbval-raises-exception" in tags:
        tags.add("raises-exception")
    if "skip-execution" in tags:
        tags.add("nbval-skip")
    return frozenset(tags)


def runnable(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells that a run of several runs: those with code and without ``skip-execution``."""
    code = (cell for cell in cells if cell.type == "code" and cell.source.strip())
    return [cell for cell in code if "skip-execution" not in tags_of(cell)]


def may_fail(cell: Cell) -> bool:
    """Return whether an exception of a cell is no failure."""
    return "raises-exception" in tags_of(cell)


class Verification:
    """The verification of one notebook. The caller runs the cells and records how each of them ended.

    Args:
        snapshot: The notebook.
        stored: The stored outputs by the keys of code cells; keys without outputs may be missing.
        rules: What is ignored.

    Attributes:
        snapshot: The notebook.
        cells: The cells to run, in order.
        stopped: Why no further cell can run; empty as long as one can.
    """

    def __init__(
        self, snapshot: Snapshot, stored: Mapping[str, Sequence[Json]], rules: Rules
    ) -> None:
        self.snapshot = snapshot
        self._stored = stored
        self._rules = rules
        self._code = [c for c in snapshot.cells if c.type == "code" and c.source.strip()]
        self._code_hashes = {cell.key: code for code, cell in snapshot.code_hashes.items()}
        self._tags = {cell.key: tags_of(cell) for cell in self._code}
        self._has_outputs = any(
            cell.execution_count is not None or stored.get(cell.key) for cell in self._code
        )
        self.cells = [cell for cell in self._code if "nbval-skip" not in self._tags[cell.key]]
        self.stopped = ""
        self._ended: dict[str, Execution] = {}
        self._reports: dict[str, CellReport] = {}
        self._displays: dict[str, list[tuple[Cell, int]]] = {}
        self._updates: dict[str, Json] = {}
        self._makers: dict[str, Cell] = {}
        self._began = time.monotonic()
        self._seconds: float | None = None

    @property
    def ended(self) -> Mapping[str, Execution]:
        """How the cells ended that have run, by key; outputs that nobody needs any more are dropped."""
        return self._ended

    def code_of(self, cell: Cell) -> str:
        """Return the hash of the code that made a cell's outputs (`Snapshot.code_hashes`).

        A later cell that changes a display of the cell belongs to it, with all above.
        """
        return self._code_hashes[self._makers.get(cell.key, cell).key]

    @property
    def size(self) -> int:
        """Approximate characters of the report and of outputs that are kept for it alone.

        Outputs as a cell has made them are those of its execution.
        """
        outputs = sum(summarise(self._ended[key].outputs).size for key in self._makers)
        return outputs + sum(each.size for each in self._reports.values())

    @property
    def seconds(self) -> float:
        """Seconds since it began, up to its end."""
        return time.monotonic() - self._began if self._seconds is None else self._seconds

    def observe(self, event: StatusEvent) -> None:
        """Note the new content of an earlier cell's display; only the newest one is kept.

        Args:
            event: An event of the cell that runs now, before its `record`.
        """
        data: Any = event.data
        if event.mime == OTHER_DISPLAY_MIME and data["display_id"] in self._displays:
            self._updates[data["display_id"]] = data["output"]

    def record(self, cell: Cell, execution: Execution) -> CellReport:
        """Compare a cell that has run, and the earlier ones whose displays it has changed.

        Args:
            cell: The cell.
            execution: How it ended.

        Raises:
            InvalidArguments: A sanitizer took too long.
        """
        updates, self._updates = self._updates, {}
        changed: dict[str, Cell] = {}
        # A display with the id of an earlier one replaces that one, too.
        shared = [
            (display_id, execution.outputs[places[-1]])
            for display_id, places in execution.displays.items()
            if places and places[-1] < len(execution.outputs)
        ]
        for display_id, output in (*updates.items(), *shared):
            for earlier, at in self._displays.get(display_id, ()):
                known = self._ended[earlier.key]
                outputs = (*known.outputs[:at], output, *known.outputs[at + 1 :])
                self._ended[earlier.key] = replace(known, outputs=outputs)
                self._makers[earlier.key] = cell
                changed[earlier.key] = earlier
        for earlier in changed.values():
            self._compare(earlier)
        self._ended[cell.key] = execution
        for display_id, places in execution.displays.items():
            known = self._displays.setdefault(display_id, [])
            known += [(cell, at) for at in places if at < len(execution.outputs)]
        self.stopped = _reason_to_stop(execution)
        return self._compare(cell)

    def end(self) -> None:
        """Stop the clock, and drop what only a comparison needs. No cell may be recorded afterwards."""
        self._seconds = self.seconds
        self._stored = dict[str, Sequence[Json]]()
        self._displays, self._updates = {}, {}
        for key, report in self._reports.items() if self._has_outputs else ():
            if report.status != "differs":
                # `nb verify --update` stores the others.
                self._ended[key] = _without_outputs(self._ended[key])

    def drop_outputs(self) -> None:
        """Drop all outputs, and the diffs and tracebacks of the report, to free memory."""
        self._ended = {key: _without_outputs(each) for key, each in self._ended.items()}
        self._reports = {key: each.without_details() for key, each in self._reports.items()}

    def report(self, kernel: str, stopped: str = "") -> NotebookReport:
        """Return the report on the cells that have run so far.

        Args:
            kernel: The kernelspec that ran them.
            stopped: Why the others did not run.
        """
        return NotebookReport(
            notebook=self.snapshot.path,
            revision=self.snapshot.revision,
            cells=tuple(
                self._reports.get(cell.key) or self._unrun(cell, stopped or self.stopped)
                for cell in self._code
            ),
            findings=hidden_state(self.snapshot),
            kernel=kernel,
            seconds=self.seconds,
            has_outputs=self._has_outputs,
        )

    def _compare(self, cell: Cell) -> CellReport:
        report = self._reports[cell.key] = cell_report(
            cell,
            self._stored.get(cell.key, ()),
            self._ended[cell.key],
            self._rules,
            self._tags[cell.key],
            has_outputs=self._has_outputs,
        )
        return report

    def _unrun(self, cell: Cell, why: str) -> CellReport:
        is_skipped = "nbval-skip" in self._tags[cell.key]
        return CellReport(
            cell.key,
            cell.index,
            "skipped" if is_skipped else "not_run",
            cell.first_line,
            message="its tags say so" if is_skipped else why,
        )


def _reason_to_stop(execution: Execution) -> str:
    """Return why no further cell can run; an empty string if one can."""
    if execution.status in ("ok", "error", "interrupted"):
        return ""
    if execution.status == "timed_out" and INTERRUPT_IGNORED not in execution.message:
        return ""
    return execution.message or execution.status


def cell_report(
    cell: Cell,
    stored: Sequence[Json],
    execution: Execution,
    rules: Rules,
    tags: frozenset[str],
    *,
    has_outputs: bool = True,
) -> CellReport:
    """Return the report of a cell that has run.

    Args:
        cell: The cell.
        stored: Its stored outputs.
        execution: How the new run ended.
        rules: What is ignored.
        tags: Its tags (`tags_of`).
        has_outputs: Whether the notebook has stored outputs at all.
    """
    report = partial(
        CellReport,
        cell.key,
        cell.index,
        first_line=cell.first_line,
        seconds=execution.duration,
    )
    if execution.status not in ("ok", "error"):
        message = execution.message.partition(INTERRUPT_IGNORED)[0].strip() or execution.status
        return report("failed", message=cut(message, MAX_MESSAGE))
    error = next((each for each in reversed(execution.outputs) if is_error(each)), None)
    compares = has_outputs and "nbval-ignore-output" not in tags
    if rules.lax:
        compares = has_outputs and "nbval-check-output" in tags
    is_expected = "raises-exception" in tags or _is_stored(
        execution, stored, rules, compares=compares
    )
    if execution.status == "error" and not is_expected:
        shown = error or {"ename": "error", **(execution.error or {})}
        return report(
            "failed",
            message=cut(error_line(shown), MAX_MESSAGE),
            traceback=cut(short_traceback(shown), MAX_TRACEBACK),
        )
    if not compares:
        return report("ignored" if has_outputs else "same")
    differences = compare_outputs(stored, _comparable(stored, execution), rules)
    return report("differs" if differences else "same", differences=differences)


def _is_stored(
    execution: Execution, stored: Sequence[Json], rules: Rules, *, compares: bool
) -> bool:
    """Return whether the exception of a run is a stored one; where outputs are compared, any will do."""
    before, after = (
        [each for each in outputs if is_error(each)] for outputs in (stored, execution.outputs)
    )
    return bool(before) and (compares or not compare_outputs(before, after, rules))


def _without_outputs(execution: Execution) -> Execution:
    return replace(execution, outputs=(), pages=())


def _comparable(stored: Sequence[Json], execution: Execution) -> Sequence[Json]:
    """Return the outputs of a run, without the text for a pager where it is not stored.

    JupyterLab stores what ``name?`` shows; nbclient and Jupyter Notebook 6 do not.
    """
    new = execution.outputs
    if not execution.pages or count_displays(stored) >= count_displays(new):
        return new
    return [each for each in new if each.get("data") not in execution.pages]
