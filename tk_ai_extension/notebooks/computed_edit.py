"""Computed edits: the effect of operations, computed before anything is changed.

A `ComputedEdit` applies a list of operations to a snapshot and checks every expectation. The result
is the new order of the cells, the content of the changed ones, and the change of each operation. Every
backend applies these, so that operations mean the same in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress, count, pairwise
from operator import attrgetter, ne
from typing import Any

from tk_ai_extension.model.cell_operations import (
    Action,
    Change,
    Delete,
    Insert,
    Move,
    Operation,
    Replace,
    SetOutputs,
    expecting,
    insert_place,
    mark,
    move_place,
)
from tk_ai_extension.model.cells import Cell, CellData, Snapshot, cell_keys, source_hash
from tk_ai_extension.model.diffs import text_edits
from tk_ai_extension.model.errors import CellNotFound, Conflict, InvalidArguments, InvalidNotebook
from tk_ai_extension.model.json_values import Json, encodable
from tk_ai_extension.notebooks import notebook_json
from tk_ai_extension.notebooks.notebook_json import new_cell_id, same_outputs

_id = attrgetter("id")

MAX_WITNESSES = 8
"""Maximum cells that a deletion names so that undo recognises the notebook."""


class ComputedEdit:
    """The effect of a list of operations on a notebook.

    Args:
        snapshot: The current notebook.
        load: Returns the whole content of the cell at an index of the snapshot.

    Attributes:
        order: The cells' slots in their new order: an index of the snapshot, or a negative number.
        contents: The new content of each changed slot.
        changes: What each operation does, in order.
        slots: The slot of the cell of each change.
    """

    def __init__(self, snapshot: Snapshot, load: Callable[[int], CellData]) -> None:
        self.order = list(range(len(snapshot.cells)))
        self.contents: dict[int, CellData] = {}
        self.changes: list[Change] = []
        self.slots: list[int] = []
        self._snapshot = snapshot
        self._load = load
        self._inserted: dict[str, int] = {}
        self._inserts = 0
        self._conflicts: list[Json] = []
        # The end of the cells with code that must not change before the commit.
        self._code_end = 0

    @property
    def reorders(self) -> bool:
        """Whether it changes the set of cells, or their order."""
        return any(each.action in ("insert", "delete", "move") for each in self.changes)

    @property
    def runs(self) -> list[tuple[int, int]]:
        """The order as runs of consecutive slots: the first one, and the one after the last."""
        order = self.order
        is_first = map(ne, order, chain((None,), map((1).__add__, order)))
        edges = *compress(count(), is_first), len(order)
        return [(order[at], order[end - 1] + 1) for at, end in pairwise(edges)]

    @property
    def needs(self) -> list[int]:
        """The slots of the cells with code that made the outputs to set: it must be unchanged."""
        code = self._snapshot.cells[: self._code_end]
        return [slot for slot, cell in enumerate(code) if cell.type == "code"]

    def apply(self, operations: Sequence[Operation]) -> None:
        """Apply operations to the transaction.

        Raises:
            Conflict, CellNotFound, InvalidArguments, InvalidNotebook.
        """
        if self._snapshot.nbformat[0] != 4:
            raise InvalidNotebook(
                f"{self._snapshot.path} has the old nbformat {self._snapshot.nbformat[0]}, "
                "which can be read but not written.",
                hint="Convert it first: jupyter nbconvert --to notebook --nbformat 4 FILE.",
            )
        for operation in operations:
            match operation:
                case Insert():
                    self._insert(operation)
                case Replace():
                    self._replace(operation)
                case Delete():
                    self._delete(operation)
                case Move():
                    self._move(operation)
                case SetOutputs():
                    self._set_outputs(operation)
        if self._conflicts:
            names = ", ".join(f"@{cell['address']}" for cell in self._conflicts)
            raise Conflict(
                f"{self._snapshot.path}: {names} changed since you read it.", cells=self._conflicts
            )
        self._complete_changes()

    def _complete_changes(self) -> None:
        """Set the cells' keys after the commit, and the witnesses of deletions.

        The keys follow from the edit alone and not from a later read of the notebook, in which others
        may have moved cells.
        """
        if not self._snapshot.is_named and self.reorders:
            keys = dict(zip(self.order, cell_keys([*map(self._id, self.order)]), strict=True))
            self.changes = [
                replace(change, cell=keys.get(slot, change.cell))
                for slot, change in zip(self.slots, self.changes, strict=True)
            ]
        if any(change.action == "delete" for change in self.changes):
            witnesses = self._witnesses()
            self.changes = [
                replace(change, witnesses=witnesses) if change.action == "delete" else change
                for change in self.changes
            ]

    def _witnesses(self) -> tuple[str, ...]:
        """Return the marks of cells from all parts of the notebook; blank ones without an id have none."""
        slots = [slot for slot in self.order if self._id(slot) or self._source(slot).strip()]
        step = -(-len(slots) // MAX_WITNESSES) or 1
        return tuple(self._mark(slot) for slot in slots[::step])

    def _id(self, slot: int) -> str | None:
        """Return the stored id of a cell."""
        return self._snapshot.cells[slot].id if slot >= 0 else self.contents[slot].id

    def _source(self, slot: int) -> str:
        known = self.contents.get(slot)
        return self._snapshot.cells[slot].source if known is None else known.source

    # --- operations

    def _insert(self, operation: Insert) -> None:
        index = self._insert_at(operation)
        content = operation.content
        self._inserts += 1
        slot = -self._inserts
        cell_id = self._id_for(content, restores=operation.restores)
        code = content.type == "code"
        content = replace(
            content,
            id=cell_id,
            metadata=notebook_json.metadata_of({"metadata": dict(content.metadata)}),
            execution_count=content.execution_count if code else None,
            outputs=content.outputs if code else (),
        )
        self._inserted[cell_id or f"\0{slot}"] = slot
        self.order.insert(index, slot)
        self._record("insert", slot, index, after=content)

    def _insert_at(self, operation: Insert) -> int:
        given = [operation.index, operation.after, operation.before]
        if sum(place is not None for place in given) > 1:
            raise InvalidArguments("Give only one of index, after and before for a new cell.")
        if operation.after is not None:
            return self.order.index(self._named(operation.after, operation.expect)) + 1
        if operation.before is not None:
            return self.order.index(self._named(operation.before, operation.expect))
        if operation.index is None:
            return len(self.order)
        return insert_place(operation.index, len(self.order), self._snapshot.path)

    def _id_for(self, content: CellData, *, restores: bool) -> str | None:
        if not notebook_json.has_ids(self._snapshot.nbformat):
            return None
        if content.id and not self._is_taken(content.id):
            return content.id
        if restores and content.id:
            self._add_conflict(content.id, self._snapshot.get(content.id))
        while self._is_taken(fresh := new_cell_id()):
            pass
        return fresh

    def _is_taken(self, cell_id: str) -> bool:
        """Return whether a cell has this id; the id of a cell deleted by an earlier operation is free."""
        if (slot := self._inserted.get(cell_id)) is not None:
            return slot in self.order
        slot = self._snapshot.places.get(cell_id)
        if slot is not None and not self._snapshot.cells[slot].is_numbered:
            return slot in self.order
        return not self._snapshot.is_named and cell_id in map(_id, self._snapshot.cells)

    def _replace(self, operation: Replace) -> None:
        slot, before = self._expected(operation.cell, operation.expect)
        after = notebook_json.retyped(before, operation.type or before.type)
        after = replace(after, source=operation.source)
        if not operation.keep_outputs:
            after = replace(after, outputs=(), execution_count=None)
        index = self.order.index(slot)
        self._record("replace", slot, index, before, after, index_before=index)

    def _delete(self, operation: Delete) -> None:
        slot, before = self._expected(operation.cell, operation.expect)
        index = self.order.index(slot)
        previous = self._previous(index)
        del self.order[index]
        self._record("delete", slot, index, before, index_before=index, previous=previous)

    def _move(self, operation: Move) -> None:
        slot = self._named(operation.cell, operation.expect)
        below = None if operation.after is None else self._named(operation.after, None)
        to = 0
        if below is None:
            to = move_place(operation.to, len(self.order), self._snapshot.path)
        index = self.order.index(slot)
        previous = self._previous(index)
        del self.order[index]
        if below is not None:
            to = self.order.index(below) + 1
        self.order.insert(to, slot)
        content = self._content(slot)
        beside = self._mark_at(to - 1), self._mark_at(to + 1)
        self._record(
            "move",
            slot,
            to,
            content,
            content,
            index_before=index,
            previous=previous,
            neighbours=beside,
        )

    def _set_outputs(self, operation: SetOutputs) -> None:
        slot = self._named(operation.cell, operation.expect)
        before = self._content(slot)
        if before.type != "code":
            raise InvalidArguments(
                f"`{operation.cell}` is a {before.type} cell and has no outputs."
            )
        if operation.replaces is not None:
            outputs, count = operation.replaces
            if count != before.execution_count or not same_outputs(outputs, before.outputs):
                self._add_conflict(operation.cell, self._snapshot.cells[slot])
        if operation.code is not None:
            self._need_code(operation.cell, slot, operation.code)
        after = replace(
            before, outputs=operation.outputs, execution_count=operation.execution_count
        )
        index = self.order.index(slot)
        self._record("outputs", slot, index, before, after, index_before=index)

    def _need_code(self, key: str, slot: int, code: str) -> None:
        """Compare the code that made a cell's outputs; a difference is a conflict."""
        last = self._snapshot.code_hashes.get(code)
        if last is None:
            self._add_conflict(key, self._snapshot.cells[slot])
        else:
            self._code_end = max(self._code_end, self._snapshot.index(last) + 1)

    # --- cells

    def _record(
        self,
        action: Action,
        slot: int,
        index: int,
        before: CellData | None = None,
        after: CellData | None = None,
        **more: Any,
    ) -> None:
        if after is not None and action != "move":
            self.contents[slot] = after
        key = self._key(slot) or f"cell-{index}"
        self.changes.append(Change(action, key, index, before, after, **more))
        self.slots.append(slot)

    def _slot(self, key: str) -> int:
        slot = self._snapshot.places.get(key)
        if slot is None or slot not in self.order:
            slot = self._inserted.get(key)
        if slot is None or slot not in self.order:
            is_old = key in self._snapshot.places
            gone = "was deleted by an earlier operation" if is_old else "does not exist"
            raise CellNotFound(f"The cell `{key}` in {self._snapshot.path} {gone}.")
        return slot

    def _key(self, slot: int) -> str | None:
        """Return a cell's key in operations; None for a new one without an id."""
        return self._snapshot.cells[slot].key if slot >= 0 else self.contents[slot].id

    def _previous(self, index: int) -> str | None:
        """Return the key of the cell above the one at an index."""
        return self._key(self.order[index - 1]) if index else None

    def _mark_at(self, index: int) -> str | None:
        """Return the mark of the cell at an index; None beyond the ends."""
        return self._mark(self.order[index]) if 0 <= index < len(self.order) else None

    def _mark(self, slot: int) -> str:
        return mark(self._id(slot), self._source(slot))

    def _content(self, slot: int) -> CellData:
        return self.contents[slot] if slot in self.contents else self._load(slot)

    def _named(self, key: str, expect: str | None) -> int:
        """Return a cell's slot; for one without a unique id, check the hash of its original source."""
        slot = self._slot(key)
        if slot >= 0 and self._snapshot.cells[slot].is_numbered:
            self._compare(key, slot, expect, self._snapshot.cells[slot].hash)
        return slot

    def _expected(self, key: str, expect: str | None) -> tuple[int, CellData]:
        """Return a cell after the preceding operations; check the hash of its source."""
        slot = self._slot(key)
        content = self._content(slot)
        self._compare(key, slot, expect, source_hash(content.source))
        return slot, content

    def _compare(self, key: str, slot: int, expect: str | None, found: str) -> None:
        """Compare the hash of a cell with the expected one; record a conflict with others' changes.

        Raises:
            InvalidArguments: A preceding operation changed the expected source, or the cell has no unique
                id and no hash is expected: it may be another cell.
        """
        cell = self._snapshot.cells[slot] if slot >= 0 else None
        if expect is None and cell is not None and cell.is_numbered:
            raise InvalidArguments(
                f"`{key}` in {self._snapshot.path} has no id: give the hash of its source."
            )
        if expect in (None, found):
            return
        if cell is None or expect == cell.hash:
            raise InvalidArguments(
                f"An earlier operation changes the source of `{key}` in {self._snapshot.path}.",
                hint="Give the hash of the source that it leaves.",
            )
        self._add_conflict(key, cell)

    def _add_conflict(self, key: str, cell: Cell | None) -> None:
        address = key if cell is None else self._snapshot.address(cell)
        source = None if cell is None else cell.source
        self._conflicts.append({"cell": key, "address": address, "source": source})


@dataclass(frozen=True, slots=True)
class LoadedNotebook:
    """A notebook at one revision, loaded from the place where it is.

    Attributes:
        snapshot: Its cells without outputs.
        content: Loads the whole cell at an index.
        raw: Loads the whole notebook as JSON.
        as_lines: Whether its texts are stored as lists of lines.
    """

    snapshot: Snapshot
    content: Callable[[int], CellData]
    raw: Callable[[], Json]
    as_lines: bool = False

    def edited(self, operations: Sequence[Operation]) -> ComputedEdit:
        """Return the edit transaction of operations on it.

        Raises:
            Conflict, CellNotFound, InvalidArguments, InvalidNotebook.
        """
        edit = ComputedEdit(self.snapshot, self.content)
        edit.apply(operations)
        return edit


def anchored(snapshot: Snapshot, operations: Sequence[Operation]) -> list[Operation]:
    """Return operations with positions relative to other cells instead of indexes of the snapshot.

    Others may insert, move and delete cells between the planning of operations and their commit. An
    index may then mean another position; below the same cell is the intended one. A cell at the top
    stays at index 0. If the format has no ids, cells are known only by their indexes: the positions stay,
    and the operations get the hashes of the cells (`expecting`).

    Args:
        snapshot: The notebook for which the operations were planned.
        operations: In order, each index counted in the result of those before it.

    Raises:
        InvalidArguments: An index is out of range.
    """
    if not notebook_json.has_ids(snapshot.nbformat):
        return expecting(snapshot, operations)
    order = [cell.key for cell in snapshot.cells]
    # A cell without a unique id is also addressed by its index.
    named = {cell.key for cell in snapshot.cells if cell.key == cell.id}
    found: list[Operation] = []
    for operation in operations:
        match operation:
            case Insert(content, index=int(index)):
                index = insert_place(index, len(order), snapshot.path)
                key = content.id if content.id and content.id not in order else None
                key = key or _id_of(f"{snapshot.revision} {len(found)} {content.source}", order)
                order.insert(index, key)
                named.add(key)
                operation = replace(operation, content=replace(content, id=key))  # noqa: PLW2901
                if index and order[index - 1] in named:
                    operation = replace(operation, index=None, after=order[index - 1])  # noqa: PLW2901
                found.append(operation)
            case Move(cell, to):
                to = move_place(to, len(order), snapshot.path)
                order.remove(cell)
                order.insert(to, cell)
                below = order[to - 1] if to else None
                found.append(replace(operation, after=below if below in named else None))
            case Delete(cell):
                order.remove(cell)
                found.append(operation)
            case _:
                found.append(operation)
    return expecting(snapshot, found)


def _id_of(seed: str, taken: Sequence[str]) -> str:
    """Return a deterministic id for a new cell, so that an approval of the plan stays valid."""
    cell_id = f"c{source_hash(seed)[:7]}"
    return cell_id if cell_id not in taken else _id_of(f"{seed}+", taken)


def step(change: Change, cell_id: str) -> Json:
    """Return a change as the step that a tab applies (`src/tabs/protocol.ts`)."""
    before, after = change.before, change.after
    if after is None:
        return {"do": "delete", "id": cell_id}
    if change.action == "move":
        return {"do": "move", "id": cell_id, "to": change.index}
    if before is None:
        return {"do": "insert", "index": change.index, "cell": _stored(after, cell_id)}
    if after.type != before.type:
        # JupyterLab creates a cell's widget once, for its type at that time.
        return {"do": "replace", "id": cell_id, "cell": _stored(after, cell_id)}
    found: Json = {"do": "set", "id": cell_id}
    if after.source != before.source:
        found["source"] = _edits(before.source, encodable(after.source))
    if after.type == "code":
        if after.outputs != before.outputs:
            found["outputs"] = encodable(list(after.outputs))
        if after.execution_count != before.execution_count:
            found["execution_count"] = after.execution_count
    return found


def inverse(change: Change) -> Change:
    """Return the change that reverts a change."""
    back = replace(change, before=change.after, after=change.before)
    match change.action:
        case "insert":
            return replace(back, action="delete")
        case "delete":
            return replace(back, action="insert")
        case "move":
            return replace(back, index=change.index_before or 0)
        case _:
            return back


def _stored(content: CellData, cell_id: str) -> Json:
    return encodable({**notebook_json.stored_cell(content, as_lines=False), "id": cell_id})


def _edits(old: str, new: str) -> list[Json]:
    """Return minimal edits of a source, last one first, with indexes in UTF-16 code units."""
    found: list[Json] = []
    for edit in reversed(text_edits(old, new)):
        start = utf16(old[: edit.start])
        end = start + utf16(old[edit.start : edit.end])
        found.append({"start": start, "end": end, "text": edit.new})
    return found


def utf16(text: str) -> int:
    """Return the length of a text in UTF-16 code units, as JavaScript counts it.

    >>> utf16("a"), utf16("😀")
    (1, 2)
    """
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
