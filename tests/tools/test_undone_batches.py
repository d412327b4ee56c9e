"""A batch that runs leaves nothing behind when a cell fails, whatever others do meanwhile."""

import asyncio
from contextlib import aclosing, asynccontextmanager

import nbformat
import pytest

from tests.harness import ALICE
from tk_ai_extension.model.errors import CellNotFound, Conflict, LimitReached

OPERATIONS = [
    {"action": "overwrite", "cell": "cella000", "source": "a = 2"},
    {"action": "insert", "source": "print('new')", "index": 1},
]


@pytest.fixture
def notebook(harness):
    harness.write("n.ipynb", "a = 1", ("markdown", "# Title"), "b = 1")
    return "n.ipynb"


def edited(harness, notebook, edit):
    """What another program does to the file."""
    stored = harness.on_disk(notebook)
    edit(stored.cells)
    nbformat.write(stored, harness.root / notebook)


@asynccontextmanager
async def waiting_batch(harness, notebook, operations):
    """A batch of which the changes are made, and the run waits in the kernel's queue."""
    await harness.call("read_notebook", notebook=notebook)
    kernel = (await harness.call("use_notebook", notebook=notebook)).kernel_id
    async with harness.workspace.queue.turn(kernel, "somebody else"):
        batch = asyncio.create_task(
            harness.call("edit_cells", notebook=notebook, operations=operations, run=True)
        )
        workspace = harness.workspace
        async with aclosing(workspace.activity.follow(workspace.by_path.at(notebook))) as followed:
            async for activity in followed:
                if activity.kind == "changed":
                    break
        yield batch


@pytest.mark.proves("edit:batch")
async def test_a_batch_whose_run_cannot_go_on_is_undone(harness, notebook):
    async with waiting_batch(harness, notebook, OPERATIONS) as batch:
        assert harness.sources(notebook) == ["a = 2", "print('new')", "# Title", "b = 1"]
        edited(harness, notebook, lambda cells: cells.pop(1))
    with pytest.raises(CellNotFound, match="did not run") as raised:
        await batch
    assert harness.sources(notebook) == ["a = 1", "# Title", "b = 1"]
    assert "Some changes could not be undone" in raised.value.message
    (left,) = raised.value.details["left"]
    assert "it was deleted" in left
    # The source before the batch counts as read.
    await harness.call("overwrite_cell", notebook=notebook, cell="cella000", source="a = 3")
    history = (await harness.call("notebook_history", notebook=notebook)).entries
    assert "rolled back after an error" in [entry.summary for entry in history]


@pytest.mark.proves("edit:batch")
async def test_a_batch_that_may_not_be_queued_is_undone(harness, notebook, monkeypatch):
    await harness.call("read_notebook", notebook=notebook)
    monkeypatch.setattr("tk_ai_extension.workspace.executions.MAX_ACTIVE", 0)
    with pytest.raises(LimitReached, match="executions are active") as raised:
        await harness.call("edit_cells", notebook=notebook, operations=OPERATIONS, run=True)
    assert harness.sources(notebook) == ["a = 1", "# Title", "b = 1"]
    assert raised.value.message.endswith("All changes were undone.")
    assert raised.value.details["left"] == []


def typed(cells):
    cells[0].source = "a = 'typed by a person'"


@pytest.mark.proves("edit:batch", "doc:conflict")
async def test_what_is_typed_while_a_batch_is_undone_stays(harness, notebook, monkeypatch):
    are_done = harness.workspace.journal.are_done
    edits = [typed]

    async def typing(*args, **options):
        # Between the plan of the undo and its commit.
        if edits:
            edited(harness, notebook, edits.pop())
        return await are_done(*args, **options)

    monkeypatch.setattr(harness.workspace.journal, "are_done", typing)
    await harness.call("read_notebook", notebook=notebook)
    operations = [*OPERATIONS, {"action": "insert", "source": "1/0"}]
    result = await harness.call("edit_cells", notebook=notebook, operations=operations, run=True)
    assert harness.sources(notebook) == ["a = 'typed by a person'", "# Title", "b = 1"]
    assert (result.status, result.rolled_back) == ("error", False)
    assert "edited since" in result.left[0]
    (stands,) = await harness.workspace.journal.undoable(ALICE, notebook)
    assert [change.cell for change in stands.changes] == ["cella000"]
    # The caller has not seen it.
    with pytest.raises(Conflict) as raised:
        await harness.call("overwrite_cell", notebook=notebook, cell="cella000", source="lost?")
    assert raised.value.details["cells"][0]["source"] == "a = 'typed by a person'"


@pytest.mark.proves("edit:mutate-and-execute")
async def test_an_error_says_that_the_new_cell_stays(harness, notebook, monkeypatch):
    monkeypatch.setattr("tk_ai_extension.workspace.executions.MAX_ACTIVE", 0)
    with pytest.raises(LimitReached) as raised:
        await harness.call("insert_and_execute_cell", notebook=notebook, source="new", index=0)
    key = raised.value.details["cell"]
    assert harness.on_disk(notebook).cells[0].id == key
    assert f"The new cell @{key} is in the notebook." in raised.value.message
