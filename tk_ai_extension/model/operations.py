"""Cell operations: what can be done to a notebook, as values.

A list of them is applied by `NotebookDocument.apply` all or none, each to the result of the one
before. Cells are named by the key (`model.cells.Cell.key`) that they have before the list, also
where it is ``cell-N`` and an operation of the list shifts the cell; a cell that the list inserts is
named by the id it was given. Indexes count in the result of the operations before. ``expect`` is
the hash of the source that the caller last saw; a mismatch stops the whole list with `Conflict`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tk_ai_extension.model.cells import CellContent, CellType, Json, Snapshot


@dataclass(frozen=True, slots=True)
class Insert:
    """A new cell at ``index`` (0 to the number of cells), or after or before the cell named.

    With none of the three it goes to the end. ``content.id`` is used where given and free,
    otherwise a fresh one is made (only in formats that have ids).
    """

    content: CellContent
    index: int | None = None
    after: str | None = None
    before: str | None = None


@dataclass(frozen=True, slots=True)
class Replace:
    """A new source, and a new type unless None. A code cell's outputs and count go unless kept."""

    cell: str
    source: str
    type: CellType | None = None
    keep_outputs: bool = False
    expect: str | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Removes a cell."""

    cell: str
    expect: str | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """Moves a cell so that ``to`` is the index that it has afterwards.

    With ``after`` it goes below the cell named, wherever that is by then.
    """

    cell: str
    to: int
    after: str | None = None


@dataclass(frozen=True, slots=True)
class SetOutputs:
    """Sets outputs and count of a code cell; both empty clears them."""

    cell: str
    outputs: tuple[Json, ...] = ()
    execution_count: int | None = None


Operation = Insert | Replace | Delete | Move | SetOutputs

Action = Literal["insert", "replace", "delete", "move", "outputs"]


@dataclass(frozen=True, slots=True)
class Change:
    """What one operation did, read back after the write.

    Attributes:
        action: Which operation.
        cell: The cell's key in the notebook afterwards (`Applied.snapshot`); for one that is gone,
            its key before.
        index: Its index after the operation (before it, for a delete).
        before: The cell as it was; None for an insert.
        after: The cell as it is; None for a delete.
        index_before: Its index before the operation; None for an insert.
        previous: The key of the cell before it, before the operation, for a delete and a move; None
            at the top, and where it is not known. Undo puts the cell after that one, wherever it is.
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
    """The result of a list of operations: the notebook afterwards, and each change in order."""

    snapshot: Snapshot
    changes: tuple[Change, ...]
