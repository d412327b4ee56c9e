"""Undo journal entries, cell by cell, unless a cell was edited or ran since."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.cells import Snapshot
from tk_ai_extension.model.errors import CellNotFound, NothingToUndo, ToolError
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.large_notebooks import run_off_loop_if_large
from tk_ai_extension.model.operations import Change
from tk_ai_extension.notebooks.base import NotebookDocument
from tk_ai_extension.notebooks.transactions import anchored
from tk_ai_extension.workspace import editing, file_edits
from tk_ai_extension.workspace.journal import JournalEntry
from tk_ai_extension.workspace.undo_plan import UndoPlan, compared_outputs, plan_undo
from tk_ai_extension.workspace.workspace import Workspace

COMPARED = 100
"""The number of cells that take as long as to compare the outputs of one, for `run_off_loop_if_large`."""


@dataclass(frozen=True, slots=True)
class TakenBack:
    """The result of an undo in one notebook.

    Attributes:
        notebook: The path.
        cells: The keys of the restored cells.
        left: Sentences that say which changes stay, and why.
        stayed: The keys of the cells of these changes, as far as they are known.
    """

    notebook: str
    cells: tuple[str, ...]
    left: tuple[str, ...]
    stayed: tuple[str, ...] = ()


async def plan(
    document: NotebookDocument, entries: Sequence[JournalEntry], snapshot: Snapshot
) -> UndoPlan:
    """Return the plan to undo entries of a notebook; see `plan_undo`."""
    changes = [change for entry in entries for change in entry.changes]
    outputs = await read_compared(document, changes, snapshot)
    make = partial(plan_undo, entries, snapshot, outputs)
    # To compare outputs takes time, too.
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
) -> list[TakenBack]:
    """Undo journal entries, all or none in each notebook.

    An error of one notebook is the reason why its changes stay.

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
    taken: list[TakenBack] = []
    for path, of_path in by_path.items():
        try:
            taken.append(await _undo_in_notebook(workspace, caller, path, of_path, of=of))
        except ToolError as error:
            if raises and len(by_path) == 1:
                raise
            reasons = () if isinstance(error, NothingToUndo) else (error.message,)
            taken.append(TakenBack(path, (), reasons))
    return taken


async def _undo_in_notebook(
    workspace: Workspace,
    caller: Caller,
    path: str,
    entries: list[JournalEntry],
    *,
    of: str,
) -> TakenBack:
    if not path.lower().endswith(".ipynb"):
        restored, kept = await file_edits.undo(workspace, caller, path, entries)
        return TakenBack(path, restored, kept)
    document = await workspace.store.open(path)
    snapshot = await document.read()
    undo = await plan(document, entries, snapshot)
    if not undo.entries:
        return TakenBack(path, (), undo.left, undo.stayed)
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
    return TakenBack(path, tuple(changed), undo.left, undo.stayed)
