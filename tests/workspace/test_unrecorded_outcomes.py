"""A journal that cannot be written: a call's result and its error stay what they are."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.harness import ALICE, ToolHarness, backend, documents, harness, jp_server_config
from tk_ai_extension.model.errors import Conflict, DiskFull, SaveFailed, ToolError
from tk_ai_extension.model.operations import Replace
from tk_ai_extension.workspace import editing, file_edits
from tk_ai_extension.workspace.undo_entries import undo_entries

__all__ = ["backend", "documents", "harness", "jp_server_config"]

pytestmark = pytest.mark.proves("fault:disk-full", "edit:history")

PATH, CREATED, TEXT = "n.ipynb", "created.ipynb", "notes.txt"
FULL = "No disk space for the journal."


class FailingDocument:
    """A notebook that refuses an edit."""

    def __init__(self, document: Any, error: ToolError | None) -> None:
        self.document = document
        self.error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self.document, name)

    async def apply(self, operations: Any) -> Any:
        if self.error is not None:
            raise self.error
        return await self.document.apply(operations)


async def edit(harness: ToolHarness, error: ToolError | None) -> None:
    document = await harness.workspace.store.open(PATH)
    key = (await document.read()).cells[0].key
    failing: Any = FailingDocument(document, error)
    await editing.apply(
        harness.workspace, ALICE, failing, [Replace(key, "new")], tool="edit_cell", summary="edited"
    )


async def undo(harness: ToolHarness, error: ToolError | None) -> None:
    entries = await harness.workspace.journal.undoable(ALICE, PATH)
    opened = harness.workspace.store.open

    async def open_failing(path: str, **options: Any) -> Any:
        return FailingDocument(await opened(path, **options), error)

    harness.workspace.store.open = open_failing  # type: ignore[method-assign]
    await undo_entries(harness.workspace, ALICE, entries)


async def create(harness: ToolHarness, error: ToolError | None) -> None:
    if error is not None:

        async def refuse(*_: Any) -> Any:
            raise error

        harness.workspace.store.create = refuse  # type: ignore[method-assign]
    await editing.create(
        harness.workspace, ALICE, CREATED, [("code", "new")], tool="create_notebook"
    )


async def write(harness: ToolHarness, error: ToolError | None) -> None:
    if error is not None:

        async def refuse(*_: Any) -> Any:
            raise error

        harness.workspace.files.replace = refuse  # type: ignore[method-assign]
    await file_edits.write(harness.workspace, ALICE, TEXT, "new", expect=None, tool="agent")


Act = Callable[[ToolHarness, "ToolError | None"], Awaitable[None]]
CHANGED: dict[Act, Callable[[ToolHarness], Any]] = {
    edit: lambda harness: sources(harness, PATH) == ["new"],
    undo: lambda harness: sources(harness, PATH) == ["old"],
    create: lambda harness: (harness.root / CREATED).exists(),
    write: lambda harness: (harness.root / TEXT).exists(),
}
"""What calls do, and whether it is done."""


def sources(harness: ToolHarness, path: str) -> list[str]:
    cells = json.loads((harness.root / path).read_bytes())["cells"]
    return ["".join(cell["source"]) for cell in cells]


@pytest.mark.parametrize("act", CHANGED)
@pytest.mark.parametrize(
    "error", [None, DiskFull("The notebook."), Conflict("It changed."), SaveFailed("No.")], ids=str
)
async def test_what_a_journal_cannot_record_is_answered_as_it_is(
    harness: ToolHarness, monkeypatch: pytest.MonkeyPatch, act: Act, error: ToolError | None
) -> None:
    harness.write(PATH, "old")
    if act is undo:
        await edit(harness, None)
    journal = harness.workspace.journal

    async def full(*_: Any, **__: Any) -> None:
        raise DiskFull(FULL)

    for name in ("done", "failed", "release", "undone"):
        monkeypatch.setattr(journal, name, full)
    if error is None:
        await act(harness, None)
    else:
        with pytest.raises(type(error)) as raised:
            await act(harness, error)
        assert raised.value is error
    assert CHANGED[act](harness) == (error is None)
    notices = harness.workspace.notices.take(ALICE)
    assert notices
    assert all(notice.startswith(FULL) for notice in notices)
