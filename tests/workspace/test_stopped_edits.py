"""A call that is stopped at any moment: what it has changed is in the history and can be undone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.harness import ALICE, ToolHarness, backend, documents, harness, jp_server_config
from tests.notebooks.tabs import listening_server
from tests.support.document_bench import code, notebook, written
from tests.support.tab_page import TabPage
from tk_ai_extension.model.cells import CellContent
from tk_ai_extension.model.errors import Conflict, NotebookExists
from tk_ai_extension.model.operations import Insert
from tk_ai_extension.notebooks.router import NotebookRouter
from tk_ai_extension.notebooks.session import SessionDocument
from tk_ai_extension.server.files import ContentsFiles
from tk_ai_extension.workspace import editing, file_edits
from tk_ai_extension.workspace.journal import Journal, JournalEntry
from tk_ai_extension.workspace.undo_entries import undo_entries
from tk_ai_extension.workspace.workspace import Workspace

__all__ = ["backend", "documents", "harness", "jp_server_config"]

pytestmark = pytest.mark.proves("edit:history")

PATH, CREATED, TEXT = "n.ipynb", "created.ipynb", "notes.txt"
WITHIN = 20.0
HOPS = 4
"""How often a slow save looks away: its caller may be stopped at each of these moments and before."""


async def hop() -> None:
    """As long as something takes in another thread."""
    await asyncio.to_thread(int)


@pytest.fixture(autouse=True)
def slow_saves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each change takes its time after its effect."""

    def slow(owner: Any, name: str) -> None:
        method = getattr(owner, name)

        async def slowed(*args: Any, **options: Any) -> Any:
            result = await method(*args, **options)
            for _ in range(HOPS):
                await hop()
            return result

        monkeypatch.setattr(owner, name, slowed)

    slow(SessionDocument, "commit")
    slow(NotebookRouter, "create")
    slow(ContentsFiles, "replace")


async def stopped(call: Coroutine[Any, Any, Any], random: Random) -> None:
    """Makes a call, and stops it at some moment, once or twice; or not at all."""
    task = asyncio.create_task(call)
    for _ in range(random.choice([1, 2])):
        for _ in range(random.randint(0, 4 * HOPS)):
            await hop()
        task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and (error := task.exception()) is not None:
        assert isinstance(error, Conflict | NotebookExists), error


async def settled(workspace: Workspace) -> list[JournalEntry]:
    """The changes that can be undone, newest first, once no entry is under way."""
    async with asyncio.timeout(WITHIN):
        while True:
            undoable = await workspace.journal.undoable(ALICE, None)
            entries = [
                entry
                for path in (PATH, CREATED, TEXT)
                for entry in await workspace.journal.history(path, 100, ALICE.user)
            ]
            if all(entry.state != "intended" for entry in entries):
                return undoable


async def insert(workspace: Workspace, number: int) -> None:
    document = await workspace.store.open(PATH)
    cell = Insert(CellContent("code", f"n = {number}"), index=0)
    await editing.apply(workspace, ALICE, document, [cell], tool="insert_cell")


async def write(workspace: Workspace, number: int) -> None:
    expect = await file_edits.read(workspace, TEXT)
    await file_edits.write(workspace, ALICE, TEXT, f"{number}", expect=expect, tool="write")


async def create(workspace: Workspace) -> None:
    cells: list[Any] = [("code", "c = 1")]
    await editing.create(workspace, ALICE, CREATED, cells, tool="create_notebook")


async def sources(workspace: Workspace, path: str) -> list[str]:
    snapshot = await (await workspace.store.open(path)).read()
    return [cell.source for cell in snapshot.cells]


async def stop_calls(workspace: Workspace, random: Random, calls: int) -> None:
    """Stops calls of all kinds, and then undoes what they have done."""
    before = await sources(workspace, PATH)
    for number in range(calls):
        entries = (await settled(workspace))[: random.randint(1, 2)]
        calling: list[Coroutine[Any, Any, Any]] = [
            insert(workspace, number),
            write(workspace, number),
            create(workspace),
            *([undo_entries(workspace, ALICE, entries)] if entries else []),
        ]
        chosen = random.randrange(len(calling))
        await stopped(calling.pop(chosen), random)
        for each in calling:
            each.close()
    entries = await settled(workspace)
    inserted = {each.cell for entry in entries for each in entry.changes if entry.path == PATH}
    assert len(await sources(workspace, PATH)) == len(before) + len(inserted)
    if entries:
        await undo_entries(workspace, ALICE, entries)
    assert await sources(workspace, PATH) == before
    assert await file_edits.read(workspace, TEXT) is None
    if await workspace.store.exists(CREATED):
        assert await sources(workspace, CREATED) == []
    assert await settled(workspace) == []


@pytest.mark.parametrize("documents", ["file", "room"])
@pytest.mark.parametrize("seed", range(3))
async def test_whatever_stopped_calls_have_changed_can_be_undone(
    harness: ToolHarness, seed: int
) -> None:
    harness.write(PATH, "a = 1", "b = 1")
    await stop_calls(harness.workspace, Random(seed), 8)


@pytest.mark.proves("fault:tab-lost")
async def test_whatever_stopped_calls_have_changed_in_a_tab_can_be_undone(tmp_path: Path) -> None:
    async with listening_server(tmp_path) as (app, address):
        (Path(app.root_dir) / PATH).write_bytes(written(notebook(code("a", "aaaa1111"))))
        page = TabPage(address, app.identity_provider.token)
        await page.connect()
        await page.open(PATH)
        (extension,) = app.extension_manager.extension_apps["tk_ai_extension"]
        found: Any = extension
        await stop_calls(found.services.workspace, Random(1), 8)
        await page.close()


async def test_a_call_that_is_stopped_before_its_change_ends_at_once(tmp_path: Path) -> None:
    journal, goes_on = Journal(tmp_path / "journal.sqlite"), threading.Event()
    busy = asyncio.ensure_future(journal._database.run(lambda _: goes_on.wait(WITHIN)))
    intending = asyncio.create_task(journal.intend(ALICE, PATH, "insert_cell", "insert"))
    await hop()
    intending.cancel()
    await asyncio.wait([intending])
    assert intending.cancelled()
    assert not busy.done()
    goes_on.set()
    await journal.close()
    reopened = Journal(tmp_path / "journal.sqlite")
    (entry,) = await reopened.history(PATH, 10, ALICE.user)
    assert entry.state == "failed"
    await reopened.close()
