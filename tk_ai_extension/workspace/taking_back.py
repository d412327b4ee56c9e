"""Taking journalled changes back, cell by cell, where nobody has worked on since."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import NothingToUndo
from tk_ai_extension.model.many_cells import off_loop_if_many
from tk_ai_extension.model.operations import Change
from tk_ai_extension.model.sentences import Sentence
from tk_ai_extension.notebooks.transactions import anchored
from tk_ai_extension.workspace import editing
from tk_ai_extension.workspace.journal import JournalEntry
from tk_ai_extension.workspace.undo import plan
from tk_ai_extension.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class TakenBack:
    """What came of it in one notebook.

    Attributes:
        notebook: The path.
        cells: The keys of the cells that were given back what they were.
        left: Sentences about what stays, and why.
    """

    notebook: str
    cells: tuple[str, ...]
    left: tuple[str, ...]


async def take_back(
    workspace: Workspace,
    caller: Caller,
    entries: Sequence[JournalEntry],
    *,
    cells: Collection[str] | None = None,
    of: str = "",
) -> list[TakenBack]:
    """Takes changes back, in each notebook all or none.

    Args:
        workspace: Where the journal and the notebooks are.
        caller: Who takes them back.
        entries: The newest first, with their changes; those that came back whole are marked.
        cells: Only the changes of these cells, by their keys; None for all.
        of: What history says they belonged to: ``of a turn``.

    Raises:
        NothingToUndo: none of it changed anything that stands.
        ToolError: whatever a notebook refuses.
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
        raise NothingToUndo(Sentence("nothing_taken_back"))
    return [
        await _take_back(workspace, caller, path, of_path, others=others, of=of)
        for path, of_path in by_path.items()
    ]


async def _take_back(
    workspace: Workspace,
    caller: Caller,
    path: str,
    entries: list[JournalEntry],
    *,
    others: Mapping[int, Sequence[Change]],
    of: str,
) -> TakenBack:
    document = await workspace.store.open(path)
    snapshot = await document.read()
    undo = await off_loop_if_many(len(snapshot.cells), partial(plan, entries, snapshot))
    if not undo.operations:
        return TakenBack(path, (), undo.left)
    count = len(undo.entries)
    said = f"took back {count} change{'' if count == 1 else 's'} {of}".rstrip()
    operations = anchored(snapshot, undo.operations)
    applied = await editing.apply(
        workspace, caller, document, operations, tool="undo", summary=said, kind="undo"
    )
    # An entry of which only some cells came back stands: the others can still be taken back.
    whole = [one for one in undo.entries if one not in others]
    left = {one: others[one] for one in undo.entries if one in others}
    await editing.taken_back(workspace, caller, path, applied, whole, left=left)
    changed = dict.fromkeys(change.cell for change in applied.changes)
    return TakenBack(path, tuple(changed), undo.left)
