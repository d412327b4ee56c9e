"""Undo journal entries, cell by cell, unless a cell was edited since."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import NothingToUndo
from tk_ai_extension.model.large_notebooks import run_off_loop_if_large
from tk_ai_extension.model.operations import Change
from tk_ai_extension.model.sentences import Sentence
from tk_ai_extension.notebooks.transactions import anchored
from tk_ai_extension.workspace import editing, file_edits
from tk_ai_extension.workspace.journal import JournalEntry
from tk_ai_extension.workspace.undo_plan import plan_undo
from tk_ai_extension.workspace.workspace import Workspace


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


async def undo_entries(
    workspace: Workspace,
    caller: Caller,
    entries: Sequence[JournalEntry],
    *,
    cells: Collection[str] | None = None,
    of: str = "",
) -> list[TakenBack]:
    """Undo journal entries, all or none in each notebook.

    Args:
        workspace: The workspace.
        caller: The caller.
        entries: The entries, newest first, with their changes.
        cells: Undo only the changes of these cells, by key; None for all.
        of: The origin of the changes for the history, such as ``of a turn``.

    Raises:
        NothingToUndo: There is no change that can be undone.
        ToolError: A notebook refused the operations.
    """
    by_path: defaultdict[str, list[JournalEntry]] = defaultdict(list)
    others: dict[int, list[Change]] = {}
    for entry in entries:
        changes = tuple(change for change in entry.changes if cells is None or change.cell in cells)
        if changes:
            by_path[entry.path].append(replace(entry, changes=changes))
        if cells is not None and len(changes) < len(entry.changes):
            others[entry.id] = [each for each in entry.changes if each.cell not in cells]
    if not by_path:
        raise NothingToUndo(Sentence("nothing_to_undo"))
    return [
        await _undo_in_notebook(workspace, caller, path, of_path, others=others, of=of)
        for path, of_path in by_path.items()
    ]


async def _undo_in_notebook(
    workspace: Workspace,
    caller: Caller,
    path: str,
    entries: list[JournalEntry],
    *,
    others: Mapping[int, Sequence[Change]],
    of: str,
) -> TakenBack:
    if not path.lower().endswith(".ipynb"):
        restored, kept = await file_edits.undo(workspace, caller, path, entries)
        return TakenBack(path, restored, kept)
    document = await workspace.store.open(path)
    snapshot = await document.read()
    undo = await run_off_loop_if_large(len(snapshot.cells), partial(plan_undo, entries, snapshot))
    if not undo.operations:
        return TakenBack(path, (), undo.left, undo.stayed)
    count = len(undo.entries)
    summary = f"undid {count} change{'' if count == 1 else 's'} {of}".rstrip()
    operations = anchored(snapshot, undo.operations)
    # An entry that was undone in part stays open, so that its other cells can be undone later.
    whole = [one for one in undo.entries if one not in others]
    left = {one: others[one] for one in undo.entries if one in others}
    applied = await editing.undo(
        workspace, caller, document, operations, whole, tool="undo", summary=summary, left=left
    )
    changed = dict.fromkeys(change.cell for change in applied.changes)
    return TakenBack(path, tuple(changed), undo.left, undo.stayed)
