"""Net changes of several journal entries: each cell from before the first to after the last one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tk_ai_extension.model.cells import CellContent
from tk_ai_extension.model.diffs import DiffBudget, line_diff
from tk_ai_extension.model.operations import Action, Change
from tk_ai_extension.workspace.journal import JournalEntry

MAX_SOURCE = 400_000
"""Maximum length of a source, in characters; longer ones are left out."""


@dataclass(frozen=True, slots=True)
class NetChange:
    """What several changes did to one cell.

    Attributes:
        notebook: The path.
        cell: The cell's key.
        action: insert, replace, delete, move or outputs.
        index: Its index after the last change; before it, if it was deleted.
        cell_type: code, markdown or raw.
        before, after: The source before and after; empty where there was or is no cell.
        diff: The removed and added lines, as the event `cell_change` has them.
        truncated: Whether a source is too long: then these three are empty.
    """

    notebook: str
    cell: str
    action: Action
    index: int
    cell_type: str
    before: str
    after: str
    diff: str
    truncated: bool


def net_changes(entries: Sequence[JournalEntry]) -> list[NetChange]:
    """Return the net changes by cell, in the order of each cell's first change.

    A cell that was inserted and deleted again is left out, and so is one that is as it was.

    Args:
        entries: The entries, newest first, with their changes.
    """
    by_cell: dict[tuple[str, str], list[Change]] = {}
    for entry in reversed(entries):
        for change in entry.changes:
            by_cell.setdefault((entry.path, change.cell), []).append(change)
    budget = DiffBudget()
    found = (_net(path, changes, budget) for (path, _), changes in by_cell.items())
    return [each for each in found if each is not None]


def _net(path: str, changes: Sequence[Change], budget: DiffBudget) -> NetChange | None:
    last = changes[-1]
    # A move has the content, too, so that the first and the last change have the two sides.
    before, after = changes[0].before, last.after
    action = _action(before, after, is_moved=any(each.action == "move" for each in changes))
    content = after or before
    if action is None or content is None:
        return None
    old = "" if before is None else before.source
    new = "" if after is None else after.source
    truncated = max(len(old), len(new)) > MAX_SOURCE
    if truncated:
        old = new = ""
    return NetChange(
        path,
        last.cell,
        action,
        last.index,
        content.type,
        old,
        new,
        line_diff(old, new, budget),
        truncated,
    )


def _action(
    before: CellContent | None, after: CellContent | None, *, is_moved: bool
) -> Action | None:
    if before is None or after is None:
        if before is None and after is None:
            return None
        return "insert" if before is None else "delete"
    if (before.source, before.type) != (after.source, after.type):
        return "replace"
    if (before.outputs, before.execution_count) != (after.outputs, after.execution_count):
        return "outputs"
    if is_moved:
        return "move"
    return None if before == after else "replace"
