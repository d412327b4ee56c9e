"""Whether a cell's result still holds: by the names cells define and use, and when they ran."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.workspace.runs import RunRecord

CellState = Literal["fresh", "edited", "stale", "never", "running", "error"]
"""``never``: not run in the present kernel; ``edited``: its source changed since it ran; ``stale``:
something it depends on was edited or ran later; ``error``: its last run failed."""


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
