"""Undo: the operations that take changes back, where nobody has worked on since.

Pure: changes are taken back on a model of the notebook as it is now (ids, types, hashes, in order),
the last one first; then the way from the notebook to that model is planned. Each planned operation
carries the hash that it expects, so that what happens between planning and applying is found by the
document itself. See docs/adr/0007.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tk_ai_extension.model.cells import Cell, CellContent, CellType, Snapshot, source_hash
from tk_ai_extension.model.merging import longest_increasing
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
class UndoPlan:
    """A plan to take journal entries back.

    Attributes:
        operations: What to apply, all or none.
        entries: The ids of the entries of which at least something is taken back, the newest first.
        left: Sentences about what does not come back, and why.
    """

    operations: tuple[Operation, ...]
    entries: tuple[int, ...]
    left: tuple[str, ...]


def plan_undo(entries: Sequence[JournalEntry], snapshot: Snapshot) -> UndoPlan:
    """The plan to take back entries of one notebook.

    Args:
        entries: The newest first, with their changes (`Journal.undoable`).
        snapshot: The notebook as it is now.
    """
    target = _Target(snapshot)
    undone: list[int] = []
    for entry in entries:
        if target.take_back(entry.changes):
            undone.append(entry.id)
            target.left += [entry.note] if entry.note else []
    return UndoPlan(tuple(target.operations()), tuple(undone), tuple(dict.fromkeys(target.left)))


def inverse_operations(
    changes: Sequence[Change], snapshot: Snapshot
) -> tuple[list[Operation], list[str]]:
    """The operations that take changes back, the last one first, and sentences about what stays.

    What somebody has worked on since stays: a source, type or outputs that are not as the change
    left them, a cell that is gone, an id that another cell has now.

    Args:
        changes: In the order in which they were made.
        snapshot: The notebook as it is now.
    """
    target = _Target(snapshot)
    target.take_back(changes)
    return target.operations(), list(dict.fromkeys(target.left))


@dataclass(eq=False)
class _Row:
    """A cell of the model.

    Attributes:
        cell: The cell of the snapshot; None for one that comes back.
        id, type, hash: As they are in the model.
        outputs: How many outputs it has in the model.
        count: Its execution count in the model.
        content: What it becomes; None while it stays as it is.
        whole: Whether more of it changes than operations on a cell can set (metadata,
            attachments): then it is deleted and inserted anew, under its id.
    """

    cell: Cell | None
    id: str | None
    type: CellType
    hash: str
    outputs: int
    count: int | None
    content: CellContent | None = None
    whole: bool = False

    @classmethod
    def of(cls, cell: Cell) -> _Row:
        return cls(cell, cell.id, cell.type, cell.hash, cell.outputs.count, cell.execution_count)

    def become(self, content: CellContent) -> None:
        self.content = content
        self.type, self.hash = content.type, source_hash(content.source)
        self.outputs, self.count = len(content.outputs), content.execution_count


class _Target:
    """The notebook as it should be: a model from which changes are taken back one by one."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.left: list[str] = []
        self._has_ids = snapshot.nbformat >= (4, 5)
        self._start = [_Row.of(cell) for cell in snapshot.cells]
        self._rows = list(self._start)
        self._by_id: defaultdict[str, list[_Row]] = defaultdict(list)
        for row in self._rows:
            self._by_id[row.id or ""].append(row)
        # Cells of which a change stays: their earlier ones stay too, or undo would jump over it.
        self._blocked: set[str] = set()
        # The same for all that have no id: if something stays, numbers are not what they were.
        self._numbers_blocked = False

    def take_back(self, changes: Sequence[Change]) -> bool:
        """Take back changes, the last one first; whether any of them could be."""
        any_taken_back = False
        for change in reversed(changes):
            numbered = not _by_id(change)
            if change.cell in self._blocked or (numbered and self._numbers_blocked):
                reason: str | None = "a later change of it stays"
            else:
                reason = self._take_back(change)
            if reason is None:
                any_taken_back = True
            else:
                self.left.append(f"Cell @{change.cell} stays as it is: {reason}.")
                self._blocked.add(change.cell)
                self._numbers_blocked |= numbered
        return any_taken_back

    def operations(self) -> list[Operation]:
        """The way from the snapshot to here. Each cell is named by its key in the snapshot."""
        gone = set(self._start) - {row for row in self._rows if not row.whole}
        operations: list[Operation] = [
            Delete(row.cell.key, expect=row.cell.hash)
            for row in self._start
            if row in gone and row.cell is not None
        ]
        for row in self._rows:
            if row.cell is not None and row.content is not None and not row.whole:
                operations += _edits(row.cell, row.content)
        return operations + self._arrange([row for row in self._start if row not in gone])

    def _arrange(self, order: list[_Row]) -> list[Operation]:
        """Insert and moves that make this order the target's.

        As many cells as possible stay where they are; each other one goes after the one before it.
        """
        operations: list[Operation] = []
        places = {row: place for place, row in enumerate(order)}
        staying = set(longest_increasing([places[row] for row in self._rows if row in places]))
        at = 0
        for row in self._rows:
            if row not in places:
                assert row.content is not None
                operations.append(Insert(row.content, index=at))
                order.insert(at, row)
            elif places[row] in staying:
                at = order.index(row, at)
            else:
                assert row.cell is not None
                before = order.index(row)
                # Once it is out of its place, what was below it is one up.
                at -= before < at
                operations.append(Move(row.cell.key, at))
                order.insert(at, order.pop(before))
            at += 1
        return operations

    def _take_back(self, change: Change) -> str | None:
        """Take back one change, or returns why it stays."""
        if change.action == "delete":
            return self._take_back_delete(change)
        row = self._find(change)
        if row is None:
            return "it is gone"
        if change.action == "move":
            self._take_back_move(change, row)
            return None
        after = _there(change.after)
        if row.hash != source_hash(after.source) or row.type != after.type:
            return "it was worked on since"
        if change.action == "insert":
            self._rows.remove(row)
            self._by_id[row.id or ""].remove(row)
            return None
        before = _there(change.before)
        if change.action == "replace":
            row.whole |= before.metadata != after.metadata or before.extra != after.extra
        elif (row.outputs, row.count) != (len(after.outputs), after.execution_count):
            return "it has run since"
        row.become(before)
        return None

    def _take_back_delete(self, change: Change) -> str | None:
        content = _there(change.before)
        if content.id is not None and self._by_id.get(content.id):
            return "another cell has its id now"
        cell_id = content.id if self._has_ids else None
        row = _Row(None, cell_id, content.type, "", 0, None)
        row.become(content)
        self._by_id[row.id or ""].append(row)
        previous = self._previous(change)
        index = change.index if previous is None else self._rows.index(previous) + 1
        self._rows.insert(index, row)
        return None

    def _take_back_move(self, change: Change, row: _Row) -> None:
        self._rows.remove(row)
        previous = self._previous(change)
        if previous is not None and previous is not row:
            index = self._rows.index(previous) + 1
        else:
            index = change.index if change.index_before is None else change.index_before
        self._rows.insert(index, row)

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
        rows = self._by_id.get(change.previous, []) if change.previous else []
        return rows[0] if len(rows) == 1 else None


def _edits(cell: Cell, content: CellContent) -> list[Operation]:
    """What gives a cell this type, source and outputs."""
    operations: list[Operation] = []
    if cell.hash != source_hash(content.source) or cell.type != content.type:
        operations.append(Replace(cell.key, content.source, type=content.type, expect=cell.hash))
    has_outputs = bool(content.outputs) or content.execution_count is not None
    if content.type == "code" and (has_outputs or not operations):
        operations.append(SetOutputs(cell.key, content.outputs, content.execution_count))
    return operations


def _content(change: Change) -> CellContent:
    return _there(change.after or change.before)


def _by_id(change: Change) -> bool:
    """Return whether the change names its cell by its id, and not by its place."""
    return _content(change).id == change.cell


def _there(content: CellContent | None) -> CellContent:
    assert content is not None, "a change of this kind has this side"
    return content
