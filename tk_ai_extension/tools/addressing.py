"""Several cells in one argument, and the place of a new one."""

from __future__ import annotations

from collections.abc import Sequence

from tk_ai_extension.model.cells import Cell, CellContent, Snapshot
from tk_ai_extension.model.errors import CellNotFound, InvalidArguments
from tk_ai_extension.model.operations import Insert
from tk_ai_extension.model.ranges import parse_span, parts_of


def select(snapshot: Snapshot, ranges: str) -> list[Cell]:
    """The cells that ``0-3,7,@318a,-1`` names, in the notebook's order, each once.

    A part is a cell's address, or a span of indices (`model.ranges`).

    Raises:
        InvalidArguments: a part that is empty or can be read in two ways.
        CellNotFound: a part that names nothing.
    """
    chosen: dict[int, Cell] = {}
    for part in parts_of(ranges):
        for cell in _part(snapshot, part):
            chosen[cell.index] = cell
    return [chosen[index] for index in sorted(chosen)]


def _part(snapshot: Snapshot, part: str) -> Sequence[Cell]:
    span = None if part in snapshot.by_key else parse_span(part)
    if span is None or span.is_single:
        return [snapshot.find(part)[0]]
    first, last = span.positions(len(snapshot.cells))
    if not 0 <= first <= last < len(snapshot.cells):
        raise CellNotFound(
            f"No cells `{part}` in {snapshot.path}, which has {len(snapshot.cells)}."
        )
    return snapshot.cells[first : last + 1]


def insertion(
    snapshot: Snapshot,
    content: CellContent,
    *,
    index: int | None,
    after: str | int | None,
    before: str | int | None,
) -> Insert:
    """The operation that inserts at one of the three places, or at the end.

    Raises:
        InvalidArguments: more than one place, or an index out of range (0 to the number of cells).
        CellNotFound.
    """
    if sum(place is not None for place in (index, after, before)) > 1:
        raise InvalidArguments("Give one of `index`, `after` and `before`.")
    if index is not None:
        count = len(snapshot.cells)
        at = index + count + 1 if index < 0 else index
        if not 0 <= at <= count:
            raise InvalidArguments(
                f"`index` {index} is out of range: {snapshot.path} takes 0 to {count}."
            )
        # The end is where it is when the cell is inserted.
        return Insert(content) if index == -1 else Insert(content, index=at)
    if after is not None:
        return Insert(content, after=snapshot.find(after)[0].key)
    if before is not None:
        return Insert(content, before=snapshot.find(before)[0].key)
    return Insert(content)


def position(snapshot: Snapshot, to: int) -> int:
    """The index that ``to`` means, which may count from the end.

    Raises:
        InvalidArguments: it is out of range.
    """
    count = len(snapshot.cells)
    at = to + count if to < 0 else to
    if not 0 <= at < count:
        raise InvalidArguments(f"`to` {to} is out of range: {snapshot.path} has {count} cells.")
    return at
