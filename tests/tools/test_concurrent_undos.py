"""Several undos of the same changes at once undo each change once."""

from __future__ import annotations

import asyncio
import errno
import json
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.harness import ALICE, ToolHarness
from tests.workspace.list_notebook import ListNotebook
from tk_ai_extension.model.cells import CellContent
from tk_ai_extension.model.errors import Conflict, DiskFull, NothingToUndo
from tk_ai_extension.model.operations import Insert
from tk_ai_extension.notebooks.atomic_file import Folder
from tk_ai_extension.workspace.undo_entries import undo_entries

pytestmark = pytest.mark.proves("edit:history")

NAME = "n.ipynb"


@pytest.fixture(params=[4, 5])
def path(harness: ToolHarness, request: pytest.FixtureRequest) -> Path:
    """A notebook without or with cell ids."""
    path = harness.write(NAME, *(f"c{number}" for number in range(8)))
    stored = json.loads(path.read_text())
    stored["nbformat_minor"] = request.param
    for cell in stored["cells"]:
        if request.param < 5:
            del cell["id"]
    path.write_text(json.dumps(stored))
    return path


async def sources(harness: ToolHarness) -> list[str]:
    document = await harness.workspace.store.open(NAME)
    return [cell.source for cell in (await document.read()).cells]


async def undo_of_entries(harness: ToolHarness) -> None:
    """As the chat's and the panel's buttons do."""
    entries = await harness.workspace.journal.undoable(ALICE, NAME)
    await undo_entries(harness.workspace, ALICE, entries)


async def all_of(*calls: object) -> list[BaseException]:
    results = await asyncio.gather(*calls, return_exceptions=True)  # type: ignore[call-overload]
    failed = [each for each in results if isinstance(each, BaseException)]
    assert all(isinstance(each, Conflict | NothingToUndo) for each in failed), failed
    return failed


@pytest.mark.parametrize("documents", ["file", "room"])
@pytest.mark.parametrize("seed", range(5))
async def test_undos_at_once_restore_each_cell_once(
    harness: ToolHarness, path: Path, seed: int
) -> None:
    random = Random(seed)
    before = await sources(harness)
    for _ in range(random.randint(1, 4)):
        await harness.call("read_notebook", notebook=NAME)
        await harness.call("delete_cell", notebook=NAME, cell=random.choice(["0", "-1", "1"]))
    undos = [
        harness.call("undo", notebook=NAME, steps=random.randint(1, 4))
        if random.random() < 0.7
        else undo_of_entries(harness)
        for _ in range(4)
    ]
    failed = await all_of(*undos)
    assert len(failed) < len(undos), "one of them was applied"
    assert max(Counter(await sources(harness)).values()) == 1
    while len(await sources(harness)) < len(before):
        await harness.call("undo", notebook=NAME)
    assert sorted(await sources(harness)) == before
    with pytest.raises(NothingToUndo):
        await harness.call("undo", notebook=NAME)


async def test_an_undo_that_fails_can_be_repeated(
    harness: ToolHarness, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.call("read_notebook", notebook=NAME)
    await harness.call("delete_cell", notebook=NAME, cell="1")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "replace", full)
        with pytest.raises(DiskFull):
            await harness.call("undo", notebook=NAME)
    assert "c1" not in await sources(harness)
    await harness.call("undo", notebook=NAME)
    assert "c1" in await sources(harness)


@pytest.mark.parametrize("rounds", range(8))
async def test_an_undo_that_is_cancelled_was_made_or_can_be_repeated(
    harness: ToolHarness, path: Path, rounds: int
) -> None:
    await harness.call("read_notebook", notebook=NAME)
    await harness.call("delete_cell", notebook=NAME, cell="1")
    undo = asyncio.create_task(harness.call("undo", notebook=NAME))
    for _ in range(rounds):
        await asyncio.to_thread(int)  # As long as something takes in another thread.
    undo.cancel()
    await asyncio.wait([undo])
    if "c1" not in await sources(harness):
        await harness.call("undo", notebook=NAME)
    assert "c1" in await sources(harness)
    with pytest.raises(NothingToUndo):
        await harness.call("undo", notebook=NAME)


def test_a_cell_is_not_restored_with_another_id() -> None:
    notebook = ListNotebook([CellContent("code", "a", "aaaa1111")])
    restored = CellContent("code", "mine", "aaaa1111")
    with pytest.raises(Conflict) as raised:
        notebook.draft().apply([Insert(restored, index=0, restores=True)])
    assert raised.value.details["cells"][0]["source"] == "a"
    notebook.apply([Insert(restored, index=0)])
    assert notebook.cells[0].id != "aaaa1111"
