"""Write the cell-marked text back: a three-way merge, cell by cell.

The changes of the text against the revision that was read are applied to the current notebook. Changes
by others are kept. If both changed the same cell, the merge fails and nothing is changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tk_ai_extension.model.cell_marked_text import CellReference, ParsedCell, ParsedText
from tk_ai_extension.model.cell_operations import Delete, Insert, Move, Operation, Replace
from tk_ai_extension.model.cells import Cell, CellData, Snapshot
from tk_ai_extension.model.diffs import ChangedRange, differences, longest_increasing
from tk_ai_extension.model.errors import Conflict, InvalidArguments
from tk_ai_extension.model.index_ranges import parse_ranges
from tk_ai_extension.model.json_values import Json


def merge(base: Snapshot, current: Snapshot, parsed: ParsedText) -> list[Operation]:
    """Return the operations that apply the text's changes against ``base`` to ``current``.

    A cell that the text does not change stays as it is. A cell without a marker is deleted if the
    text contained it when it was read. A new cell is inserted after the previous cell of the text.
    Moves use as few cells as possible. Outputs are kept; such a cell has the state ``edited``. An
    unchanged text returns an empty list.

    Args:
        base: The notebook at the revision of the text's header.
        current: The current notebook.
        parsed: The text.

    Raises:
        Conflict: Both sides changed a cell; ``details["cells"]`` has both sources of each.
        InvalidArguments: An ``@id`` matches no cell or several cells of ``base``, or occurs twice.
    """
    entries = _resolve(base, parsed)
    viewed = _viewed(base, parsed)
    counterpart = _counterparts(base, current)
    conflicts: list[Json] = []
    replaced = _replacements(current, entries, counterpart, conflicts)
    named = {entry.base.key for entry in entries if entry.base is not None}
    left_out = [cell for index in viewed if (cell := base.cells[index]).key not in named]
    deleted = _deletions(current, left_out, counterpart, conflicts)
    if conflicts:
        names = ", ".join(str(cell["cell"]) for cell in conflicts)
        raise Conflict(
            f"Others changed cells that this text changes too: {names}. Nothing was written.",
            cells=conflicts,
        )
    order = _Order(base, current, {operation.cell for operation in deleted}, counterpart)
    order.begin(viewed)
    return [*replaced, *deleted, *order.arrange(entries)]


def _replacements(
    current: Snapshot,
    entries: Sequence[_Entry],
    counterpart: Mapping[str, Cell],
    conflicts: list[Json],
) -> list[Replace]:
    operations: list[Replace] = []
    for entry in entries:
        ours, was = entry.cell, entry.base
        if was is None or (ours.type, ours.source) == (was.type, was.source):
            continue
        theirs = counterpart.get(was.key)
        if theirs is None or _changed(was, theirs):
            if theirs is None or (ours.type, ours.source) != (theirs.type, theirs.source):
                conflicts.append(_conflict(current, was, theirs, ours.source))
            continue
        new_type = ours.type if ours.type != theirs.type else None
        operations.append(
            Replace(theirs.key, ours.source, new_type, keep_outputs=True, expect=theirs.hash)
        )
    return operations


def _deletions(
    current: Snapshot,
    left_out: Sequence[Cell],
    counterpart: Mapping[str, Cell],
    conflicts: list[Json],
) -> list[Delete]:
    operations: list[Delete] = []
    for was in left_out:
        theirs = counterpart.get(was.key)
        if theirs is None:
            continue
        if _changed(was, theirs):
            conflicts.append(_conflict(current, was, theirs, None))
        else:
            operations.append(Delete(theirs.key, expect=theirs.hash))
    return operations


def _changed(was: Cell, now: Cell) -> bool:
    return (was.type, was.source) != (now.type, now.source)


def _conflict(current: Snapshot, was: Cell, theirs: Cell | None, ours: str | None) -> Json:
    """Return a cell of a `Conflict` with its current source and the text's; None if it is missing."""
    return {
        "cell": theirs.key if theirs else was.key,
        "address": current.address(theirs) if theirs else None,
        "source": theirs.source if theirs else None,
        "yours": ours,
    }


# --- resolving markers


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    """A cell of the text, and the cell of the base that its marker refers to, or None."""

    cell: ParsedCell
    base: Cell | None = None


def _resolve(base: Snapshot, parsed: ParsedText) -> list[_Entry]:
    used: set[str] = set()
    entries: list[_Entry] = []
    for cell in parsed.cells:
        found = _named(base, cell.ref, cell.line) if cell.ref else None
        if found is not None and found.key in used:
            if cell.ref is not None and cell.ref.number is None:
                raise InvalidArguments(
                    f"Line {cell.line} repeats {cell.ref.text}.",
                    hint="Remove `@id` from the marker of a new cell.",
                )
            found = None  # A repeated `cell:N` is a new cell.
        if found is not None:
            used.add(found.key)
        entries.append(_Entry(cell, found))
    return entries


def _named(base: Snapshot, ref: CellReference, line: int) -> Cell | None:
    if ref.number is not None:
        return base.cells[ref.number] if ref.number < len(base.cells) else None
    assert ref.prefix is not None
    prefix, _, version = ref.prefix.partition(".")
    if (exact := base.get(prefix)) is not None:
        found = [exact]
    else:
        found = [cell for cell in base.cells if cell.key == cell.id and cell.key.startswith(prefix)]
    if len(found) != 1:
        problem = "no cell has" if not found else f"{len(found)} cells have"
        raise InvalidArguments(
            f"Line {line}: {problem} an id that begins with {ref.text}.",
            hint="Keep the markers unchanged. A new cell's marker has no `@id`.",
        )
    if version and not found[0].has_version(version):
        raise Conflict(
            f"Line {line}: the version of {ref.text} does not match the revision of the text.",
            cells=[_conflict(base, found[0], found[0], None)],
        )
    return found[0]


def _viewed(base: Snapshot, parsed: ParsedText) -> Sequence[int]:
    """Return the indices of the base's cells that the text contained when it was read."""
    if parsed.ranges is None:
        return range(len(base.cells))
    return parse_ranges(parsed.ranges, len(base.cells)) if parsed.ranges else ()


# --- matching cells


def _counterparts(base: Snapshot, current: Snapshot) -> Mapping[str, Cell]:
    """Return the current cell for each cell of the base, by its key there, without deleted cells.

    Cells are matched by id. Cells without an id are aligned by type and source; between two matching
    blocks of equal length they are matched in order.
    """
    if base.revision == current.revision:
        return dict(zip(base.keys, current.cells, strict=True))
    found: dict[str, Cell] = {}
    for cell in base.cells:
        now = current.get(cell.key) if cell.key == cell.id else None
        if now is not None and now.key == now.id:
            found[cell.key] = now
    before = [cell for cell in base.cells if cell.key != cell.id]
    after = [cell for cell in current.cells if cell.key != cell.id]
    end = ChangedRange(len(before), len(before), len(after), len(after))
    old, new = ([(cell.type, cell.hash) for cell in cells] for cells in (before, after))
    i = j = 0
    for each in (*differences(old, new), end):
        pairs = list(zip(before[i : each.i1], after[j : each.j1], strict=True))
        if each.i2 - each.i1 == each.j2 - each.j1:
            pairs += zip(before[each.i1 : each.i2], after[each.j1 : each.j2], strict=True)
        found.update((was.key, now) for was, now in pairs)
        i, j = each.i2, each.j2
    return found


# --- order


class _Order:
    """The order of the cells while moves and inserts are computed.

    A new or moved cell goes after the previous cell of the text. The first one goes before the next
    cell of the text that does not move, else to the start of the text's range.
    """

    def __init__(
        self,
        base: Snapshot,
        current: Snapshot,
        deleted: set[str],
        counterpart: Mapping[str, Cell],
    ) -> None:
        self._base = base
        self._now = {key: cell.key for key, cell in counterpart.items() if cell.key not in deleted}
        self._order: list[str | _Entry] = [
            cell.key for cell in current.cells if cell.key not in deleted
        ]
        self._start: str | None = None
        self._placed: str | _Entry | None = None
        self._staying: set[str] = set()

    def begin(self, viewed: Sequence[int]) -> None:
        """Set the start of the text's range: after the last cell before it that still exists."""
        first = viewed[0] if viewed else len(self._base.cells)
        before = reversed(self._base.keys[:first])
        self._start = next((self._now[key] for key in before if key in self._now), None)

    def arrange(self, entries: Sequence[_Entry]) -> list[Operation]:
        """Return the operations; each index refers to the result of the previous operations."""
        kept = [self._base.index(entry.base) for entry in entries if entry.base is not None]
        self._staying = {self._base.keys[index] for index in longest_increasing(kept)}
        operations: list[Operation] = []
        for number, entry in enumerate(entries):
            following = entries[number + 1 :]
            if entry.base is None:
                content = CellData(entry.cell.type, entry.cell.source)
                operations.append(Insert(content, index=self._put(entry, following)))
            elif (key := self._now.get(entry.base.key)) is None:
                continue
            elif entry.base.key in self._staying:
                self._placed = key
            else:
                before = self._order.index(key)
                del self._order[before]
                after = self._put(key, following)
                if after != before:
                    operations.append(Move(key, after))
        return operations

    def _put(self, item: str | _Entry, following: Sequence[_Entry]) -> int:
        if self._placed is not None:
            at = self._order.index(self._placed) + 1
        elif (anchor := self._first_staying(following)) is not None:
            at = self._order.index(anchor)
        else:
            at = self._order.index(self._start) + 1 if self._start is not None else 0
        self._order.insert(at, item)
        self._placed = item
        return at

    def _first_staying(self, following: Sequence[_Entry]) -> str | None:
        keys = (entry.base.key for entry in following if entry.base is not None)
        return next(
            (self._now[key] for key in keys if key in self._staying and key in self._now), None
        )
