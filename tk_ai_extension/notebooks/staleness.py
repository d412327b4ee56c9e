"""The last runs of cells, and whether their results are stale, by the names that cells define and use."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal

from tk_ai_extension.model.cells import Cell, Snapshot

CellState = Literal["fresh", "edited", "stale", "never", "running", "error"]
"""``never``: not run in the current kernel; ``edited``: the source changed since the last run;
``stale``: a cell that it depends on was edited or ran later; ``error``: the last run failed."""


@dataclass(eq=False, slots=True)
class Incarnation:
    """A kernel from its start to its end or restart, which ends its variables."""

    kernel_id: str
    has_ended: bool = False


class Incarnations:
    """The present incarnation of each kernel."""

    def __init__(self) -> None:
        self._present: dict[str, Incarnation] = {}

    def of(self, kernel_id: str) -> Incarnation:
        """Return a kernel's present incarnation. Ask for it when the kernel starts the code."""
        return self._present.setdefault(kernel_id, Incarnation(kernel_id))

    def end(self, kernel_id: str) -> None:
        """End the incarnation of a kernel that has ended or was restarted."""
        if (ended := self._present.pop(kernel_id, None)) is not None:
            ended.has_ended = True


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The last run of a cell in its notebook's current kernel.

    Attributes:
        source_hash: The hash of the source that ran.
        sequence: Its number in the order of all runs of the notebook.
        incarnation: The kernel.
        ok: Whether it ended without an error.
    """

    source_hash: str
    sequence: int
    incarnation: Incarnation
    ok: bool


class LastRuns:
    """The last run of each cell of a notebook, until the kernel ends and its variables are lost."""

    def __init__(self) -> None:
        self._records: dict[str, RunRecord] = {}
        self._sequence = count(1)

    def by_cell(self) -> Mapping[str, RunRecord]:
        """Return the records by cell key."""
        if any(record.incarnation.has_ended for record in self._records.values()):
            self._records = {
                cell: record
                for cell, record in self._records.items()
                if not record.incarnation.has_ended
            }
        return self._records

    def record(self, cell: str, source_hash: str, incarnation: Incarnation, *, ok: bool) -> None:
        """Record a run of a cell, unless its kernel has ended or was restarted since."""
        if not incarnation.has_ended:
            self._records[cell] = RunRecord(source_hash, next(self._sequence), incarnation, ok)

    def record_foreign(self, incarnation: Incarnation, snapshot: Snapshot, code: str) -> None:
        """Record code that another client ran, if it is the source of exactly one cell."""
        matching = [cell for cell in snapshot.cells if cell.type == "code" and cell.source == code]
        if len(matching) == 1:
            self.record(matching[0].key, matching[0].hash, incarnation, ok=True)


def states(
    snapshot: Snapshot,
    records: Mapping[str, RunRecord],
    running: Collection[str] = (),
    *,
    cells: Iterable[Cell] | None = None,
) -> dict[str, CellState]:
    """Return the states of code cells by key.

    Args:
        snapshot: The notebook.
        records: The last runs of its cells, by key.
        running: The keys of queued and running cells.
        cells: The cells; None for all. Other cells are examined only if one of these may be fresh.
    """
    selected = [
        cell for cell in (snapshot.cells if cells is None else cells) if cell.type == "code"
    ]
    result: dict[str, CellState] = {
        cell.key: _own_state(cell, records.get(cell.key), running) for cell in selected
    }
    fresh = [cell.index for cell in selected if result[cell.key] == "fresh"]
    if fresh and snapshot.language in ("", "python"):
        # Cells below the last fresh one cannot make it stale.
        stale = _stale(snapshot.cells[: max(fresh) + 1], records, running)
        result |= dict.fromkeys(stale & result.keys(), "stale")  # pyrefly: ignore[bad-assignment]
    return result


def _stale(
    cells: Sequence[Cell], records: Mapping[str, RunRecord], running: Collection[str]
) -> set[str]:
    """Return the keys of cells that are fresh by themselves but depend on an edited or later run cell."""
    outdated: set[str] = set()
    stale: set[str] = set()
    last_definer: dict[str, str] = {}
    for cell in cells:
        names = cell.names if cell.type == "code" else None
        if names is None:
            continue
        state = _own_state(cell, records.get(cell.key), running)
        if state == "fresh":
            ran = records[cell.key].sequence
            definers = {last_definer[name] for name in names.uses if name in last_definer}
            if any(each in outdated or _ran_after(ran, records.get(each)) for each in definers):
                stale.add(cell.key)
        if state == "edited" or cell.key in stale:
            outdated.add(cell.key)
        last_definer |= dict.fromkeys(names.defines, cell.key)
    return stale


def _ran_after(sequence: int, record: RunRecord | None) -> bool:
    return record is not None and record.sequence > sequence


def _own_state(cell: Cell, record: RunRecord | None, running: Collection[str]) -> CellState:
    if cell.key in running:
        return "running"
    if record is None:
        return "never"
    if record.source_hash != cell.hash:
        return "edited"
    return "fresh" if record.ok else "error"
