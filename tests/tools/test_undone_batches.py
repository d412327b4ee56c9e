"""A batch that runs leaves nothing behind when a cell fails, whatever others do at the same time."""

import asyncio
from contextlib import aclosing, asynccontextmanager

import nbformat
import pytest

from tk_ai_extension.model.errors import CellNotFound

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
