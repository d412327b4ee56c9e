"""An agent stays with a notebook's kernel, and out of another's, whatever the notebooks are called."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from jupyter_core.utils import ensure_async

from tests.harness import ALICE, BOB, ToolHarness, loop_turns
from tk_ai_extension.model.errors import NotebookNotFound

pytestmark = pytest.mark.proves("kernel:shared-live", "kernel:session")

CELL = "cella000"
NAMES = ("a.ipynb", "b.ipynb", "c.ipynb")


async def rename(harness: ToolHarness, old: str, new: str) -> None:
    await ensure_async(harness.app.contents_manager.rename(old, new))
    await loop_turns()


async def test_a_new_notebook_of_the_old_name_has_a_kernel_of_its_own(harness):
    harness.write("a.ipynb", "x = 1")
    used = await harness.call("use_notebook", notebook="a.ipynb")
    (session,) = await harness.app.session_manager.list_sessions()
    await rename(harness, "a.ipynb", "b.ipynb")
    (moved,) = await harness.app.session_manager.list_sessions()
    assert (moved["id"], moved["path"], moved["name"]) == (session["id"], "b.ipynb", "b.ipynb")
    harness.write("a.ipynb", "y = 1")
    other = await harness.call("use_notebook", caller=BOB, notebook="a.ipynb")
    joined = await harness.call("use_notebook", caller=BOB, notebook="b.ipynb")
    assert (joined.kernel, joined.kernel_id) == ("joined", used.kernel_id)
    assert other.kernel_id != used.kernel_id


@pytest.mark.parametrize("tool", ["use_notebook", "execute_cell"])
async def test_a_rename_while_the_kernel_starts_is_followed(harness, monkeypatch, tool):
    harness.write("a.ipynb", "x = 1")
    start = harness.workspace.kernels.start

    async def renamed_meanwhile(*args: Any, **fields: Any) -> str:
        kernel_id = await start(*args, **fields)
        await rename(harness, "a.ipynb", "b.ipynb")
        return kernel_id

    monkeypatch.setattr(harness.workspace.kernels, "start", renamed_meanwhile)
    arguments = {} if tool == "use_notebook" else {"cell": CELL}
    used = await harness.call(tool, notebook="a.ipynb", **arguments)
    if tool == "use_notebook":
        assert (used.notebook, used.name) == ("b.ipynb", "b.ipynb")
        assert (await harness.call("list_cells")).notebook == "b.ipynb"
    (session,) = await harness.app.session_manager.list_sessions()
    assert session["path"] == "b.ipynb"
    assert (await harness.call("use_notebook", notebook="b.ipynb")).kernel != "started"


@pytest.mark.parametrize("tool", ["use_notebook", "execute_cell"])
async def test_a_notebook_that_is_deleted_while_its_kernel_starts_has_none(
    harness, monkeypatch, tool
):
    harness.write("a.ipynb", "x = 1")
    start = harness.workspace.kernels.start

    async def deleted_meanwhile(*args: Any, **fields: Any) -> str:
        kernel_id = await start(*args, **fields)
        await ensure_async(harness.app.contents_manager.delete("a.ipynb"))
        await loop_turns()
        return kernel_id

    monkeypatch.setattr(harness.workspace.kernels, "start", deleted_meanwhile)
    arguments = {} if tool == "use_notebook" else {"cell": CELL}
    with pytest.raises(NotebookNotFound, match="deleted"):
        await harness.call(tool, notebook="a.ipynb", **arguments)
    assert await harness.app.session_manager.list_sessions() == []
    assert harness.workspace.kernels.ids() == []


async def test_a_kernel_that_went_with_another_name_is_not_taken_for_a_dead_one(harness):
    harness.write("a.ipynb", "x = 1")
    used = await harness.call("use_notebook", notebook="a.ipynb")
    # As JupyterLab's "Save as" does.
    (session,) = await harness.app.session_manager.list_sessions()
    harness.write("b.ipynb", "x = 1")
    await harness.app.session_manager.update_session(session["id"], path="b.ipynb")
    joined = await harness.call("use_notebook", caller=BOB, notebook="b.ipynb")
    assert joined.kernel_id == used.kernel_id
    ran = await harness.call("execute_cell", cell=CELL, notebook="a.ipynb")
    (notice,) = ran.notices
    assert notice == "a.ipynb has a new kernel. Its former one belongs to another notebook."
    again = await harness.call("use_notebook", caller=BOB, notebook="b.ipynb")
    assert (again.kernel_id, again.notices) == (used.kernel_id, [])
    managed = await harness.call("list_managed_notebooks", caller=BOB)
    assert [each.kernel_id for each in managed.notebooks] == [used.kernel_id]


async def test_a_notebook_renamed_over_a_deleted_one_is_the_one_that_is_disconnected(harness):
    for name in ("a.ipynb", "b.ipynb"):
        harness.write(name, "x = 1")
        await harness.call("use_notebook", notebook=name)
    await ensure_async(harness.app.contents_manager.delete("b.ipynb"))
    await rename(harness, "a.ipynb", "b.ipynb")
    await harness.call("unuse_notebook", notebook="b.ipynb")
    assert (await harness.call("list_managed_notebooks")).notebooks == []


async def test_a_deleted_notebooks_kernel_continues_but_a_new_one_of_its_name_does_not_join(
    harness,
):
    harness.write("a.ipynb", "x = 1")
    used = await harness.call("use_notebook", notebook="a.ipynb")
    await harness.call("execute_cell", cell=CELL)
    await harness.app.contents_manager.delete("a.ipynb")
    await loop_turns()
    assert used.kernel_id in harness.workspace.kernels.ids()
    harness.write("a.ipynb", "print('x' in globals())")
    ran = await harness.call("execute_cell", notebook="a.ipynb", cell=CELL)
    assert ran.runs[0].output.strip() == "False"
    assert "kernel" in ran.full_text()
    again = await harness.call("use_notebook", notebook="a.ipynb")
    assert again.kernel_id != used.kernel_id


@pytest.mark.parametrize("shared", [False, True])
async def test_the_kernel_of_a_deleted_notebook_can_be_shut_down_unless_another_has_it(
    harness, shared
):
    harness.write("a.ipynb", "x = 1")
    harness.write("b.ipynb", "x = 1")
    used = await harness.call("use_notebook", notebook="a.ipynb")
    if shared:
        await harness.call("use_notebook", notebook="b.ipynb", kernel_id=used.kernel_id)
    await harness.app.contents_manager.delete("a.ipynb")
    await loop_turns()
    left = await harness.call("unuse_notebook", notebook="a.ipynb", shutdown_kernel=True)
    assert left.kernel == ("none" if shared else "shut down")
    assert (used.kernel_id in harness.workspace.kernels.ids()) is shared


class Notebooks:
    """Notebooks that are known by the number that their cell adds to a variable."""

    def __init__(self, harness: ToolHarness, fetch: Any, random: Random) -> None:
        self.harness = harness
        self.fetch = fetch
        self.random = random
        self.numbers: dict[str, int] = {}
        self.count = 0

    def create(self) -> None:
        free = [name for name in NAMES if name not in self.numbers]
        if free and self.count < 4:
            self.count += 1
            name = self.random.choice(free)
            self.numbers[name] = self.count
            cell = f"ran = globals().get('ran', set()) | {{{self.count}}}"
            self.harness.write(name, cell)

    async def use(self, tool: str) -> None:
        name = self.random.choice([*self.numbers])
        caller = self.random.choice((ALICE, BOB))
        arguments = {"cell": CELL} if tool == "execute_cell" else {}
        with suppress(NotebookNotFound):  # It was renamed before the call opened it.
            await self.harness.call(tool, caller=caller, notebook=name, **arguments)

    async def open(self) -> None:
        name = self.random.choice([*self.numbers])
        body = json.dumps({"path": name, "name": name, "type": "notebook"})
        await self.fetch("api", "sessions", method="POST", body=body)

    async def rename(self) -> None:
        free = [name for name in NAMES if name not in self.numbers]
        if free:
            old, new = self.random.choice([*self.numbers]), self.random.choice(free)
            sessions = await self.harness.app.session_manager.list_sessions()
            await ensure_async(self.harness.app.contents_manager.rename(old, new))
            self.numbers[new] = self.numbers.pop(old)
            if self.random.random() < 0.5:
                self.create()
            for each in sessions:
                if each["path"] == old:
                    body = json.dumps({"path": new, "name": new})
                    await self.fetch("api", "sessions", each["id"], method="PATCH", body=body)


@pytest.mark.parametrize("seed", range(2))
async def test_cells_run_in_their_own_notebooks_kernel_in_any_order(
    harness: ToolHarness, jp_fetch: Any, jp_root_dir: Path, seed: int
) -> None:
    random = Random(seed)
    notebooks = Notebooks(harness, jp_fetch, random)
    notebooks.create()
    for _ in range(6):
        working = [
            asyncio.create_task(random.choice(each)())
            for each in (
                (lambda: notebooks.use("execute_cell"), lambda: notebooks.use("use_notebook")),
                (notebooks.open, lambda: notebooks.use("execute_cell")),
            )
        ]
        await loop_turns(random.choice((0, 5, 100)))
        await notebooks.rename()
        await asyncio.gather(*working)
    kernels = []
    for name, number in notebooks.numbers.items():
        await harness.call("execute_cell", notebook=name, cell=CELL)
        ran = await harness.call("execute_ipython", notebook=name, code="print(ran)")
        assert ran.runs[0].output.strip() == str({number})
        kernels.append(await harness.workspace.kernel_of(name))
    assert len(set(kernels)) == len(notebooks.numbers)
