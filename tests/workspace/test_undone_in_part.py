"""Undo of several notebooks, of which some refuse, and of an entry's cells, some at a time."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random

import pytest

from tests.harness import ALICE, ToolHarness, backend, documents, harness, jp_server_config
from tk_ai_extension.model.cells import CellContent
from tk_ai_extension.model.errors import Conflict, InvalidNotebook, NothingToUndo
from tk_ai_extension.model.operations import Insert, Operation
from tk_ai_extension.workspace import editing, file_edits
from tk_ai_extension.workspace.journal import JournalEntry
from tk_ai_extension.workspace.undo_entries import undo_entries

__all__ = ["backend", "documents", "harness", "jp_server_config"]

pytestmark = pytest.mark.proves("edit:history")

PATHS = ["a.ipynb", "b.ipynb", "c.ipynb", "a.txt", "b.txt"]


async def insert(harness: ToolHarness, path: str, *ids: str) -> None:
    document = await harness.workspace.store.open(path)
    cells: list[Operation] = [Insert(CellContent("code", name, name), index=0) for name in ids]
    await editing.apply(harness.workspace, ALICE, document, cells, tool="edit_cells")


async def undoable(harness: ToolHarness) -> list[JournalEntry]:
    return await harness.workspace.journal.undoable(ALICE, None)


@pytest.mark.parametrize("seed", range(3))
async def test_what_one_notebook_refuses_is_listed_beside_what_the_others_restored(
    harness: ToolHarness, seed: int
) -> None:
    random, workspace = Random(seed), harness.workspace
    for path in PATHS:
        if path.endswith(".txt"):
            await file_edits.write(workspace, ALICE, path, "new", expect=None, tool="write")
        else:
            harness.write(path, "a = 1")
            await insert(harness, path, "new")
    refusing = random.sample(PATHS, random.randint(1, len(PATHS)))
    for path in refusing:
        (harness.root / path).write_bytes(b"\xff\0")
    entries = await undoable(harness)
    taken = await undo_entries(workspace, ALICE, entries)
    assert sorted(each.notebook for each in taken) == sorted(PATHS)
    for each in taken:
        restored = each.notebook not in refusing
        assert bool(each.cells) == restored
        assert bool(each.left) != restored
        assert not each.stayed, "they were not edited since"
        if restored and each.notebook.endswith(".ipynb"):
            assert harness.sources(each.notebook) == ["a = 1"]
    assert {entry.path for entry in await undoable(harness)} == set(refusing)
    notebooks = [entry for entry in await undoable(harness) if entry.path.endswith(".ipynb")]
    for entry in notebooks:
        with pytest.raises(InvalidNotebook):
            await undo_entries(workspace, ALICE, [entry])


@pytest.mark.parametrize("seed", range(3))
async def test_cells_that_are_undone_at_once_or_from_an_older_list_do_not_stand_again(
    harness: ToolHarness, seed: int
) -> None:
    random, ids = Random(seed), ["aaaa", "bbbb", "cccc", "dddd", "eeee"]
    harness.write("a.ipynb", "a = 1")
    await insert(harness, "a.ipynb", *ids)
    entries = await undoable(harness)

    async def undo(*cells: str) -> None:
        with suppress(Conflict, NothingToUndo):
            await undo_entries(harness.workspace, ALICE, entries, cells=frozenset(cells))

    while await undoable(harness):
        chosen = [random.sample(ids, random.randint(1, 2)) for _ in range(2)]
        await asyncio.gather(*(undo(*cells) for cells in chosen))
        standing = {each.cell for entry in await undoable(harness) for each in entry.changes}
        assert standing == set(harness.sources("a.ipynb")) - {"a = 1"}
