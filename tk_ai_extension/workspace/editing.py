"""Changing a notebook for a caller: what they must have seen, the journal, and what came of it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.cells import Cell, CellContent, CellType, Snapshot, source_hash
from tk_ai_extension.model.errors import Conflict, InvalidArguments, OutcomeUnknown, ToolError
from tk_ai_extension.model.operations import Change, Insert, Operation, Replace
from tk_ai_extension.notebooks.base import NotebookDocument
from tk_ai_extension.notebooks.cellforms import empty_notebook
from tk_ai_extension.workspace.workspace import Workspace

WITHOUT_KEY = (
    "Nothing was changed. Your calls have no session, so nothing counts as seen: decide on the "
    "present source, then name the cell by the versioned address given here."
)
"""The hint of a Conflict for a caller without a key."""


@dataclass(frozen=True, slots=True)
class Journalled:
    """What a list of operations did, and the journal's number for it."""

    snapshot: Snapshot
    changes: tuple[Change, ...]
    entry: int

    @property
    def written(self) -> tuple[Cell, ...]:
        """The cells that were inserted or replaced, as they were committed, in the notebook's order.

        Their sources are those of the commit: the snapshot may show what others did since.
        """
        contents: dict[str, tuple[int, CellContent]] = {}
        for change in self.changes:
            if change.action in ("insert", "replace") and change.after is not None:
                contents[change.cell] = change.index, change.after
            elif change.action == "delete":
                contents.pop(change.cell, None)
        now = self.snapshot.by_key
        cells = [
            Cell(now[key].index if key in now else index, key, after.type, after.source, after.id)
            for key, (index, after) in contents.items()
        ]
        return tuple(sorted(cells, key=lambda cell: cell.index))


def expected(
    workspace: Workspace, caller: Caller, snapshot: Snapshot, cell: Cell, version: str | None
) -> str:
    """The source hash that a write to this cell must find, from what the caller has seen of it.

    Raises:
        Conflict: the version does not match, or the caller has not seen the present source. The
            present source is in the error, and counts as seen from then on.
    """
    if version is not None:
        if cell.hash.startswith(version):
            return cell.hash
        raise unseen(workspace, caller, snapshot, [cell], "has changed since that version of it")
    seen = workspace.seen.expectation(caller, snapshot.path, cell.key)
    if seen is None:
        raise unseen(workspace, caller, snapshot, [cell], "has not been read yet")
    if seen != cell.hash:
        raise unseen(workspace, caller, snapshot, [cell], "has changed since you read it")
    return seen


def unseen(
    workspace: Workspace, caller: Caller, snapshot: Snapshot, cells: Sequence[Cell], why: str
) -> Conflict:
    """The Conflict that shows the present source of these cells, and marks it as seen."""
    mark_seen(workspace, caller, snapshot, cells)
    names = ", ".join(f"@{snapshot.short_keys[cell.key]}" for cell in cells)
    return Conflict(
        f"Cell {names} of {snapshot.path} {why}.",
        hint=None if caller.key else WITHOUT_KEY,
        cells=[
            {"cell": cell.key, "address": snapshot.address(cell), "source": cell.source}
            for cell in cells
        ],
    )


def mark_seen(
    workspace: Workspace, caller: Caller, snapshot: Snapshot, cells: Sequence[Cell]
) -> None:
    """Notes that the caller has been shown the whole source of these cells."""
    workspace.seen.mark_cells(caller, snapshot.path, cells)


def mark_shown(workspace: Workspace, caller: Caller, path: str, conflict: Conflict) -> None:
    """Mark the sources that a Conflict shows as seen, whatever the notebook holds by now."""
    for cell in conflict.details.get("cells", ()):
        if cell["source"] is not None:  # None where others deleted it
            workspace.seen.mark(caller, path, cell["cell"], source_hash(cell["source"]))


async def apply(
    workspace: Workspace,
    caller: Caller,
    document: NotebookDocument,
    operations: Sequence[Operation],
    *,
    tool: str,
    summary: str = "",
    kind: Literal["change", "undo"] = "change",
    turn: str | None = None,
) -> Journalled:
    """Applies operations with an intent row before and the outcome after; own writes count as seen.

    Args:
        workspace: Where the journal and what was seen are.
        caller: Who changes it.
        document: What is changed.
        operations: In order; none is fine, and leaves no trace.
        tool: By which tool.
        summary: What history says of it, where that is not just what the operations did.
        kind: Whether it takes back what was done before.
        turn: The chat's turn, where it belongs to one.

    Raises:
        Conflict: with the present source, which counts as seen.
        ToolError: whatever the document refuses; nothing was changed.
    """
    check_sources(workspace, operations)
    if not operations:
        return Journalled(await document.read(), (), 0)
    intent = summary or f"{tool}: {len(operations)} operations"
    entry = await workspace.journal.intend(
        caller, document.path, tool, intent, kind=kind, turn=turn
    )
    try:
        applied = await document.apply(operations)
    except OutcomeUnknown as error:
        # The intent stays as it is until somebody finds out.
        error.settle = partial(_settled, workspace, entry, summary)
        raise
    except ToolError as error:
        await workspace.journal.failed(entry, error.message)
        if isinstance(error, Conflict):
            mark_shown(workspace, caller, document.path, error)
        raise
    # What else stops it here (a cancelled call) leaves the intent as it is: the outcome is unknown.
    await _done(workspace, caller, entry, applied.changes, summary or describe(applied.changes))
    journalled = Journalled(applied.snapshot, applied.changes, entry)
    if kind == "change":
        _tell(workspace, caller, document.path, "changed", journalled)
    mark_seen(workspace, caller, applied.snapshot, journalled.written)
    workspace.revisions.remember(applied.snapshot)
    return journalled


async def _settled(
    workspace: Workspace, entry: int, summary: str, changes: Sequence[Change] | None
) -> None:
    """Journals what came of a change whose outcome was not known when it was answered."""
    if changes is None:
        await workspace.journal.failed(entry, "The tab was lost before it was changed.")
    else:
        await workspace.journal.done(entry, changes, summary or describe(changes))


async def create(
    workspace: Workspace,
    caller: Caller,
    path: str,
    cells: Sequence[tuple[CellType, str]] = (),
    *,
    tool: str,
    kernelspec: dict[str, str] | None = None,
) -> Journalled:
    """Makes a notebook with these cells, all at once; they count as seen, and can be taken back.

    Without cells it has an empty one, as JupyterLab makes it and as a room adds it in any case.

    Raises:
        NotebookExists, ToolError: whatever the store refuses; nothing was made.
        InvalidArguments: a source that no cell may have.
    """
    for _, source in cells:
        check_source(workspace, source)
    said = f"created {path}"
    entry = await workspace.journal.intend(caller, path, tool, said)
    stored = empty_notebook(cells or [("code", "")], kernelspec=kernelspec)
    try:
        document = await workspace.store.create(path, stored)
    except ToolError as error:
        await workspace.journal.failed(entry, error.message)
        raise
    snapshot = await document.read()
    changes = tuple(
        Change("insert", cell.key, cell.index, after=CellContent(cell.type, cell.source, cell.id))
        for cell in snapshot.cells
    )
    await _done(workspace, caller, entry, changes, said)
    mark_seen(workspace, caller, snapshot, snapshot.cells)
    workspace.revisions.remember(snapshot)
    return Journalled(snapshot, changes, entry)


async def taken_back(
    workspace: Workspace,
    caller: Caller,
    path: str,
    undo: Journalled,
    entries: Sequence[int],
    *,
    left: Mapping[int, Sequence[Change]] | None = None,
) -> None:
    """Writes down what an undo took back, and then tells those who look at the notebook.

    Args:
        workspace: Where the journal is.
        caller: Who took it back.
        path: The notebook.
        undo: What the undo did.
        entries: The entries that came back.
        left: Of entries that came back in part, the changes that still stand.
    """
    await workspace.journal.undone(entries, by=undo.entry)
    await workspace.journal.partly_undone(left or {})
    _tell(workspace, caller, path, "taken_back", undo)


def _tell(
    workspace: Workspace,
    caller: Caller,
    path: str,
    kind: Literal["changed", "taken_back"],
    done: Journalled,
) -> None:
    cells = (change.cell for change in done.changes)
    workspace.activity.tell(path, caller, kind, cells, entry=done.entry)


async def _done(
    workspace: Workspace, caller: Caller, entry: int, changes: Sequence[Change], summary: str
) -> None:
    """Journals a change that was made; where that fails the caller is told, the change stands."""
    try:
        await workspace.journal.done(entry, changes, summary)
    except ToolError as error:
        workspace.notices.add(caller, f"{error.message} {error.hint}")


_SURROGATE = re.compile("[\ud800-\udfff]")

_DONE = {
    "insert": "inserted",
    "replace": "changed",
    "delete": "deleted",
    "move": "moved",
    "outputs": "cleared",
}


def describe(changes: Sequence[Change]) -> str:
    """What changes did, in a few words: ``inserted @318a, changed @77b0 and 3 more``."""
    said = [f"{_DONE[change.action]} @{change.cell}" for change in changes[:4]]
    more = f" and {len(changes) - 4} more" if len(changes) > 4 else ""
    return ", ".join(said) + more


def check_sources(workspace: Workspace, operations: Sequence[Operation]) -> None:
    """Refuses what no cell may hold.

    Raises:
        InvalidArguments: a source that is too long, or has a character that cannot be stored.
    """
    for operation in operations:
        match operation:
            case Insert(content):
                check_source(workspace, content.source)
            case Replace(source=source):
                check_source(workspace, source)
            case _:
                pass


def check_source(workspace: Workspace, source: str) -> None:
    """Refuses a source that no cell may hold; see `check_sources`."""
    limit = workspace.limits.max_source
    if len(source) > limit:
        raise InvalidArguments(
            f"The source has {len(source):,} characters; a cell may have {limit:,}.",
            hint="Put data in a file and read it from there.",
        )
    if _SURROGATE.search(source):
        raise InvalidArguments(
            "The source has half a surrogate pair.", hint="Remove it; it is no character."
        )
    if "\0" in source:
        raise InvalidArguments(
            "The source has a NUL character.", hint="Remove it; notebooks cannot hold it."
        )


def line_diff(before: str, after: str) -> str:
    """A unified diff of two sources with one line of context, without file names."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)
    # The names of the files come first; a line of the source may begin like one.
    return "\n".join([*lines][2:])
