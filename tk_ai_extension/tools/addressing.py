"""Resolve arguments that select several cells, or the place of a new cell."""

from __future__ import annotations

from collections.abc import Sequence

from tk_ai_extension.model.cells import Cell, CellContent, Snapshot
from tk_ai_extension.model.errors import CellNotFound, InvalidArguments
from tk_ai_extension.model.operations import Insert
from tk_ai_extension.model.ranges import parse_span, parts_of


def select(snapshot: Snapshot, ranges: str) -> list[Cell]:
    """Return the cells that ``0-3,7,@318a,-1`` selects, in notebook order, without duplicates.

    Args:
        snapshot: The notebook.
        ranges: Cell addresses and spans of indices (`model.ranges`), separated by commas.

    Raises:
        InvalidArguments: A part is empty or ambiguous.
        CellNotFound: A part selects no cell.
        Conflict: A versioned address is not that of the cell's source.
    """
    chosen: dict[int, Cell] = {}
    for part in parts_of(ranges):
        for cell in _part(snapshot, part):
            chosen[cell.index] = cell
    return [chosen[index] for index in sorted(chosen)]


def _part(snapshot: Snapshot, part: str) -> Sequence[Cell]:
    span = None if part in snapshot.by_key else parse_span(part)
    if span is None or span.is_single:
        return [snapshot.cell(part)]
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
    """Return the operation that inserts a cell at one of three positions, or at the end.

    An index stays as it is given: the commit resolves it in the notebook that it finds.

    Raises:
        InvalidArguments: More than one position is given.
        CellNotFound: ``after`` or ``before`` names no cell.
        Conflict: It is a versioned address, and not that of the cell's source.
    """
    if sum(position is not None for position in (index, after, before)) > 1:
        raise InvalidArguments("Give only one of `index`, `after` and `before`.")
    if after is not None:
        return Insert(content, after=snapshot.cell(after).key)
    if before is not None:
        return Insert(content, before=snapshot.cell(before).key)
    return Insert(content, index=index)
