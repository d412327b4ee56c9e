"""Undo: the operations that take changes back, where nobody has worked on since.

Pure: it plans on a model of the notebook as it is now (ids, types, hashes, in order), and each
planned operation carries the hash that it expects, so that what happens between planning and
applying is found by the document itself. See docs/adr/0007.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tk_ai_extension.model.cells import Cell, CellContent, CellType, Snapshot, source_hash
from tk_ai_extension.model.operations import (
    Change,
    Delete,
    Insert,
    Move,
    Operation,
    Replace,
    SetOutputs,
)
from tk_ai_extension.workspace.journal import JournalEntry


@dataclass(frozen=True, slots=True)
class Undo:
    """A plan to take journal entries back.

    Attributes:
        operations: What to apply, all or none.
        entries: The ids of the entries of which at least something is taken back, the newest first.
        left: Sentences about what does not come back, and why.
    """

    operations: tuple[Operation, ...]
    entries: tuple[int, ...]
    left: tuple[str, ...]


def plan(entries: Sequence[JournalEntry], snapshot: Snapshot) -> Undo:
    """The plan to take back entries of one notebook.

    Args:
        entries: The newest first, with their changes (`Journal.undoable`).
        snapshot: The notebook as it is now.
    """
    planner = _Planner(snapshot)
    undone: list[int] = []
    for entry in entries:
        before = len(planner.operations)
        planner.take_back(entry.changes)
        if len(planner.operations) > before:
            undone.append(entry.id)
            planner.left += [entry.note] if entry.note else []
    return Undo(tuple(planner.operations), tuple(undone), tuple(dict.fromkeys(planner.left)))


def inverse(changes: Sequence[Change], snapshot: Snapshot) -> tuple[list[Operation], list[str]]:
    """The operations that take changes back, the last one first, and sentences about what stays.

    What somebody has worked on since stays: a source, type or outputs that are not as the change
    left them, a cell that is gone, an id that another cell has now.

    Args:
        changes: In the order in which they were made.
        snapshot: The notebook as it is now.
    """
    planner = _Planner(snapshot)
    planner.take_back(changes)
    return planner.operations, list(dict.fromkeys(planner.left))


@dataclass(eq=False)
class _Row:
    """A cell of the model. ``outputs`` is how many there are, ``count`` the execution count."""

    id: str | None
    type: CellType
    hash: str
    outputs: int
    count: int | None


class _Planner:
    """Plans on a model of the notebook that follows each planned operation."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.operations: list[Operation] = []
        self.left: list[str] = []
        self._has_ids = snapshot.nbformat >= (4, 5)
        self._rows: list[_Row] = []
        self._by_id: defaultdict[str, list[_Row]] = defaultdict(list)
        for cell in snapshot.cells:
            self._add(len(self._rows), _row(cell))
        # Cells of which a change stays: their earlier ones stay too, or undo would jump over it.
        self._blocked: set[str] = set()
        # The same for all that have no id: once something stays, their numbers are not what they
        # were.
        self._numbers_blocked = False

    def take_back(self, changes: Sequence[Change]) -> None:
        """Plans the inverses of changes, the last one first."""
        for change in reversed(changes):
            numbered = not _by_id(change)
            if change.cell in self._blocked or (numbered and self._numbers_blocked):
                reason: str | None = "a later change of it stays"
            else:
                reason = self._take_back(change)
            if reason is not None:
                self.left.append(f"Cell @{change.cell} stays as it is: {reason}.")
                self._blocked.add(change.cell)
                self._numbers_blocked |= numbered

    def _take_back(self, change: Change) -> str | None:
        """Plans the inverse of one change, or returns why there is none."""
        match change.action:
            case "delete":
                return self._take_back_delete(change)
            case "move":
                return self._take_back_move(change)
            case "insert" | "replace" | "outputs":
                row = self._find(change)
                if row is None:
                    return "it is gone"
                if row.hash != source_hash(_there(change.after).source) or (
                    row.type != _there(change.after).type
                ):
                    return "it was worked on since"
                if change.action == "insert":
                    self._delete(row)
                    return None
                if change.action == "replace":
                    return self._take_back_replace(change, row)
                return self._take_back_outputs(change, row)

    def _take_back_delete(self, change: Change) -> str | None:
        content = _there(change.before)
        if content.id is not None and self._by_id.get(content.id):
            return "another cell has its id now"
        index = min(change.index, len(self._rows))
        if (previous := self._previous(change)) is not None:
            index = self._rows.index(previous) + 1
        self._insert(content, index)
        return None

    def _take_back_replace(self, change: Change, row: _Row) -> str | None:
        before, after = _there(change.before), _there(change.after)
        if before.metadata != after.metadata or before.extra != after.extra:
            # No operation sets these alone: the cell is put back whole, under its id.
            index = self._rows.index(row)
            self._delete(row)
            self._insert(before, index)
            return None
        self.operations.append(
            Replace(self._key(row), before.source, type=before.type, expect=row.hash)
        )
        row.type, row.hash = before.type, source_hash(before.source)
        row.outputs, row.count = 0, None
        if before.type == "code" and (before.outputs or before.execution_count is not None):
            self._set_outputs(row, before)
        return None

    def _take_back_move(self, change: Change) -> str | None:
        row = self._find(change)
        if row is None:
            return "it is gone"
        index = self._rows.index(row)
        to = min(
            change.index if change.index_before is None else change.index_before,
            len(self._rows) - 1,
        )
        previous = self._previous(change)
        if previous is not None and previous is not row:
            at = self._rows.index(previous)
            # Once it is out of its place, what was below it is one up.
            to = at + 1 if at < index else at
        if to != index:
            self.operations.append(Move(self._key(row), to))
            self._rows.insert(to, self._rows.pop(index))
        return None

    def _take_back_outputs(self, change: Change, row: _Row) -> str | None:
        after = _there(change.after)
        if (row.outputs, row.count) != (len(after.outputs), after.execution_count):
            return "it has run since"
        self._set_outputs(row, _there(change.before))
        return None

    def _find(self, change: Change) -> _Row | None:
        """The changed cell: by its id, or where it has none that is unique by its place."""
        if _by_id(change):
            rows = self._by_id.get(change.cell, [])
            return rows[0] if len(rows) == 1 else None
        if change.index >= len(self._rows):
            return None
        row = self._rows[change.index]
        return row if row.id == _content(change).id else None

    def _previous(self, change: Change) -> _Row | None:
        """The cell that was before the changed one, if it is known and still there."""
        rows = self._by_id.get(change.previous or "", [])
        return rows[0] if len(rows) == 1 else None

    def _key(self, row: _Row) -> str:
        if row.id is not None and len(self._by_id[row.id]) == 1:
            return row.id
        return f"cell-{self._rows.index(row)}"

    def _add(self, index: int, row: _Row) -> None:
        self._rows.insert(index, row)
        if row.id is not None:
            self._by_id[row.id].append(row)

    def _delete(self, row: _Row) -> None:
        self.operations.append(Delete(self._key(row), expect=row.hash))
        self._rows.remove(row)
        if row.id is not None:
            self._by_id[row.id].remove(row)

    def _insert(self, content: CellContent, index: int) -> None:
        self.operations.append(Insert(content, index=index))
        # It gets an id that cannot be known here, so that nothing more can be planned for it.
        self._numbers_blocked |= self._has_ids and content.id is None
        self._add(
            index,
            _Row(
                content.id if self._has_ids else None,
                content.type,
                source_hash(content.source),
                len(content.outputs),
                content.execution_count,
            ),
        )

    def _set_outputs(self, row: _Row, content: CellContent) -> None:
        self.operations.append(SetOutputs(self._key(row), content.outputs, content.execution_count))
        row.outputs, row.count = len(content.outputs), content.execution_count


def _row(cell: Cell) -> _Row:
    return _Row(cell.id, cell.type, cell.hash, cell.outputs.count, cell.execution_count)


def _content(change: Change) -> CellContent:
    return _there(change.after or change.before)


def _by_id(change: Change) -> bool:
    """Whether the change names its cell by its id, and not by its place."""
    return _content(change).id == change.cell


def _there(content: CellContent | None) -> CellContent:
    assert content is not None, "a change of this kind has this side"
    return content
