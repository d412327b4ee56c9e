"""Changes to cells as answers tell them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from tk_ai_extension.model.cells import Snapshot
from tk_ai_extension.model.operations import Change
from tk_ai_extension.tools.parameters import CellKind
from tk_ai_extension.tools.results import Result
from tk_ai_extension.workspace import editing


class ChangedCell(BaseModel):
    """What happened to one cell, read back after the write."""

    action: Literal["insert", "replace", "delete", "move", "outputs"]
    cell: str
    index: int
    address: str | None = None
    """Its versioned address now; none once it is deleted."""
    cell_type: CellKind | None = None
    diff: str | None = None
    removed_source: str | None = None


class CellsChanged(Result):
    """A notebook that was changed."""

    notebook: str
    total_cells: int
    changes: list[ChangedCell]

    def as_text(self) -> str:
        lines = [_change_text(change) for change in self.changes] or ["Nothing to change."]
        return "\n".join([*lines, f"{self.notebook}: {self.total_cells} cells."])


def _change_text(change: ChangedCell) -> str:
    name = f"@{change.address or change.cell}"
    match change.action:
        case "insert":
            return f"Inserted {change.cell_type} cell {change.index} {name}."
        case "delete":
            return f"Deleted cell {change.index} @{change.cell}:\n{change.removed_source}"
        case "move":
            return f"Moved {name} to {change.index}."
        case "outputs":
            return f"Cleared the outputs of {name}."
        case "replace":
            return f"Changed cell {change.index} {name}:\n{change.diff or '(same source)'}"


def changed_cell(snapshot: Snapshot, change: Change) -> ChangedCell:
    """A change as an answer tells it."""
    cell = snapshot.by_key.get(change.cell) if change.action != "delete" else None
    return ChangedCell(
        action=change.action,
        cell=change.cell,
        index=change.index if cell is None else cell.index,
        address=snapshot.address(cell) if cell else None,
        cell_type=cell.type if cell else None,
        diff=editing.line_diff(change.before.source, change.after.source)
        if change.action == "replace" and change.before and change.after
        else None,
        removed_source=change.before.source
        if change.action == "delete" and change.before
        else None,
    )
