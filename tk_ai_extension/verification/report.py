"""Report of a verification: what each cell did, as text, JSON and JUnit XML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from typing import Any, Literal
from xml.sax.saxutils import escape, quoteattr

from tk_ai_extension.model.digest import cut
from tk_ai_extension.verification.comparing import Difference
from tk_ai_extension.verification.hidden_state import Finding

CellStatus = Literal["same", "differs", "failed", "ignored", "skipped", "not_run"]
"""``same``: its outputs are the stored ones; ``differs``: they are not; ``failed``: it raised an
exception that is not stored, ran into the timeout, or its kernel died; ``ignored``: it ran, and its
outputs are not compared; ``skipped``: it was not to be run; ``not_run``: it was not reached."""

Status = Literal["same", "differs", "failed"]

DIFF_LINES = 40
"""Maximum lines of the diff of one output in a text."""
WIDTH = 200
"""Maximum characters of a line of a diff."""
NAMED = 3
"""Maximum differences of a cell that one sentence names; the others are counted."""

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class CellReport:
    """What one code cell did.

    Attributes:
        cell: Its key.
        index: Its index in the notebook.
        status: The comparison's result.
        first_line: The first line of its source.
        seconds: How long it ran.
        message: For a failure and a skipped cell, why.
        traceback: For an exception, its short traceback.
        differences: The outputs that differ.
    """

    cell: str
    index: int
    status: CellStatus
    first_line: str = ""
    seconds: float = 0.0
    message: str = ""
    traceback: str = ""
    differences: tuple[Difference, ...] = ()

    @property
    def is_bad(self) -> bool:
        """Whether the cell keeps the notebook from being verified."""
        return self.status in ("differs", "failed")

    @property
    def size(self) -> int:
        """Approximate characters of its diffs and of its traceback."""
        return len(self.traceback) + sum(len(line) for d in self.differences for line in d.diff)

    def without_details(self) -> CellReport:
        """Return it without its traceback and the lines of its diffs, which are counted."""
        bare = tuple(
            replace(each, diff=(), left_out=len(each.diff) + each.left_out)
            for each in self.differences
        )
        return replace(self, traceback="", differences=bare)

    @property
    def problem(self) -> str:
        """Why it failed, or how it differs: one sentence."""
        if self.status == "failed" or not self.differences:
            return self.message
        named = [each.message for each in self.differences[:NAMED]]
        if more := sum(each.count for each in self.differences[NAMED:]):
            named.append(
                f"{more} more output differs" if more == 1 else f"{more} more outputs differ"
            )
        return reduce(_two, named)

    def as_lines(self, limit: int | None = DIFF_LINES) -> Iterator[str]:
        """Yield the cell's part of a report as text.

        Args:
            limit: Maximum lines of each diff and of the traceback; None for all.
        """
        name = f"Cell {self.index + 1} @{self.cell}"
        if self.status == "failed":
            yield f"{name} failed: {self.message}"
            yield from (f"  {line}" for line in _shortened(self.traceback.splitlines(), limit))
        for difference in self.differences:
            yield f"{name}: {difference.message}"
            shown = _shortened(difference.diff, limit, difference.left_out)
            yield from (f"  {line}" for line in shown)


@dataclass(frozen=True, slots=True)
class NotebookReport:
    """What a notebook did in a fresh kernel.

    Attributes:
        notebook: Its path.
        revision: The revision that was run.
        cells: Its code cells, in order.
        findings: Hidden state in the notebook as stored.
        kernel: The kernelspec.
        seconds: How long all of it took.
        has_outputs: Whether any output or execution count was stored; if not, only the run counts.
        error: Why it could not be run, or its new outputs not be stored; empty if they were.
    """

    notebook: str
    revision: str = ""
    cells: tuple[CellReport, ...] = ()
    findings: tuple[Finding, ...] = field(default=())
    kernel: str = ""
    seconds: float = 0.0
    has_outputs: bool = True
    error: str = ""

    @property
    def status(self) -> Status:
        """The result of the whole notebook."""
        states = {cell.status for cell in self.cells}
        if self.error or "failed" in states or "not_run" in states:
            return "failed"
        return "differs" if "differs" in states else "same"

    def count(self, status: CellStatus) -> int:
        """Return how many cells have a status."""
        return sum(cell.status == status for cell in self.cells)

    @property
    def summary(self) -> str:
        """One line."""
        if self.error and not self.cells:
            return f"{self.notebook}: {self.error}"
        named: tuple[tuple[CellStatus, str], ...] = (
            ("failed", "failed"),
            ("differs", "differ"),
            ("not_run", "not run"),
            ("same", "the same" if self.has_outputs else "ran"),
            ("ignored", "not compared"),
            ("skipped", "skipped"),
        )
        counted = [f"{self.count(key)} {text}" for key, text in named if self.count(key)]
        stored = "" if self.has_outputs else ", no outputs are stored"
        cells = "1 code cell" if len(self.cells) == 1 else f"{len(self.cells)} code cells"
        result = f"{': ' if counted else ''}{', '.join(counted)}{stored} ({self.seconds:.1f} s)"
        return f"{self.notebook}: {cells}{result}{'; ' if self.error else ''}{self.error}"

    def as_lines(self, limit: int | None = DIFF_LINES) -> Iterator[str]:
        """Yield the report as text.

        Args:
            limit: Maximum lines of each diff and traceback.
        """
        yield self.summary
        for cell in self.cells:
            if cell.is_bad:
                yield from cell.as_lines(limit)
        if self.findings:
            yield "Hidden state in the stored notebook:"
            yield from (f"  {finding.message}" for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        cells: list[dict[str, Any]] = []
        for cell in self.cells:
            fields = asdict(replace(cell, differences=()))
            value: dict[str, Any] = {
                key: item for key, item in fields.items() if item not in ("", ())
            }
            if cell.differences:
                value["differences"] = [
                    {
                        "kind": each.kind,
                        "what": each.what,
                        "message": each.message,
                        "diff": "\n".join((*each.diff, *_more(each.left_out))),
                    }
                    for each in cell.differences
                ]
            cells.append({**value, "seconds": round(cell.seconds, 3)})
        value = {
            "notebook": self.notebook,
            "status": self.status,
            "revision": self.revision,
            "kernel": self.kernel,
            "seconds": round(self.seconds, 3),
            "has_outputs": self.has_outputs,
            "error": self.error,
            "cells": cells,
            "findings": [{**asdict(each), "names": list(each.names)} for each in self.findings],
        }
        return {key: item for key, item in value.items() if item not in ("", None)}


def junit_xml(reports: Sequence[NotebookReport]) -> str:
    """Return reports in the JUnit format that build servers read: a suite a notebook, a case a cell."""
    lines = ['<?xml version="1.0" encoding="utf-8"?>', "<testsuites>"]
    for report in reports:
        cases = [*(_case(report, cell) for cell in report.cells)]
        if report.error:
            cases.append(
                f'<testcase classname={_attribute(report.notebook)} name="notebook" time="0.000">'
                f"<error message={_attribute(report.error)}/></testcase>"
            )
        skipped = report.count("skipped") + report.count("not_run")
        lines.append(
            f'<testsuite name={_attribute(report.notebook)} tests="{len(cases)}" '
            f'failures="{report.count("differs")}" '
            f'errors="{report.count("failed") + bool(report.error)}" skipped="{skipped}" '
            f'time="{report.seconds:.3f}">'
        )
        lines += cases
        if report.findings:
            text = "\n".join(finding.message for finding in report.findings)
            lines.append(f"<system-out>{_text(text)}</system-out>")
        lines.append("</testsuite>")
    return "\n".join([*lines, "</testsuites>", ""])


def _case(report: NotebookReport, cell: CellReport) -> str:
    opening = (
        f"<testcase classname={_attribute(report.notebook)} "
        f"name={_attribute(f'cell {cell.index + 1} @{cell.cell}')} "
        f'time="{cell.seconds:.3f}">'
    )
    text = _text("\n".join(cell.as_lines()))
    match cell.status:
        case "failed":
            inside = f"<error message={_attribute(cell.message)}>{text}</error>"
        case "differs":
            inside = f"<failure message={_attribute(cell.problem)}>{text}</failure>"
        case "skipped" | "not_run":
            inside = f"<skipped message={_attribute(cell.message or cell.status)}/>"
        case _:
            return f"{opening}</testcase>"
    return f"{opening}{inside}</testcase>"


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text))


def _text(text: str) -> str:
    return escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text))


def _two(first: str, second: str) -> str:
    return f"{first}; {second}"


def _shortened(lines: Sequence[str], limit: int | None, left_out: int = 0) -> Iterator[str]:
    shown = lines[:limit]
    yield from (cut(line, WIDTH) for line in shown)
    yield from _more(len(lines) - len(shown) + left_out)


def _more(lines: int) -> Iterator[str]:
    if lines:
        yield f"[{lines} more lines]"
