"""Edit a notebook or a text file for a caller, with optimistic concurrency and the journal."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.cell_operations import Action, Change, Insert, Operation, Replace
from tk_ai_extension.model.cells import Cell, CellData, CellType, Snapshot, source_hash
from tk_ai_extension.model.errors import Conflict, InvalidArguments, ToolError
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.notebooks.document import NotebookDocument
from tk_ai_extension.notebooks.notebook_json import empty_notebook
from tk_ai_extension.workspace.files import read_if_exists
from tk_ai_extension.workspace.journal import JournalEntry
from tk_ai_extension.workspace.workspace import Workspace

WITHOUT_KEY = (
    "Nothing was changed. Your connection has no session, so no cell counts as read. Review the current "
    "source below, then use its versioned address."
)
"""The hint of a Conflict for a caller without a key."""


@dataclass(frozen=True, slots=True)
class JournaledEdit:
    """The result of a list of operations, and the number of its journal entry."""

    snapshot: Snapshot
    changes: tuple[Change, ...]
    entry: int

    @property
    def written(self) -> tuple[Cell, ...]:
        """The inserted and replaced cells, in notebook order, with their sources as committed.

        The snapshot may already contain later changes of others.
        """
        places = self.snapshot.places
        changes = last_writes(self.changes)
        changes.sort(key=lambda change: places.get(change.cell, change.index))
        written = ((change.cell, change.after) for change in changes)
        return tuple(Cell(key, new.type, new.source, new.id) for key, new in written if new)


def last_writes(changes: Sequence[Change]) -> list[Change]:
    """Return the inserts and replaces of one commit that no later change in it replaces or deletes.

    Cells are tracked by position: a key ``cell-N`` may mean another cell after a change.
    """
    deleted = sum(change.action == "delete" for change in changes)
    last = max((max(change.index, change.index_before or 0) for change in changes), default=0)
    written: list[Change | None] = [None] * (last + 1 + deleted)
    for change in changes:
        match change.action:
            case "insert":
                written.insert(change.index, change)
            case "delete":
                del written[change.index]
            case "move":
                assert change.index_before is not None
                written.insert(change.index, written.pop(change.index_before))
            case "replace":
                written[change.index] = change
            case "outputs":
                pass
    return [*filter(None, written)]


def expected_hash(
    workspace: Workspace, caller: Caller, snapshot: Snapshot, cell: Cell, version: str | None
) -> str:
    """Return the source hash that a write to this cell must find (compare-and-set).

    Args:
        workspace: The workspace.
        caller: The caller, who must have read the current source.
        snapshot: The notebook.
        cell: The cell to write.
        version: The version of a versioned address, which replaces reading; None or empty for none.

    Raises:
        Conflict: The version does not match, or the caller has not read the current source. The
            error has the current source, which then counts as read.
    """
    if version:
        if cell.has_version(version):
            return cell.hash
        raise unread_conflict(workspace, caller, snapshot, [cell], "changed since that version")
    seen = workspace.by_path.at(snapshot.path).seen.expectation(caller, cell.key)
    if seen is None:
        raise unread_conflict(workspace, caller, snapshot, [cell], "has not been read yet")
    if seen != cell.hash:
        raise unread_conflict(workspace, caller, snapshot, [cell], "changed since you read it")
    return seen


def unread_conflict(
    workspace: Workspace, caller: Caller, snapshot: Snapshot, cells: Sequence[Cell], why: str
) -> Conflict:
    """Return a `Conflict` with the current sources of these cells, and mark them as read."""
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
    workspace: Workspace, caller: Caller, snapshot: Snapshot, cells: Iterable[Cell]
) -> None:
    """Record that the caller has read the whole source of these cells."""
    workspace.by_path.at(snapshot.path).seen.mark_cells(caller, cells)


def mark_shown(workspace: Workspace, caller: Caller, path: str, conflict: Conflict) -> None:
    """Record that the caller has read the sources in a `Conflict`."""
    seen = workspace.by_path.at(path).seen
    for cell in conflict.details.get("cells", ()):
        if cell["source"] is not None:  # None if others deleted the cell.
            seen.mark(caller, cell["cell"], source_hash(cell["source"]))


async def apply(
    workspace: Workspace,
    caller: Caller,
    document: NotebookDocument,
    operations: Sequence[Operation],
    *,
    tool: str,
    summary: str = "",
    undone: Mapping[int, Sequence[Change]] | None = None,
    turn: str | None = None,
    shown: bool = True,
    run: bool = False,
) -> JournaledEdit:
    """Apply operations and record them in the journal. Cells that are written count as read.

    A commit that has begun is completed and recorded even if the caller is cancelled: a change in the
    notebook that is not in the journal cannot be undone.

    Args:
        workspace: The workspace.
        caller: The caller.
        document: The notebook.
        operations: The operations, in order. An empty list changes and records nothing.
        tool: The tool's name.
        summary: The summary for the history; by default a description of the changes.
        undone: The changes that the operations undo, by the ids of their entries; None if they undo none.
        turn: The chat's turn; None for the caller's turn.
        shown: Whether the caller gets a Conflict as the result, so that its sources count as read.
        run: Whether the code that was written runs next, which is recorded with the edit.

    Raises:
        Conflict: A cell has changed. The error has its current source, which then counts as read
            if it is ``shown``.
        ToolError: The document refused the operations. Nothing was changed.
    """
    check_sources(workspace, operations)

    async def write(changes: Sequence[Change]) -> int:
        return await workspace.journal.record(
            caller,
            document.path,
            tool,
            summary or describe(changes),
            kind="change" if undone is None else "undo",
            turn=turn,
            changes=changes,
            undone=undone,
            run=f"runs {', '.join(f'@{each.cell}' for each in last_writes(changes))}"
            if run
            else "",
        )

    if not operations:
        # If the changes cancel out, nothing was undone.
        entry = await write(()) if undone else 0
        return JournaledEdit(await document.read(), (), entry)

    async def commit() -> JournaledEdit:
        await workspace.journal.open()
        applied = await document.apply(operations)
        entry = await record(workspace, caller, write(applied.changes))
        journalled = JournaledEdit(applied.snapshot, applied.changes, entry)
        cells = (change.cell for change in applied.changes)
        kind = "changed" if undone is None else "taken_back"
        notebook = workspace.by_path.at(document.path)
        workspace.activity.publish(notebook, caller, kind, cells, entry=entry)
        mark_seen(workspace, caller, applied.snapshot, journalled.written)
        return journalled

    try:
        return await workspace.commits.run(turn or caller.turn, commit())
    except Conflict as error:
        if shown:
            mark_shown(workspace, caller, document.path, error)
        raise


async def create(
    workspace: Workspace,
    caller: Caller,
    path: str,
    cells: Sequence[tuple[CellType, str]] = (),
    *,
    tool: str,
    kernelspec: dict[str, str] | None = None,
) -> JournaledEdit:
    """Create a notebook with these cells, which count as read. The insertion can be undone.

    Raises:
        NotebookExists: There is a notebook at that path.
        ToolError: The store refused the notebook. Nothing was created.
        InvalidArguments: A source is too long or has invalid characters.
    """
    for _, source in cells:
        check_source(workspace, source)
    summary = f"created {path}"
    stored = empty_notebook(cells, kernelspec=kernelspec)

    async def commit() -> JournaledEdit:
        document = await workspace.store.create(path, stored)
        made = _cells(stored)
        try:
            snapshot = await document.read()
            # A save hook may have changed a source. A tab may show other cells.
            made = [snapshot.get(cell.key) or cell for cell in made]
        finally:
            changes = tuple(_created(index, cell) for index, cell in enumerate(made))
            recording = workspace.journal.record(
                caller, path, tool, summary, kind="change", changes=changes
            )
            entry = await record(workspace, caller, recording)
        mark_seen(workspace, caller, snapshot, snapshot.cells)
        return JournaledEdit(snapshot, changes, entry)

    await workspace.journal.open()
    return await workspace.commits.run(caller.turn, commit())


def _cells(stored: Json) -> list[Cell]:
    cells: list[dict[str, Any]] = stored["cells"]
    return [
        Cell(cell["id"], cell["cell_type"], "".join(map(str, cell["source"])), cell["id"])
        for cell in cells
    ]


def _created(index: int, cell: Cell) -> Change:
    content = CellData(cell.type, cell.source, cell.id)
    return Change("insert", cell.key, index, after=content)


async def undo(
    workspace: Workspace,
    caller: Caller,
    document: NotebookDocument,
    operations: Sequence[Operation],
    entries: Mapping[int, Sequence[Change]],
    *,
    tool: str,
    summary: str,
    shown: bool = True,
) -> JournaledEdit:
    """Apply operations that undo journal entries, and record the undone changes.

    Of several concurrent undos of one entry, one is applied. An undo that has begun is completed even if its
    caller is cancelled.

    Args:
        workspace: The workspace.
        caller: The caller.
        document: The notebook.
        operations: The operations, in order.
        entries: The changes that the operations undo, by the ids of their entries. The entries' other
            changes can be undone later.
        tool: The tool's name.
        summary: The summary for the history.
        shown: See `apply`.

    Raises:
        Conflict: An entry has since been undone, or a cell has changed.
        ToolError: The document refused the operations. Nothing was changed.
    """

    async def claim_and_apply() -> JournaledEdit:
        journal = workspace.journal
        with journal.claim(entries) as is_free:
            if not (is_free and await journal.are_done(entries)):
                raise Conflict(
                    f"A change in {document.path} has since been undone.",
                    hint="Nothing was changed. See notebook_history, then try again.",
                )
            return await apply(
                workspace,
                caller,
                document,
                operations,
                tool=tool,
                summary=summary,
                undone=entries,
                shown=shown,
            )

    return await workspace.commits.run(caller.turn, claim_and_apply())


async def record(workspace: Workspace, caller: Caller, recording: Awaitable[int]) -> int:
    """Await the recording of a change in the journal; return the entry's number.

    If it fails, the caller gets a notice and the number is 0: the change itself has succeeded.
    """
    try:
        return await recording
    except ToolError as error:
        workspace.notices.add(caller, f"{error.message} {error.hint}")
        return 0


_SURROGATE = re.compile("[\ud800-\udfff]")

_DONE = {
    "insert": "inserted",
    "replace": "changed",
    "delete": "deleted",
    "move": "moved",
}


def describe(changes: Sequence[Change]) -> str:
    """Return a summary of changes, such as ``inserted @318a, changed @77b0 and 3 more``."""
    parts = [f"{_done(change)} @{change.cell}" for change in changes[:4]]
    more = f" and {len(changes) - 4} more" if len(changes) > 4 else ""
    return ", ".join(parts) + more


def _done(change: Change) -> str:
    if change.action != "outputs":
        return _DONE[change.action]
    after = change.after
    has_any = after is not None and (after.outputs or after.execution_count is not None)
    return "updated the outputs of" if has_any else "cleared"


def check_sources(workspace: Workspace, operations: Sequence[Operation]) -> None:
    """Check that the sources of operations can be stored.

    Raises:
        InvalidArguments: A source is too long or has invalid characters.
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
    """Check that a source can be stored; see `check_sources`."""
    limit = workspace.limits.max_source
    if len(source) > limit:
        raise InvalidArguments(
            f"The source has {len(source):,} characters; the limit is {limit:,}.",
            hint="Store data in a file and read the file in code.",
        )
    if _SURROGATE.search(source):
        raise InvalidArguments(
            "The source contains a lone surrogate, which is not a character.", hint="Remove it."
        )
    if "\0" in source:
        raise InvalidArguments("The source contains a NUL character.", hint="Remove it.")


PREFIX = "file:"
"""Prefix of the key of a whole file, used in place of a cell's key in the journal."""


async def record_file(
    workspace: Workspace, caller: Caller, path: str, before: str | None
) -> str | None:
    """Record an agent's direct write to a text file, and return its present content.

    Args:
        workspace: The workspace.
        caller: The caller.
        path: The path below the root.
        before: The content before; None if it did not exist.

    Raises:
        ToolError: The file cannot be read, or the journal cannot be written.
    """
    after = await read_if_exists(workspace.files, path)
    if after == before:
        return after
    verb = "created" if before is None else "deleted" if after is None else "changed"
    await workspace.journal.open()
    recording = workspace.journal.record(
        caller,
        path,
        "",
        f"{verb} {path}",
        kind="change",
        changes=(_file_change(path, before, after),),
    )
    await record(workspace, caller, recording)
    return after


async def undo_file(
    workspace: Workspace, caller: Caller, path: str, entries: Sequence[JournalEntry]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Undo writes of a text file, unless it was changed since.

    The entries are claimed first, as by `editing.undo`.

    Args:
        workspace: The workspace.
        caller: The caller.
        path: The path below the root.
        entries: The entries of that path, newest first.

    Returns:
        The key of the file if it was restored, and sentences about the changes that stay.

    Raises:
        Conflict: An entry has since been undone, or the file has changed.
        ToolError: The file cannot be written. Nothing was changed.
    """
    now = before = await read_if_exists(workspace.files, path)
    undone: dict[int, list[Change]] = {}
    for entry, change in ((one, each) for one in entries for each in reversed(one.changes)):
        if _file_source(change.after) != before:
            break  # If a change stays, the earlier ones stay too.
        before = _file_source(change.before)
        undone.setdefault(entry.id, []).append(change)
    if not undone:
        return (), (f"`{path}` was not reverted: it was changed since.",)

    async def claim_and_write() -> None:
        with workspace.journal.claim(undone) as is_free:
            if not (is_free and await workspace.journal.are_done(undone)):
                raise Conflict(
                    f"A change of `{path}` has since been undone.",
                    hint="Nothing was changed. Try again.",
                )
            summary = f"undid changes of {path}"
            await _write_file(
                workspace, caller, path, now, before, tool="undo", summary=summary, undone=undone
            )

    await workspace.commits.run(caller.turn, claim_and_write())
    left = () if len(undone) == len(entries) else (f"Earlier changes of `{path}` stay.",)
    return (PREFIX + path,), left


async def _write_file(
    workspace: Workspace,
    caller: Caller,
    path: str,
    before: str | None,
    after: str | None,
    *,
    tool: str,
    summary: str,
    undone: Mapping[int, Sequence[Change]] | None = None,
) -> int:
    """Write or remove a text file and record the change; return the entry's number."""
    await workspace.journal.open()
    await workspace.files.replace(path, before, after)
    recording = workspace.journal.record(
        caller,
        path,
        tool,
        summary,
        kind="change" if undone is None else "undo",
        changes=(_file_change(path, before, after),),
        undone=undone,
    )
    return await record(workspace, caller, recording)


def _file_change(path: str, before: str | None, after: str | None) -> Change:
    action: Action = "replace"
    if before is None or after is None:
        action = "insert" if before is None else "delete"
    return Change(action, PREFIX + path, 0, _file_content(before), _file_content(after))


def _file_content(text: str | None) -> CellData | None:
    return None if text is None else CellData("raw", text)


def _file_source(content: CellData | None) -> str | None:
    return None if content is None else content.source
