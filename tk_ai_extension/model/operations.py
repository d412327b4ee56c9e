"""Operations on the cells of a notebook, as values.

`NotebookDocument.apply` applies a list of operations all or none, each to the result of the previous
one. A cell is named by the key (`model.cells.Cell.key`) that it has before the list, even if the key is
``cell-N`` and an earlier operation shifts the cell. A cell that the list inserts is named by its id.
An index refers to the result of the previous operations. ``expect`` is the hash of the source that the
caller last read: if it does not match, the whole list fails with `Conflict` (compare-and-set).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tk_ai_extension.model.cells import CellContent, CellType, Snapshot
from tk_ai_extension.model.json_values import Json


@dataclass(frozen=True, slots=True)
class Insert:
    """Insert a cell at ``index`` (0 to the number of cells), or after or before the named cell.

    Without any of the three, the cell is appended. ``content.id`` is used if it is set and free;
    otherwise a new id is generated (only in formats that have ids).
    """

    content: CellContent
    index: int | None = None
    after: str | None = None
    before: str | None = None


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
    """Move a cell to the index ``to``, counted after the move.

    With ``after``, move it below the named cell, wherever that cell is then.
    """

    cell: str
    to: int
    after: str | None = None


@dataclass(frozen=True, slots=True)
class SetOutputs:
    """Set the outputs and the count of a code cell; the defaults clear them."""

    cell: str
    outputs: tuple[Json, ...] = ()
    execution_count: int | None = None


Operation = Insert | Replace | Delete | Move | SetOutputs

Action = Literal["insert", "replace", "delete", "move", "outputs"]


@dataclass(frozen=True, slots=True)
class Change:
    """The change that an operation made, read back after the write.

    Attributes:
        action: The kind of operation.
        cell: The cell's key in the notebook afterwards (`Applied.snapshot`); for a deleted cell, its
            key before.
        index: Its index after the operation; for a delete, before it.
        before: The cell before the operation; None for an insert.
        after: The cell after the operation; None for a delete.
        index_before: Its index before the operation; None for an insert.
        previous: For a delete and a move, the key of the cell that was above it; None at the top or
            if unknown. Undo puts the cell below that one, wherever it is.
    """

    action: Action
    cell: str
    index: int
    before: CellContent | None = None
    after: CellContent | None = None
    index_before: int | None = None
    previous: str | None = None


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of a list of operations: the notebook afterwards, and the changes in order."""

    snapshot: Snapshot
    changes: tuple[Change, ...]
