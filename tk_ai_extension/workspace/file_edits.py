"""Write text files for a caller, with optimistic concurrency and the journal, and undo that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.cells import CellContent
from tk_ai_extension.model.errors import Conflict, FileMissing
from tk_ai_extension.model.operations import Action, Change
from tk_ai_extension.workspace.editing import record
from tk_ai_extension.workspace.files import encoded
from tk_ai_extension.workspace.journal import JournalEntry
from tk_ai_extension.workspace.workspace import Workspace

PREFIX = "file:"
"""Prefix of the key of a whole file, which stands for a cell's key in the journal."""


async def read(workspace: Workspace, path: str) -> str | None:
    """Return the content of a text file; None if it does not exist.

    Raises:
        PathRefused, NotReadable.
    """
    try:
        return await workspace.files.read_text(path)
    except FileMissing:
        return None


async def write(
    workspace: Workspace, caller: Caller, path: str, text: str, *, expect: str | None, tool: str
) -> int:
    """Write a text file and record it in the journal; return the number of the entry.

    Args:
        workspace: The workspace.
        caller: The caller.
        path: The path below the root.
        text: The new content.
        expect: The content that it must have (compare-and-set); None if it must not exist.
        tool: The tool's name.

    Raises:
        Conflict: The file has changed.
        InvalidArguments: The content is not valid Unicode.
        ToolError: The file cannot be written. Nothing was changed.
    """
    encoded(path, text)
    summary = f"{tool}: {'created' if expect is None else 'changed'} {path}"
    change = _carry_out(workspace, caller, path, expect, text, tool=tool, summary=summary)
    return await workspace.commits.run(caller.turn, change)


async def undo(
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
        The key of the file if it was restored, and sentences that say what stays.

    Raises:
        Conflict: An entry was undone meanwhile, or the file has changed.
        ToolError: The file cannot be written. Nothing was changed.
    """
    now = before = await read(workspace, path)
    undone: dict[int, list[Change]] = {}
    for entry, change in ((one, each) for one in entries for each in reversed(one.changes)):
        if _source(change.after) != before:
            break  # If a change stays, the earlier ones stay too.
        before = _source(change.before)
        undone.setdefault(entry.id, []).append(change)
    if not undone:
        return (), (f"`{path}` was not reverted: it was changed since.",)

    async def claim_and_write() -> None:
        with workspace.journal.claim(undone) as is_free:
            if not (is_free and await workspace.journal.are_done(undone)):
                raise Conflict(
                    f"A change of `{path}` was undone meanwhile.",
                    hint="Nothing was changed. Try again.",
                )
            summary = f"undid changes of {path}"
            await _carry_out(
                workspace, caller, path, now, before, tool="undo", summary=summary, undone=undone
            )

    await workspace.commits.run(caller.turn, claim_and_write())
    left = () if len(undone) == len(entries) else (f"Earlier changes of `{path}` stay.",)
    return (PREFIX + path,), left


async def _carry_out(
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
    """Write a text file, or remove it if there is to be none, and record it; return the entry's number."""
    async with workspace.journal.writing(path):
        await workspace.files.replace(path, before, after)
        recording = workspace.journal.record(
            caller,
            path,
            tool,
            summary,
            kind="change" if undone is None else "undo",
            changes=(_change(path, before, after),),
            undone=undone,
        )
        return await record(workspace, caller, recording)


def _change(path: str, before: str | None, after: str | None) -> Change:
    action: Action = "replace"
    if before is None or after is None:
        action = "insert" if before is None else "delete"
    return Change(action, PREFIX + path, 0, _content(before), _content(after))


def _content(text: str | None) -> CellContent | None:
    return None if text is None else CellContent("raw", text)


def _source(content: CellContent | None) -> str | None:
    return None if content is None else content.source
