"""Operations on the cells of a notebook, as values.

`NotebookDocument.apply` applies a list of operations all or none, each to the result of the previous
one. A cell is named by the key (`model.cells.Cell.key`) that it has before the list, even if the key is
``cell-N`` and an earlier operation shifts the cell. A cell that the list inserts is named by its id.
An index refers to the result of the previous operations, in the notebook at the commit; a
negative one counts from the end. ``expect`` is the hash of the source that the
operation replaces or deletes: the one that the caller last read, or the result of an earlier operation of
the list. If it does not match, the whole list fails with `Conflict` (compare-and-set).

A cell without a unique id is known by its position only, and others may have inserted cells above it since.
So an operation that names such a cell needs the hash of its source in ``expect`` (`expecting` sets it).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from tk_ai_extension.model.cells import CellData, CellType, Snapshot, counted, source_hash
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.model.json_values import Json

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Insert:
    """Insert a cell at ``index`` (`insert_place`), or after or before the named cell.

    Without any of the three, the cell is appended. ``content.id`` is used if it is set and free;
    otherwise a new id is generated (only in formats that have ids). ``expect`` is the hash of the cell
    ``after`` or ``before``, needed and compared if that has no unique id. With ``restores``, the cell
    comes back with its id: if the id is taken, the whole list fails with `Conflict`.
    """

    content: CellData
    index: int | None = None
    after: str | None = None
    before: str | None = None
    expect: str | None = None
    restores: bool = False


@dataclass(frozen=True, slots=True)
class Replace:
    """Set the source, and the type unless None. Clear a code cell's outputs and count unless kept."""

    cell: str
    source: str
    type: CellType | None = None
    keep_outputs: bool = False
    expect: str | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a cell."""

    cell: str
    expect: str | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """Move a cell to the index ``to`` (`move_place`), counted after the move.

    With ``after``, move it below the cell with this id, wherever that cell is then. ``expect`` is needed
    and compared if the cell has no unique id.
    """

    cell: str
    to: int
    after: str | None = None
    expect: str | None = None


@dataclass(frozen=True, slots=True)
class SetOutputs:
    """Set the outputs and the count of a code cell; the defaults clear them.

    ``expect`` is needed and compared if the cell has no unique id. ``replaces`` has the outputs and the
    count that the operation replaces. If the cell has others, because it was run since, the whole
    list fails with `Conflict`. With ``code``, the hash of the code that made the outputs
    (`Snapshot.code_hashes`), it also fails if the notebook before the list has other code.
    """

    cell: str
    outputs: tuple[Json, ...] = ()
    execution_count: int | None = None
    expect: str | None = None
    replaces: tuple[tuple[Json, ...], int | None] | None = None
    code: str | None = None


Operation = Insert | Replace | Delete | Move | SetOutputs


def expecting(snapshot: Snapshot, operations: Iterable[Operation]) -> list[Operation]:
    """Return operations with the hash of each cell that they name and that has no unique id.

    Args:
        snapshot: The notebook for which the operations were planned.
        operations: The operations; an ``expect`` that is set stays.
    """
    found: list[Operation] = []
    left: dict[str, str] = {}  # The hash of each source that an earlier operation sets.
    for operation in operations:
        key = (
            operation.after or operation.before if isinstance(operation, Insert) else operation.cell
        )
        cell = snapshot.get(key or "")
        if cell is not None and cell.is_numbered and operation.expect is None:
            writes = isinstance(operation, Replace | Delete)
            expect = left.get(cell.key, cell.hash) if writes else cell.hash
            operation = replace(operation, expect=expect)  # noqa: PLW2901
        if isinstance(operation, Replace):
            left[operation.cell] = source_hash(operation.source)
        found.append(operation)
    return found


def insert_place(index: int, count: int, path: str) -> int:
    """Return the index, from 0, at which a new cell is inserted among ``count`` cells.

    A negative index counts from the end: -1 is after the last cell.

    Raises:
        InvalidArguments: It is out of range (0 to the number of cells).
    """
    at = index + count + 1 if index < 0 else index
    if not 0 <= at <= count:
        raise InvalidArguments(f"`index` {index} is out of range for {path}. Use 0 to {count}.")
    return at


def move_place(to: int, count: int, path: str) -> int:
    """Return the index, from 0, to which a cell is moved among ``count`` cells, itself included.

    A negative index counts from the end: -1 is the last cell.

    Raises:
        InvalidArguments: It is out of range.
    """
    at = to + count if to < 0 else to
    if not 0 <= at < count:
        raise InvalidArguments(f"`to` {to} is out of range: {path} has {counted(count)}.")
    return at


def mark(cell_id: str | None, source: str) -> str:
    """Return the mark that identifies a cell in another revision: its id, or the hash of its source."""
    return cell_id or source_hash(source)


Action = Literal["insert", "replace", "delete", "move", "outputs"]


@dataclass(frozen=True, slots=True)
class Change:
    """The change that an operation made, read back after the write.

    Attributes:
        action: The kind of operation.
        cell: The cell's key in the notebook afterwards, `AppliedOperations.snapshot`; for a deleted cell, its
            key before.
        index: Its index after the operation; for a delete, before it.
        before: The cell before the operation; None for an insert.
        after: The cell after the operation; None for a delete.
        index_before: Its index before the operation; None for an insert.
        previous: For a delete and a move, the key of the cell that was above it; None at the top or
            if unknown. Undo puts the cell below that one, wherever it is.
        neighbours: For a move, the marks (`mark`) of the cells above and below it afterwards, each None at
            an end of the notebook; None if unknown. Undo moves the cell only if it is next to one of them.
        witnesses: For a delete, the marks of some of the cells that stayed; None if unknown. Undo puts
            the cell only into a notebook that has one of them, or that was left without cells.
        outputs_kept: Whether the outputs and the count are the same before and after, if ``before`` or
            ``after`` was stored without its outputs; None if both have theirs.
    """

    action: Action
    cell: str
    index: int
    before: CellData | None = None
    after: CellData | None = None
    index_before: int | None = None
    previous: str | None = None
    neighbours: tuple[str | None, str | None] | None = None
    witnesses: tuple[str, ...] | None = None
    outputs_kept: bool | None = None

    @property
    def keeps_outputs(self) -> bool:
        """Whether the change kept the outputs and the count of an existing cell that had some."""
        if self.before is None or self.after is None or self.outputs_kept is not None:
            return bool(self.outputs_kept)
        before, after = self.before, self.after
        has_any = bool(before.outputs) or before.execution_count is not None
        return has_any and (before.execution_count, before.outputs) == (
            after.execution_count,
            after.outputs,
        )


@dataclass(frozen=True, slots=True)
class AppliedOperations:
    """The result of a list of operations: the notebook afterwards, and the changes in order."""

    snapshot: Snapshot
    changes: tuple[Change, ...]
