"""A notebook as a plain list of cells, changed by drafts alone: no file, no tab."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tk_ai_extension.model.cell_operations import Change, Operation, expecting
from tk_ai_extension.model.cells import Cell, CellData, Snapshot, cell_keys
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.output_changes import summarise
from tk_ai_extension.notebooks.computed_edit import ComputedEdit
from tk_ai_extension.workspace.journal import JournalEntry
from tk_ai_extension.workspace.undo import (
    UndoPlan,
    compared_outputs,
    inverse_operations,
    plan_undo,
)


class ListNotebook:
    """Applies lists of operations, and says what each did as every document does.

    Args:
        cells: What it starts with.
        ids: Whether its format has cell ids.
    """

    def __init__(self, cells: Sequence[CellData], *, ids: bool = True) -> None:
        self.cells = list(cells)
        self.ids = ids

    def snapshot(self) -> Snapshot:
        """The notebook as a document reads it."""
        keys = cell_keys([cell.id for cell in self.cells])
        return Snapshot(
            "n.ipynb",
            tuple(
                Cell(
                    key=key,
                    type=cell.type,
                    source=cell.source,
                    id=cell.id,
                    metadata=cell.metadata,
                    execution_count=cell.execution_count,
                    outputs=summarise(cell.outputs),
                )
                for key, cell in zip(keys, self.cells, strict=True)
            ),
            nbformat=(4, 5) if self.ids else (4, 4),
        )

    def compared(self, changes: Iterable[Change]) -> dict[str, tuple[Json, ...]]:
        """The outputs that an undo of changes compares, as they are read for it."""
        snapshot = self.snapshot()
        keys = compared_outputs(changes, snapshot)
        return {key: self.cells[snapshot.places[key]].outputs for key in keys}

    def inverse(self, changes: Sequence[Change]) -> tuple[list[Operation], list[str], list[Change]]:
        """The operations that undo changes, what stays, and what is undone."""
        return inverse_operations(changes, self.snapshot(), self.compared(changes))

    def plan(self, entries: Sequence[JournalEntry]) -> UndoPlan:
        """The plan to undo entries, the newest first."""
        changes = [change for one in entries for change in one.changes]
        return plan_undo(entries, self.snapshot(), self.compared(changes))

    def draft(self) -> ComputedEdit:
        """A draft of a list of operations, which is worked out one by one."""
        return ComputedEdit(self.snapshot(), self.cells.__getitem__)

    def take(self, draft: ComputedEdit) -> list[Change]:
        """Carries out what a draft says, and returns what each of its operations did."""
        self.cells = contents(self, draft)
        return draft.changes

    def apply(self, operations: Sequence[Operation]) -> list[Change]:
        """Applies a list of operations."""
        draft = self.draft()
        draft.apply(expecting(self.snapshot(), operations))
        return self.take(draft)


def contents(notebook: ListNotebook, draft: ComputedEdit) -> list[CellData]:
    """The cells as a draft of a notebook leaves them."""
    return [
        draft.contents[slot] if slot in draft.contents else notebook.cells[slot]
        for slot in draft.order
    ]


def names(notebook: ListNotebook, draft: ComputedEdit) -> list[str | None]:
    """What the next operation of a draft calls the cells, in order; None for a nameless new one."""
    keys = cell_keys([cell.id for cell in notebook.cells])
    return [draft.contents[slot].id if slot < 0 else keys[slot] for slot in draft.order]
