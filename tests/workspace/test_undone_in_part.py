"""Undo of several notebooks, of which some refuse, and of an entry's cells, some at a time."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random

import nbformat
import pytest

from tests.harness import ALICE, ToolHarness, backend, documents, harness, jp_server_config
from tk_ai_extension.model.cells import CellContent
from tk_ai_extension.model.errors import Conflict, InvalidNotebook, NothingToUndo
from tk_ai_extension.model.operations import Delete, Insert, Operation, Replace
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


def type_into(harness: ToolHarness, cell: int, source: str) -> None:
    """What a person does by another program."""
    stored = harness.on_disk("a.ipynb")
    stored.cells[cell].source = source
    nbformat.write(stored, harness.root / "a.ipynb")


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
            await undo_entries(harness.workspace, ALICE, [each.only(cells) for each in entries])

    while await undoable(harness):
        chosen = [random.sample(ids, random.randint(1, 2)) for _ in range(2)]
        await asyncio.gather(*(undo(*cells) for cells in chosen))
        standing = {each.cell for entry in await undoable(harness) for each in entry.changes}
        assert standing == set(harness.sources("a.ipynb")) - {"a = 1"}


async def test_changes_that_cancel_out_are_undone_too(harness: ToolHarness) -> None:
    harness.write("a.ipynb", "0")
    document = await harness.workspace.store.open("a.ipynb")
    for edit in (Insert(CellContent("code", "1", "bbbb"), index=0), Delete("bbbb")):
        await editing.apply(harness.workspace, ALICE, document, [edit], tool="edit_cells")
    await undo_entries(harness.workspace, ALICE, await undoable(harness))
    assert await undoable(harness) == []


async def test_the_tool_too_leaves_what_it_could_not_undo(harness: ToolHarness) -> None:
    harness.write("a.ipynb", "0", "0")
    await harness.call("read_notebook", notebook="a.ipynb")
    edits = [{"action": "overwrite", "cell": cell, "source": "1"} for cell in ("0", "1")]
    await harness.call("edit_cells", notebook="a.ipynb", operations=edits)
    type_into(harness, 1, "2")
    result = await harness.call("undo", notebook="a.ipynb")
    assert (len(result.undone), len(result.refused)) == (1, 1)
    assert harness.sources("a.ipynb") == ["0", "2"]
    type_into(harness, 1, "1")
    await harness.call("undo", notebook="a.ipynb")
    assert harness.sources("a.ipynb") == ["0", "0"]
    assert await undoable(harness) == []


CELLS = ["aaaa", "bbbb", "cccc"]


class Model:
    """The sources of a notebook, and the changes of each cell that stand."""

    def __init__(self) -> None:
        self.sources = dict.fromkeys(CELLS, "0")
        self.standing: list[tuple[int, str, str, str]] = []

    def change(self, entry: int, new: dict[str, str]) -> None:
        self.standing += [(entry, cell, self.sources[cell], new[cell]) for cell in new]
        self.sources |= new

    def undo(self, wanted: set[tuple[int, str]]) -> None:
        stayed: set[str] = set()
        for step in self.standing[::-1]:
            entry, cell, before, after = step
            if (entry, cell) not in wanted:
                continue
            if cell in stayed or self.sources[cell] != after:
                stayed.add(cell)
            else:
                self.sources[cell] = before
                self.standing.remove(step)


@pytest.mark.proves("rest:restore", "threat:html")
@pytest.mark.parametrize("seed", range(6))
async def test_what_was_not_undone_stands_and_what_was_not_wanted_stays(
    harness: ToolHarness, seed: int
) -> None:
    """A person edits cells and undoes some of the changes of entries of several cells."""
    random, workspace, model = Random(seed), harness.workspace, Model()
    harness.write("a.ipynb", *("0" for _ in CELLS))
    stored = harness.on_disk("a.ipynb")
    for cell, key in zip(stored.cells, CELLS, strict=True):
        cell.id = key
    nbformat.write(stored, harness.root / "a.ipynb")
    # Few sources, so that a person's is often one that a change left.
    different = {"0": "12", "1": "02", "2": "01"}
    for _ in range(30):
        some = random.sample(CELLS, random.randint(1, 3))
        new = {cell: random.choice(different[model.sources[cell]]) for cell in some}
        entries = await undoable(harness)
        if random.random() < 0.4:
            document = await workspace.store.open("a.ipynb")
            edits = [Replace(cell, source) for cell, source in new.items()]
            made = await editing.apply(workspace, ALICE, document, edits, tool="edit_cells")
            model.change(made.entry, new)
        elif random.random() < 0.4:
            type_into(harness, CELLS.index(some[0]), new[some[0]])
            model.sources[some[0]] = new[some[0]]
        elif entries:
            of = {each.id: random.sample(CELLS, random.randint(1, 3)) for each in entries}
            chosen = [each.only(of[each.id]) for each in entries]
            with suppress(NothingToUndo):
                await undo_entries(workspace, ALICE, chosen)
            model.undo({(entry, cell) for entry, cells in of.items() for cell in cells})
        assert harness.sources("a.ipynb") == list(model.sources.values())
        stands = {
            (entry.id, each.cell) for entry in await undoable(harness) for each in entry.changes
        }
        assert stands == {(entry, cell) for entry, cell, *_ in model.standing}
        _, written, _ = await workspace.journal.written("a.ipynb")
        assert set(written) == {cell for _, cell in stands}, "their images are blocked"
