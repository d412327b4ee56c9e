"""Whether a cell's result still holds: by the names cells define and use, and when they ran."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.workspace.runs import RunRecord

CellState = Literal["fresh", "edited", "stale", "never", "running", "error"]
"""``never``: not run in the present kernel; ``edited``: its source changed since it ran; ``stale``:
something it depends on was edited or ran later; ``error``: its last run failed."""


def states(
    snapshot: Snapshot, records: Mapping[str, RunRecord], running: Collection[str] = ()
) -> dict[str, CellState]:
    """The state of each code cell by key."""
    cells = [cell for cell in snapshot.cells if cell.type == "code"]
    result: dict[str, CellState] = {
        cell.key: _own_state(cell, records.get(cell.key), running) for cell in cells
    }
    if snapshot.language not in ("", "python"):
        return result
    last_fresh = max(
        (at for at, state in enumerate(result.values()) if state == "fresh"), default=-1
    )
    last_definer: dict[str, str] = {}
    # What comes after the last fresh cell makes none stale, and its names need not be known.
    for cell in cells[: last_fresh + 1]:
        names = cell.names
        if names is None:
            continue
        if result[cell.key] == "fresh":
            definers = {last_definer[name] for name in names.uses if name in last_definer}
            if any(_is_newer(each, cell.key, result, records) for each in definers):
                result[cell.key] = "stale"
        last_definer |= dict.fromkeys(names.defines, cell.key)
    return result


def _is_newer(
    definer: str, user: str, result: Mapping[str, CellState], records: Mapping[str, RunRecord]
) -> bool:
    """Whether what one cell defined is not what another used when it ran."""
    record = records.get(definer)
    return result[definer] in ("edited", "stale") or (
        record is not None and record.sequence > records[user].sequence
    )


def _own_state(cell: Cell, record: RunRecord | None, running: Collection[str]) -> CellState:
    if cell.key in running:
        return "running"
    if record is None:
        return "never"
    if record.source_hash != cell.hash:
        return "edited"
    return "fresh" if record.ok else "error"
