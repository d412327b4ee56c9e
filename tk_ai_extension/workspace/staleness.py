"""What ran where, and whether a cell's result still holds: by the names cells define and use."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal

from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.model.paths import moved

CellState = Literal["fresh", "edited", "stale", "never", "running", "error"]
"""``never``: not run in the present kernel; ``edited``: its source changed since it ran; ``stale``:
something it depends on was edited or ran later; ``error``: its last run failed."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The last run of a cell in the kernel that its notebook has now.

    Attributes:
        source_hash: The source that ran.
        sequence: Its place in the order of all runs of this server.
        kernel_id: Where it ran.
        ok: Whether it ended ok.
    """

    source_hash: str
    sequence: int
    kernel_id: str
    ok: bool


class RunRecords:
    """The last run of each cell; forgotten with the kernel, since its variables are gone then."""

    def __init__(self) -> None:
        self._records: dict[str, dict[str, RunRecord]] = {}
        self._sequence = count(1)

    def of(self, path: str) -> dict[str, RunRecord]:
        """The records of a notebook by cell key."""
        return self._records.get(path, {})

    def ran(self, path: str, cell: str, source_hash: str, kernel_id: str, *, ok: bool) -> None:
        """A cell ran here."""
        self._records.setdefault(path, {})[cell] = RunRecord(
            source_hash, next(self._sequence), kernel_id, ok
        )

    def ran_elsewhere(self, kernel_id: str, snapshot: Snapshot, code: str) -> None:
        """Somebody else ran this code: if it is the source of just one cell, that cell ran."""
        matching = [cell for cell in snapshot.cells if cell.type == "code" and cell.source == code]
        if len(matching) == 1:
            self.ran(snapshot.path, matching[0].key, matching[0].hash, kernel_id, ok=True)

    def forget_kernel(self, kernel_id: str) -> None:
        """The kernel's variables are gone, and with them what its runs meant."""
        for path, records in list(self._records.items()):
            kept = {
                cell: record for cell, record in records.items() if record.kernel_id != kernel_id
            }
            if kept:
                self._records[path] = kept
            else:
                del self._records[path]

    def renamed(self, old: str, new: str) -> None:
        """A notebook, or a folder above some, has another path now."""
        for path in list(self._records):
            if (now := moved(path, old, new)) is not None:
                self._records[now] = self._records.pop(path)


def states(
    snapshot: Snapshot,
    records: Mapping[str, RunRecord],
    running: Collection[str] = (),
    *,
    cells: Iterable[Cell] | None = None,
) -> dict[str, CellState]:
    """The state of each code cell by key.

    Args:
        snapshot: The notebook.
        records: The last runs of its cells, by key.
        running: The keys of those that are queued or run.
        cells: Those that are asked for; all unless given. Few are answered without a look at the
            others, unless one of them is fresh as far as it alone shows.
    """
    asked = [cell for cell in (snapshot.cells if cells is None else cells) if cell.type == "code"]
    result: dict[str, CellState] = {
        cell.key: _own_state(cell, records.get(cell.key), running) for cell in asked
    }
    fresh = [cell.index for cell in asked if result[cell.key] == "fresh"]
    if fresh and snapshot.language in ("", "python"):
        # What comes after the last of them makes none stale.
        stale = _stale(snapshot.cells[: max(fresh) + 1], records, running)
        result |= dict.fromkeys(stale & result.keys(), "stale")
    return result


def _stale(
    cells: Sequence[Cell], records: Mapping[str, RunRecord], running: Collection[str]
) -> set[str]:
    """The keys of those cells that are fresh by themselves, and depend on what is not."""
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
