"""Prints, below a test run, which case ran against which backend and how it ended.

A test is in the matrix when its parameters name a backend: ``test_error[stack]`` is in the row
``test_error``, column ``stack``; ``test_flood[direct-room]`` is in the column ``direct + room``.
Further parameters are counted in the same field.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pytest

GATEWAYS = ("kernelgateway", "kernelgateway25", "enterprisegateway", "enterprisegateway30")
"""Programs behind the executor `gateway` (see kernels/test_real_gateways.py), with their versions."""
BACKENDS = ("direct", "stack", "gateway", *GATEWAYS, "file", "room", "tab")
"""Executors, then documents: the order of the columns."""
OUTCOMES = ("passed", "failed", "error", "skipped")


@dataclass
class Matrix:
    """How each case of one module ended with each combination of backends."""

    columns: set[tuple[str, ...]] = field(default_factory=set[tuple[str, ...]])
    rows: dict[str, dict[tuple[str, ...], Counter[str]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(Counter))
    )

    def add(self, case: str, backends: tuple[str, ...], outcome: str) -> None:
        """Counts one run."""
        self.columns.add(backends)
        self.rows[case][backends][outcome] += 1

    def lines(self) -> Iterator[str]:
        """The table, a line at a time."""
        order = sorted(self.columns, key=lambda each: [BACKENDS.index(name) for name in each])
        heads = [" + ".join(column) for column in order]
        width = max(map(len, self.rows)) + 2
        yield " " * width + "  ".join(f"{head:>10}" for head in heads)
        for case, fields in self.rows.items():
            cells = (f"{shown(fields.get(column, Counter())):>10}" for column in order)
            yield case.ljust(width) + "  ".join(cells)


def shown(outcomes: Counter[str]) -> str:
    """One field: ``ok``, ``ok 3`` for three parameters, ``1/3 failed``, or ``-`` where none ran."""
    total = outcomes.total()
    if not total:
        return "-"
    bad = outcomes["failed"] + outcomes["error"]
    if bad:
        return f"{bad}/{total} failed"
    if outcomes["skipped"]:
        return f"{outcomes['skipped']}/{total} skipped"
    return "ok" if total == 1 else f"ok {total}"


def place(nodeid: str) -> tuple[str, str, tuple[str, ...]] | None:
    """Module, case and backends of a test; None where its parameters name no backend."""
    name, _, parameters = nodeid.partition("[")
    backends = tuple(word for word in parameters.rstrip("]").split("-") if word in BACKENDS)
    if not backends:
        return None
    module, _, case = name.partition("::")
    return module, case.rpartition("::")[2], backends


def matrices(ended: Iterable[tuple[str, str]]) -> Mapping[str, Matrix]:
    """The matrix of each module, from pairs of a test's id and its outcome."""
    found: defaultdict[str, Matrix] = defaultdict(Matrix)
    for nodeid, outcome in ended:
        placed = place(nodeid)
        if placed:
            module, case, backends = placed
            found[module].add(case, backends, outcome)
    return found


def write_matrix(reporter: pytest.TerminalReporter) -> None:
    """Prints the matrix of each module that has one, above pytest's closing line."""
    ended = (
        (report.nodeid, outcome) for outcome in OUTCOMES for report in reporter.getreports(outcome)
    )
    for module, matrix in sorted(matrices(ended).items()):
        reporter.section(f"backends of {module}", sep="-")
        for line in matrix.lines():
            reporter.write_line(line)
