"""A notebook's state follows a rename, and is removed with a deletion."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from tests.harness import ALICE, BOB, ToolHarness, loop_turns
from tk_ai_extension.model.errors import (
    Conflict,
    InvalidArguments,
    NotebookNotFound,
    NothingToUndo,
    PermissionRequired,
)

pytestmark = pytest.mark.proves("kernel:shared-live", "edit:history")

ASKING = replace(ALICE, mode="ask")
CELL = "cella000"


class Person:
    """A person who renames and deletes notebooks in JupyterLab."""

    def __init__(self, harness: ToolHarness, fetch: Any) -> None:
        self._harness = harness
        self._fetch = fetch

    async def rename(self, old: str, new: str) -> None:
        body = json.dumps({"path": new})
        await self._fetch("api", "contents", *old.split("/"), method="PATCH", body=body)
        await loop_turns()

    async def delete(self, path: str) -> None:
        await self._fetch("api", "contents", *path.split("/"), method="DELETE")
        await loop_turns()

    def approvals(self) -> list[str | None]:
        standing = self._harness.workspace.policy.standing
        return [each["notebook"] for each in standing.list(ALICE.user)]


@pytest.fixture
def person(harness: ToolHarness, jp_fetch: Any) -> Person:
    return Person(harness, jp_fetch)


async def use(harness: ToolHarness, path: str) -> str:
    """Connect a notebook, run its cell, edit it, and let agents write it; return its kernel."""
    harness.write(path, "x = 1", "y = 2")
    used = await harness.call("use_notebook", notebook=path, name="mine")
    await harness.call("read_notebook")
    await harness.call("execute_cell", cell=CELL)
    await harness.call("overwrite_cell", cell="cellb000", source="y = 3")
    with pytest.raises(PermissionRequired) as asked:
        await harness.call("insert_cell", caller=ASKING, notebook=path, source="z")
    permission = asked.value.details["permission_id"]
    harness.workspace.policy.answer(ALICE.user, permission, "notebook")
    return used.kernel_id


async def check_unknown(harness: ToolHarness, path: str, kernel_id: str) -> None:
    """Check that nothing of a former notebook of this path is known of a new one."""
    harness.write(path, "x = 1", "y = 3")
    assert (await harness.call("notebook_history", notebook=path)).entries == []
    with pytest.raises(Conflict):
        await harness.call("overwrite_cell", notebook=path, cell=CELL, source="x = 2")
    with pytest.raises(NothingToUndo):
        await harness.call("undo", notebook=path)
    with pytest.raises(PermissionRequired):
        await harness.call("insert_cell", caller=ASKING, notebook=path, source="z")
    listed = (await harness.call("list_cells", notebook=path)).cells
    assert [each.state for each in listed] == ["never", "never"]
    used = await harness.call("use_notebook", caller=BOB, notebook=path)
    assert used.kernel_id != kernel_id
    assert harness.sources(path) == ["x = 1", "y = 3"]


@pytest.mark.parametrize("is_folder", [False, True])
async def test_a_renamed_notebook_keeps_everything_and_a_new_one_of_its_name_has_nothing(
    harness: ToolHarness, person: Person, *, is_folder: bool
) -> None:
    former, now = ("d/a.ipynb", "e/a.ipynb") if is_folder else ("a.ipynb", "b.ipynb")
    kernel_id = await use(harness, former)
    await person.rename(*(("d", "e") if is_folder else (former, now)))
    assert person.approvals() == [now]
    current = (await harness.call("list_managed_notebooks")).notebooks
    assert [(each.name, each.notebook, each.kernel_id) for each in current] == [
        ("mine", now, kernel_id)
    ]
    listed = await harness.call("list_cells")
    assert listed.notebook == now
    assert [each.state for each in listed.cells] == ["fresh", "never"]
    assert await harness.workspace.kernel_of(now) == kernel_id
    sessions = await harness.app.session_manager.list_sessions()
    assert [(each["path"], each["name"]) for each in sessions] == [(now, now[-7:])]
    await check_unknown(harness, former, kernel_id)
    # It counts as read, agents may write it, and its changes can be undone.
    await harness.call("overwrite_cell", notebook="mine", cell=CELL, source="x = 5")
    await harness.call("insert_cell", caller=ASKING, notebook=now, source="z", index=2)
    assert harness.sources(now) == ["x = 5", "y = 3", "z"]
    await harness.call("undo", notebook=now, steps=3)
    assert harness.sources(now) == ["x = 1", "y = 2"]


@pytest.mark.parametrize("how", ["deleted", "folder deleted", "renamed over"])
async def test_nothing_of_a_deleted_notebook_is_left_to_the_next_one_of_its_name(
    harness: ToolHarness, person: Person, how: str
) -> None:
    path = "d/a.ipynb"
    kernel_id = await use(harness, path)
    with pytest.raises(PermissionRequired):
        await harness.call("execute_cell", caller=ASKING, notebook=path, cell=CELL)
    if how == "renamed over":
        # Another program removes it, which nobody notices.
        (harness.root / path).unlink()
        harness.write("other.ipynb", "o = 1")
        await person.rename("other.ipynb", path)
        (harness.root / path).unlink()
    else:
        await person.delete(path if how == "deleted" else "d")
    assert person.approvals() == []
    assert harness.workspace.policy.pending(ALICE.user) == []
    with pytest.raises(InvalidArguments):
        await harness.call("insert_cell", source="z")
    notices = (await harness.call("list_managed_notebooks")).notices
    assert notices == [
        f"{path} was deleted and is not connected any more. Its kernel continues to run."
    ]
    assert kernel_id in harness.workspace.kernels.ids()
    await check_unknown(harness, path, kernel_id)


async def test_a_run_does_not_go_on_in_the_next_notebook_of_its_name(
    harness: ToolHarness, person: Person
) -> None:
    wait = "import pathlib, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)"
    harness.write("a.ipynb", wait, "pathlib.Path('ran').touch()")
    await harness.call("use_notebook", notebook="a.ipynb")
    begun = await harness.call("execute_cells", which="all", wait=0)
    async with asyncio.timeout(20):
        run = harness.workspace.executions.get(ALICE, begun.execution_id)
        while not run.current.started:
            await run.changed(run.version, 1)
    await person.delete("a.ipynb")
    harness.write("a.ipynb", wait, "pathlib.Path('ran').touch()")
    (harness.root / "go").touch()
    with pytest.raises(NotebookNotFound, match="deleted"):
        await harness.call("wait_execution", execution_id=begun.execution_id, wait=20)
    assert not (harness.root / "ran").exists()
