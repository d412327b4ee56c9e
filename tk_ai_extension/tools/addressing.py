"""Several cells in one argument, and the place of a new one."""

from __future__ import annotations

import re

from tk_ai_extension.model.cells import Cell, CellContent, Snapshot
from tk_ai_extension.model.errors import CellNotFound, InvalidArguments
from tk_ai_extension.model.operations import Insert

_SPAN = re.compile(r"(\d{1,9})?\s*(?:-|\.\.)\s*(\d{1,9})?\Z")


def select(snapshot: Snapshot, ranges: str) -> list[Cell]:
    """The cells that ``0-3,7,@318a,12-`` names, in the notebook's order, each once.

    A part is a cell's address, or two indices with ``-`` or ``..`` between; either may be left out.

    Raises:
        InvalidArguments: an empty part.
        CellNotFound: a part that names nothing.
    """
    chosen: dict[int, Cell] = {}
    for part in ranges.split(","):
        for cell in _part(snapshot, part.strip()):
            chosen[cell.index] = cell
    return [chosen[index] for index in sorted(chosen)]


def _part(snapshot: Snapshot, part: str) -> list[Cell]:
    if not part:
        raise InvalidArguments(
            "A range of cells is empty.", hint="Write ranges such as `0-3,7,@318a,12-`."
        )
    span = _SPAN.match(part)
    if span is None or part in snapshot.by_key or not (span[1] or span[2]):
        return [snapshot.find(part)[0]]
    first = int(span[1] or 0)
    last = int(span[2]) if span[2] else len(snapshot.cells) - 1
    if first > last or last >= len(snapshot.cells):
        raise CellNotFound(
            f"No cells `{part}` in {snapshot.path}, which has {len(snapshot.cells)}."
        )
    return list(snapshot.cells[first : last + 1])


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
        return Insert(content, index=at)
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
