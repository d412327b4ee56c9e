"""Undo journal entries, cell by cell, unless a cell was edited or ran since; and their combined changes."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import Literal, TypeVar

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.cell_operations import (
    Action,
    Change,
    Delete,
    Insert,
    Move,
    Operation,
    Replace,
    SetOutputs,
)
from tk_ai_extension.model.cells import Cell, CellData, CellType, Snapshot, source_hash
from tk_ai_extension.model.diffs import line_diff, longest_increasing
from tk_ai_extension.model.errors import CellNotFound, NothingToUndo, ToolError
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.notebooks.computed_edit import anchored
from tk_ai_extension.notebooks.document import NotebookDocument
from tk_ai_extension.notebooks.notebook_json import same_outputs
from tk_ai_extension.workspace import editing
from tk_ai_extension.workspace.journal import JournalEntry
from tk_ai_extension.workspace.workspace import Workspace

T = TypeVar("T")

MAX_SOURCE = 100_000
"""Maximum length of a source, in characters; longer ones are left out."""


@dataclass(frozen=True, slots=True)
class CombinedChange:
    """The combined effect of several changes on one cell.

    Attributes:
        notebook: The path.
        cell: The cell's key.
        action: insert, replace, delete, move or outputs.
        index: Its index after the last change; before it, if it was deleted.
        cell_type: code, markdown or raw.
        before: The source before; None if there was no cell, or the source is too long.
        diff: The removed and added lines, as the event `cell_change` has them.
        truncated: Whether a source is too long: then the diff is empty.
        entries: The journal entries of the changes; empty if a person keeps all of them.
        author: The displayed name of the author of the last change.
        time: The time of the last change, in seconds since the epoch.
        yours: Whether your agents made all changes.
    """

    notebook: str
    cell: str
    action: Action
    index: int
    cell_type: str
    before: str | None
    diff: str
    truncated: bool
    entries: Sequence[int]
    author: str
    time: float
    yours: bool


def combined_changes(entries: Sequence[JournalEntry], user: str) -> list[CombinedChange]:
    """Return the combined changes by cell, in the order of each cell's first change.

    A cell that was inserted and deleted again is left out, and so is an unchanged one. Changes that a
    person keeps count only if the cell has no others.

    Args:
        entries: The entries, newest first, with their changes.
        user: The user who reads them.
    """
    by_cell: dict[tuple[str, str], list[tuple[JournalEntry, Change]]] = {}
    for entry in reversed(entries):
        for change in entry.changes:
            by_cell.setdefault((entry.path, change.cell), []).append((entry, change))
    found: list[CombinedChange | None] = []
    for (path, cell), changes in by_cell.items():
        pending = [each for each in changes if cell not in each[0].kept]
        found.append(_net(path, pending or changes, user, is_kept=not pending))
    return [each for each in found if each is not None]


def _net(
    path: str, done: Sequence[tuple[JournalEntry, Change]], user: str, *, is_kept: bool
) -> CombinedChange | None:
    changes = [change for _, change in done]
    entries = list({entry.id: entry for entry, _ in done}.values())
    last = changes[-1]
    # Moves have the content too, so the first and the last change always have both sides.
    before, after = changes[0].before, last.after
    if before is None and after is None and _is_edited_between(changes):
        before = last.before
    action = _action(before, after, is_moved=any(each.action == "move" for each in changes))
    content = after or before
    if action is None or content is None:
        return None
    old = "" if before is None else before.source
    new = "" if after is None else after.source
    truncated = max(len(old), len(new)) > MAX_SOURCE
    if truncated:
        old = new = ""
    return CombinedChange(
        path,
        last.cell,
        action,
        last.index,
        content.type,
        None if before is None or truncated else old,
        line_diff(old, new),
        truncated,
        [] if is_kept else [entry.id for entry in entries],
        entries[-1].author,
        entries[-1].time,
        all(entry.user == user for entry in entries),
    )


def _is_edited_between(changes: Sequence[Change]) -> bool:
    """Return whether others changed the source between two of these changes of a cell."""
    return any(
        one.after is not None and two.before is not None and one.after.source != two.before.source
        for one, two in pairwise(changes)
    )


def _action(before: CellData | None, after: CellData | None, *, is_moved: bool) -> Action | None:
    if before is None or after is None:
        if before is None and after is None:
            return None
        return "insert" if before is None else "delete"
    if (before.source, before.type) != (after.source, after.type):
        return "replace"
    if (before.outputs, before.execution_count) != (after.outputs, after.execution_count):
        return "outputs"
    if is_moved:
        return "move"
    return None if before == after else "replace"


Outputs = tuple[Json, ...]
_NONE: Mapping[str, Outputs] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """A plan to undo journal entries.

    Attributes:
        operations: The operations, applied all or none.
        entries: The changes that are undone, in order, by the ids of their entries, newest entry first.
        left: Sentences about the changes that stay, with reasons.
        stayed: The keys of the cells of these changes.
    """

    operations: tuple[Operation, ...]
    entries: Mapping[int, Sequence[Change]]
    left: tuple[str, ...]
    stayed: tuple[str, ...] = ()


def compared_outputs(changes: Iterable[Change], snapshot: Snapshot) -> list[str]:
    """Return the keys of the cells with outputs that an undo of these changes compares.

    Cells with another number of outputs or another execution count have run since. They are left out.
    """
    keys: dict[str, None] = {}
    numbered: defaultdict[tuple[int, int | None], list[Cell]] | None = None
    for change in changes:
        after = _content(change)
        if change.action != "outputs" or change.keeps_outputs or not after.outputs:
            continue
        state = len(after.outputs), after.execution_count
        if _by_id(change):
            cell = snapshot.get(change.cell)
            found = [] if cell is None or _state(cell) != state else [cell]
        else:
            # Neither its position nor its source is known: later changes are undone first.
            if numbered is None:
                numbered = defaultdict(list)
                for cell in snapshot.cells:
                    if cell.is_numbered:
                        numbered[_state(cell)].append(cell)
            found = numbered.get(state, [])
        keys |= dict.fromkeys(cell.key for cell in found)
    return list(keys)


def _state(cell: Cell) -> tuple[int, int | None]:
    return cell.outputs.count, cell.execution_count


def plan_undo(
    entries: Sequence[JournalEntry], snapshot: Snapshot, outputs: Mapping[str, Outputs] = _NONE
) -> UndoPlan:
    """Return the plan to undo entries of one notebook.

    Args:
        entries: The entries, newest first, with their changes (`Journal.undoable`).
        snapshot: The current notebook.
        outputs: The outputs of the cells of `compared_outputs`, by key. A missing cell counts as run
            since.
    """
    target = _Target(snapshot, outputs)
    undone: dict[int, Sequence[Change]] = {}
    for entry in entries:
        if changes := target.undo(entry.changes):
            undone[entry.id] = changes
            target.left += [entry.note] if entry.note else []
    operations = tuple(target.operations())
    done = {number: target.without_kept(changes) for number, changes in undone.items()}
    undone = {number: changes for number, changes in done.items() if changes}
    left = tuple(dict.fromkeys(target.left))
    return UndoPlan(operations, undone, left, tuple(target.blocked))


def inverse_operations(
    changes: Sequence[Change], snapshot: Snapshot, outputs: Mapping[str, Outputs] = _NONE
) -> tuple[list[Operation], list[str], list[Change]]:
    """Return the operations that undo changes, sentences about those that stay, and those that are undone.

    A change stays if the cell's source, type or outputs have changed since, if the cell was deleted,
    or if another cell has its id now.

    Args:
        changes: The changes, in the order in which they were made.
        snapshot: The current notebook.
        outputs: See `plan_undo`.
    """
    target = _Target(snapshot, outputs)
    undone = target.undo(changes)
    operations = target.operations()
    return operations, list(dict.fromkeys(target.left)), target.without_kept(undone)


@dataclass(eq=False)
class _Row:
    """A cell of the model.

    Attributes:
        cell: The cell of the snapshot; None for a restored cell.
        id, type, hash: Its values in the model.
        outputs: Its outputs in the model; None if they are not known.
        count: Its execution count in the model.
        found: Its outputs in the snapshot; None if they are not known.
        content: Its new content; None while it is unchanged.
        place: The reason for its position: it is there in the notebook; the plan has put it back below the
            cell that was above it, or at its old index if that cell is gone; or it was moved.
        sets_outputs: Whether ``content`` has the outputs to restore; otherwise the cell keeps its outputs.
        ran: Whether it ran after the last of the changes that are undone.
        whole: Whether fields change that operations cannot set (metadata, attachments). Then the
            cell is deleted and inserted again with its id.
        changes: The changes of its content that are undone.
    """

    cell: Cell | None
    id: str | None
    type: CellType
    hash: str
    outputs: Outputs | None
    count: int | None
    found: Outputs | None = None
    content: CellData | None = None
    sets_outputs: bool = False
    ran: bool = False
    whole: bool = False
    place: Literal["kept", "restored", "guessed", "moved"] = "kept"
    changes: list[Change] = field(default_factory=list[Change])

    @property
    def mark(self) -> str:
        return self.id or self.hash

    @classmethod
    def of(cls, cell: Cell, outputs: Mapping[str, Outputs]) -> _Row:
        found = outputs.get(cell.key) if cell.outputs.count else ()
        return cls(cell, cell.id, cell.type, cell.hash, found, cell.execution_count, found)

    def has_outputs_of(self, content: CellData) -> bool:
        """Return whether its outputs are from a change, and not from a later run."""
        if self.outputs is None or self.count != content.execution_count:
            return False
        return same_outputs(self.outputs, content.outputs)

    def become(self, content: CellData, *, keep_outputs: bool = False) -> None:
        if not keep_outputs:
            self.sets_outputs = True
            self.outputs, self.count = content.outputs, content.execution_count
        elif self.content is not None:
            mine = self.content
            content = replace(content, outputs=mine.outputs, execution_count=mine.execution_count)
        self.content = content
        self.type, self.hash = content.type, source_hash(content.source)


class _Target:
    """A model of the notebook in which changes are undone one by one."""

    def __init__(self, snapshot: Snapshot, outputs: Mapping[str, Outputs]) -> None:
        self.left: list[str] = []
        self._has_ids = snapshot.nbformat >= (4, 5)
        self._start = [_Row.of(cell, outputs) for cell in snapshot.cells]
        self._rows = list(self._start)
        self._by_id: defaultdict[str, list[_Row]] = defaultdict(list)
        for row in self._rows:
            self._by_id[row.id or ""].append(row)
        # The marks in the notebook and in the planned result: the mark of a cell without an id changes.
        self._marks = {row.mark for row in self._start}
        self._is_blank = not any(cell.source.strip() for cell in snapshot.cells)
        # If a change of a cell stays, its earlier changes stay too.
        self.blocked: dict[str, None] = {}
        # Likewise for all cells without an id: their positions may have shifted.
        self._numbers_blocked = False
        # Changes of cells that are kept as they are: they stay, and can be undone another time.
        self._kept: list[Change] = []

    def undo(self, changes: Sequence[Change]) -> list[Change]:
        """Undo changes, the last one first; return those that were undone, in order."""
        undone: list[Change] = []
        for change in reversed(changes):
            numbered = not _by_id(change)
            if change.cell in self.blocked or (numbered and self._numbers_blocked):
                reason: str | None = "a later change of it was not undone"
            else:
                reason = self._undo(change)
            if reason is None:
                undone.append(change)
            else:
                self.left.append(f"Cell @{change.cell} was not reverted: {reason}.")
                self.blocked[change.cell] = None
                self._numbers_blocked |= numbered
        return undone[::-1]

    def operations(self) -> list[Operation]:
        """Return the operations from the snapshot to the model. Cells have their keys of the snapshot.

        A cell that ran since and gets the same source again keeps its outputs; `left` has a sentence for it.
        """
        deleted = set(self._start) - {row for row in self._rows if not row.whole}
        operations: list[Operation] = [
            Delete(row.cell.key, expect=row.cell.hash)
            for row in self._start
            if row in deleted and row.cell is not None
        ]
        for row in self._rows:
            if row.cell is None or row.content is None or row.whole:
                continue
            if row.ran and (row.hash, row.type) == (row.cell.hash, row.cell.type):
                self._keep(row, row.cell)
                continue
            operations += _edits(row, row.cell, row.content)
        return operations + self._arrange([row for row in self._start if row not in deleted])

    def _keep(self, row: _Row, cell: Cell) -> None:
        self.left.append(f"The outputs of cell @{cell.key} were kept: it ran since.")
        # Without an id, a change is found by its position, which an earlier undo may shift.
        if row.id is not None:
            self._kept += row.changes
            self.blocked[cell.key] = None

    def without_kept(self, changes: Sequence[Change]) -> list[Change]:
        """Return these changes without those of cells that `operations` left unchanged."""
        kept = {id(change) for change in self._kept}
        return [change for change in changes if id(change) not in kept]

    def _arrange(self, order: list[_Row]) -> list[Operation]:
        """Return the inserts and moves that turn this order into the model's.

        As few cells as possible are moved; each one goes below the previous cell.
        """
        operations: list[Operation] = []
        positions = {row: position for position, row in enumerate(order)}
        known = [positions[row] for row in self._rows if row in positions]
        staying = set(longest_increasing(known))
        at = 0
        for row in self._rows:
            if row not in positions:
                assert row.content is not None
                restores = self._has_ids and row.content.id is not None
                operations.append(Insert(row.content, index=at, restores=restores))
                order.insert(at, row)
            elif positions[row] in staying:
                at = order.index(row, at)
            else:
                assert row.cell is not None
                before = order.index(row)
                # Removing the cell shifts the cells below it up by one.
                at -= before < at
                operations.append(Move(row.cell.key, at))
                order.insert(at, order.pop(before))
            at += 1
        return operations

    def _undo(self, change: Change) -> str | None:
        """Undo one change; return the reason if it stays."""
        if change.action == "delete":
            return self._undo_delete(change)
        row = self._find(change)
        if row is None:
            return "it was deleted"
        if change.action == "move":
            return self._undo_move(change, row)
        after = _required(change.after)
        if row.hash != source_hash(after.source) or row.type != after.type:
            return "it was edited since"
        if change.action == "insert":
            self._rows.remove(row)
            self._by_id[row.id or ""].remove(row)
            return None
        before = _required(change.before)
        if (reason := _later_run(change, row)) is not None:
            return reason
        if change.action == "replace":
            row.whole |= before.metadata != after.metadata or before.extra != after.extra
        # Undo restores only what the change altered: other outputs may be of a later run.
        row.become(before, keep_outputs=change.keeps_outputs)
        row.changes.append(change)
        self._marks.add(row.mark)
        return None

    def _undo_delete(self, change: Change) -> str | None:
        content = _required(change.before)
        if content.id is not None and self._by_id.get(content.id):
            return "another cell has its id now"
        if change.witnesses and not self._is_blank and self._marks.isdisjoint(change.witnesses):
            return "no cell of that notebook is left"
        cell_id = content.id if self._has_ids else None
        row = _Row(None, cell_id, content.type, "", (), None)
        row.become(content)
        self._marks.add(row.mark)
        self._by_id[row.id or ""].append(row)
        self._put_back(change, row)
        return None

    def _undo_move(self, change: Change, row: _Row) -> str | None:
        if not self._is_where_it_was_put(change, row):
            row.place = "moved"
            return "it was moved since"
        self._rows.remove(row)
        self._put_back(change, row)
        return None

    def _put_back(self, change: Change, row: _Row) -> None:
        """Insert a cell below the one that was above it, or at its old index if that cell is gone."""
        previous = self._previous(change)
        index = change.index if change.index_before is None else change.index_before
        if previous is not None and previous is not row:
            row.place, index = "restored", self._rows.index(previous) + 1
        else:
            row.place = "guessed" if index or change.previous else "restored"
        self._rows.insert(index, row)

    def _is_where_it_was_put(self, change: Change, row: _Row) -> bool:
        """Return whether a neighbour of a moved cell shows that it was not moved again.

        Others may have inserted a cell between them, or moved the neighbour. A cell that the plan has put
        below this one, or at an index, proves nothing.
        """
        if not _by_id(change) and row.hash != source_hash(_content(change).source):
            return False
        if change.neighbours is None:
            return True  # An entry of an earlier version.
        at = self._rows.index(row)
        above = self._rows[at - 1] if at else None
        below = self._rows[at + 1] if at + 1 < len(self._rows) else None
        was_above, was_below = change.neighbours
        return _shows(above, was_above, "kept", "restored") or _shows(below, was_below, "kept")

    def _find(self, change: Change) -> _Row | None:
        """Return the changed cell, by its id, or by its position if it has no unique id."""
        if _by_id(change):
            rows = self._by_id.get(change.cell, [])
            return rows[0] if len(rows) == 1 else None
        if change.index >= len(self._rows):
            return None
        row = self._rows[change.index]
        return row if row.id == _content(change).id else None

    def _previous(self, change: Change) -> _Row | None:
        """Return the cell that was above the changed one, if it is known and still exists."""
        rows = self._by_id.get(change.previous, []) if change.previous else []
        return rows[0] if len(rows) == 1 else None


def _edits(row: _Row, cell: Cell, content: CellData) -> list[Operation]:
    """Return the operations that set a cell's type, source and, if they change, outputs."""
    sets_outputs = row.sets_outputs
    operations: list[Operation] = []
    if cell.hash != source_hash(content.source) or cell.type != content.type:
        operations.append(
            Replace(cell.key, content.source, content.type, not sets_outputs, expect=cell.hash)
        )
    has_outputs = bool(content.outputs) or content.execution_count is not None
    if sets_outputs and content.type == "code" and (has_outputs or not operations):
        # After a `Replace`, which compares the source, a cell has no outputs.
        known = None if operations or row.found is None else (row.found, cell.execution_count)
        operations.append(
            SetOutputs(cell.key, content.outputs, content.execution_count, replaces=known)
        )
    return operations


def _later_run(change: Change, row: _Row) -> str | None:
    """Return the reason why a later run's outputs, and so the change, stay; None if it can be undone."""
    if change.keeps_outputs:
        return None
    ran = not row.has_outputs_of(_content(change))
    if change.action == "replace":
        # Outputs of an undone source are removed with it: see `_Target.operations`.
        row.ran = row.ran if row.sets_outputs else ran
        return None
    if _is_too_large(change):
        return "its outputs were too large to keep, so that a later run is not recognised"
    return "it ran since" if ran else None


def _is_too_large(change: Change) -> bool:
    """Return whether a change that set outputs was stored without them."""
    before, after = _required(change.before), _required(change.after)
    had_any = bool(before.outputs) or before.execution_count is not None
    has_any = bool(after.outputs) or after.execution_count is not None
    return change.outputs_kept is not None and had_any and not has_any


def _shows(row: _Row | None, expected: str | None, *places: str) -> bool:
    if row is None or expected is None:
        return row is expected
    return row.mark == expected and row.place in places


def _content(change: Change) -> CellData:
    return _required(change.after or change.before)


def _by_id(change: Change) -> bool:
    """Return whether the change names its cell by id and not by position."""
    return _content(change).id == change.cell


def _required(content: CellData | None) -> CellData:
    assert content is not None, "a change of this kind has this side"
    return content


MANY = 2_000
"""Maximum cells that are processed on the event loop, which takes about 10 ms."""

COMPARED = 100
"""The number of cells that take as long to process as the comparison of one cell's outputs."""


async def run_off_loop_if_large(cells: int, work: Callable[[], T]) -> T:
    """Return the result of ``work``, which processes this number of cells; run it in a thread if large."""
    return work() if cells <= MANY else await asyncio.to_thread(work)


@dataclass(frozen=True, slots=True)
class UndoResult:
    """The result of an undo in one notebook.

    Attributes:
        notebook: The path.
        cells: The keys of the restored cells.
        left: Sentences about the changes that stay, with reasons.
        stayed: The known keys of the cells of these changes.
    """

    notebook: str
    cells: tuple[str, ...]
    left: tuple[str, ...]
    stayed: tuple[str, ...] = ()


async def plan_entries(
    document: NotebookDocument, entries: Sequence[JournalEntry], snapshot: Snapshot
) -> UndoPlan:
    """Return the plan to undo entries of a notebook; see `plan_undo`."""
    changes = [change for entry in entries for change in entry.changes]
    outputs = await read_compared(document, changes, snapshot)
    make = partial(plan_undo, entries, snapshot, outputs)
    # Comparing outputs takes time, too.
    return await run_off_loop_if_large(len(snapshot.cells) + COMPARED * len(outputs), make)


async def read_compared(
    document: NotebookDocument, changes: Sequence[Change], snapshot: Snapshot
) -> dict[str, tuple[Json, ...]]:
    """Return the outputs that an undo of changes compares (`compared_outputs`), by the cells' keys."""
    find = partial(compared_outputs, changes, snapshot)
    found: dict[str, tuple[Json, ...]] = {}
    for key in await run_off_loop_if_large(len(snapshot.cells), find):
        with suppress(CellNotFound):
            found[key] = await document.outputs(key)
    return found


async def undo_entries(
    workspace: Workspace,
    caller: Caller,
    entries: Sequence[JournalEntry],
    *,
    of: str = "",
    raises: bool = True,
) -> list[UndoResult]:
    """Undo journal entries, all or none in each notebook.

    If a notebook has an error, its changes stay, with the error as the reason.

    Args:
        workspace: The workspace.
        caller: The caller.
        entries: The entries, newest first, with the changes to undo (`JournalEntry.only`).
        of: The origin of the changes for the history, such as ``of a turn``.
        raises: Whether the error is raised if there is only one notebook.

    Raises:
        NothingToUndo: There is no change that can be undone.
        ToolError: The only notebook refused the operations.
    """
    by_path: defaultdict[str, list[JournalEntry]] = defaultdict(list)
    for entry in entries:
        if entry.changes:
            by_path[entry.path].append(entry)
    if not by_path and raises:
        raise NothingToUndo("There is no change that can be undone.")
    taken: list[UndoResult] = []
    for path, of_path in by_path.items():
        try:
            taken.append(await _undo_in_notebook(workspace, caller, path, of_path, of=of))
        except ToolError as error:
            if raises and len(by_path) == 1:
                raise
            reasons = () if isinstance(error, NothingToUndo) else (error.message,)
            taken.append(UndoResult(path, (), reasons))
    return taken


async def _undo_in_notebook(
    workspace: Workspace,
    caller: Caller,
    path: str,
    entries: list[JournalEntry],
    *,
    of: str,
) -> UndoResult:
    if not path.lower().endswith(".ipynb"):
        restored, kept = await editing.undo_file(workspace, caller, path, entries)
        return UndoResult(path, restored, kept)
    document = await workspace.store.open(path)
    snapshot = await document.read()
    undo = await plan_entries(document, entries, snapshot)
    if not undo.entries:
        return UndoResult(path, (), undo.left, undo.stayed)
    count = len(undo.entries)
    summary = f"undid {count} change{'' if count == 1 else 's'} {of}".rstrip()
    operations = anchored(snapshot, undo.operations)
    applied = await editing.undo(
        workspace,
        caller,
        document,
        operations,
        undo.entries,
        tool="undo",
        summary=summary,
    )
    changed = dict.fromkeys(change.cell for change in applied.changes)
    return UndoResult(path, tuple(changed), undo.left, undo.stayed)
