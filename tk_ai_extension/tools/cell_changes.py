"""Plan and apply edits of cells, and describe the changes."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from tk_ai_extension.model.cells import Snapshot
from tk_ai_extension.model.diffs import DiffBudget, line_diff
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.model.operations import Change, Operation, check_places, expecting
from tk_ai_extension.notebooks.base import NotebookDocument
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.parameters import CellKind
from tk_ai_extension.tools.plans import Edit
from tk_ai_extension.tools.results import Result
from tk_ai_extension.workspace import editing


class ChangedCell(BaseModel):
    """The change of one cell, read back after the write."""

    action: Literal["insert", "replace", "delete", "move", "outputs"]
    cell: str
    index: int
    address: str | None = None
    """Its versioned address now; None if it was deleted."""
    cell_type: CellKind | None = None
    diff: str | None = None
    removed_source: str | None = None


class CellsChanged(Result):
    """The changes that were made to a notebook."""

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


def changed_cell(
    snapshot: Snapshot, change: Change, budget: DiffBudget | None = None
) -> ChangedCell:
    """Return a change as it appears in a result, whose diffs share a budget."""
    cell = snapshot.by_key.get(change.cell) if change.action != "delete" else None
    return ChangedCell(
        action=change.action,
        cell=change.cell,
        index=change.index if cell is None else cell.index,
        address=snapshot.address(cell) if cell else None,
        cell_type=cell.type if cell else None,
        diff=line_diff(change.before.source, change.after.source, budget)
        if change.action == "replace" and change.before and change.after
        else None,
        removed_source=change.before.source
        if change.action == "delete" and change.before
        else None,
    )


def cells_changed(applied: editing.JournaledEdit) -> CellsChanged:
    """Return the result for applied operations."""
    snapshot, budget = applied.snapshot, DiffBudget()
    return CellsChanged(
        notebook=snapshot.path,
        total_cells=len(snapshot.cells),
        changes=[changed_cell(snapshot, change, budget) for change in applied.changes],
    )


def plan_edit(
    context: ToolContext,
    document: NotebookDocument,
    snapshot: Snapshot,
    *operations: Operation,
    run: bool = False,
    wait: float = 30.0,
    timeout: float | None = None,
) -> Edit:
    """Return a plan of operations on a notebook.

    Args:
        context: The context of the call.
        document: The notebook.
        snapshot: The notebook as it was read.
        *operations: The operations, in order.
        run: Whether to run the changed code cells afterwards.
        wait: Seconds to wait for the end of that run.
        timeout: Seconds after which a running cell is interrupted; None for no limit.

    Raises:
        InvalidArguments: A source is too long or has invalid characters, or an index is out of range.
    """
    editing.check_sources(context.workspace, operations)
    check_places(snapshot, operations)
    return Edit(document, snapshot, tuple(expecting(snapshot, operations)), run, wait, timeout)


async def apply_edit(context: ToolContext, edit: Edit, tool: str) -> CellsChanged:
    """Apply an edit of cells and return its result."""
    return cells_changed(
        await editing.apply(
            context.workspace, context.caller, edit.document, edit.operations, tool=tool
        )
    )


def replaced(source: str, name: str, old: str, new: str, *, replace_all: bool) -> str:
    """Return a source with ``old`` replaced by ``new``.

    Args:
        source: The source.
        name: The cell in messages, such as ``Cell @318a``.
        old: The text to replace.
        new: Its replacement.
        replace_all: Whether it may occur more than once.

    Raises:
        InvalidArguments: ``old`` is empty, does not occur, or occurs more than once and
            ``replace_all`` is false.
    """
    count = source.count(old) if old else 0
    if not old:
        raise InvalidArguments(
            "`old` is empty.", hint="Give the text to replace, or use overwrite_cell."
        )
    if count == 0:
        raise InvalidArguments(
            f"{name} does not contain `old`.",
            hint="Read the cell. `old` must match its source exactly.",
        )
    if count > 1 and not replace_all:
        raise InvalidArguments(
            f"{name} contains `old` {count} times.",
            hint="Include more of the surrounding text in `old`, or set `replace_all`.",
        )
    return source.replace(old, new)
