"""A late update of a display replaces what its own run has left, and never what is somebody else's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, cast

import nbformat
import pytest

from tests.harness import ToolHarness, backend, documents, harness, jp_server_config
from tests.notebooks.conftest import bench
from tests.support.document_bench import DocumentBench, code, display, notebook, stream
from tests.workspace.list_notebook import ListNotebook
from tk_ai_extension.model.cells import CellContent
from tk_ai_extension.model.executions import Execution
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.operations import Applied, Operation, Replace, SetOutputs
from tk_ai_extension.notebooks.base import NotebookDocument
from tk_ai_extension.workspace.displays import DisplayRegistry

__all__ = ["backend", "bench", "documents", "harness", "jp_server_config"]

pytestmark = pytest.mark.proves("exec:display-elsewhere", "exec:own-source")

SHOWN = [display(text_plain=text, application_json={"n": [1, 2**60]}) for text in "ab"]
"""Few, so that somebody's display often looks like the one that was last written."""
BESIDE = [stream("beside\n"), display(text_plain="beside")]


class Scene:
    """A cell that is run, changed by others, and whose display is updated; with a model of it."""

    def __init__(self, document: NotebookDocument, random: Random) -> None:
        self.document, self.random = document, random
        self.displays = DisplayRegistry()
        self.source, self.count = "a", cast("int | None", None)
        self.outputs: list[Json] = []
        self.left: tuple[Any, ...] | None = None

    async def set(self, *operations: Operation) -> None:
        await self.document.apply(operations)

    async def find(self) -> Any:
        (cell,) = (await self.document.read()).cells
        return cell

    async def results(self) -> None:
        """Results of a run, the agent's or another."""
        self.count = self.random.choice([1, 2])
        self.outputs = [
            self.random.choice(SHOWN),
            *self.random.choice([[], BESIDE[:1], BESIDE[1:]]),
        ]
        await self.set(SetOutputs((await self.find()).key, tuple(self.outputs), self.count))

    async def run(self) -> None:
        """The agent's run."""
        cell = await self.find()
        await self.results()
        execution = Execution("ok", tuple(self.outputs), self.count, displays={"d": (0,)})
        self.displays.ran("k", self.document.path, cell, execution)
        self.left = self.state

    @property
    def state(self) -> tuple[Any, ...]:
        return self.source, self.count, len(self.outputs), self.outputs[:1]

    async def edit(self) -> None:
        cell, self.source = await self.find(), self.random.choice("ab")
        keeps = self.random.random() < 0.8
        if not keeps:
            self.count, self.outputs = None, []
        await self.set(Replace(cell.key, self.source, keep_outputs=keeps, expect=cell.hash))

    async def clear(self) -> None:
        self.count, self.outputs = None, []
        await self.set(SetOutputs((await self.find()).key))

    async def update(self) -> None:
        async def opened(_path: str) -> NotebookDocument:
            return self.document

        new = self.random.choice(SHOWN)
        await self.displays.update("k", {"d": new}, opened)
        if self.left is not None and self.state == self.left:
            self.outputs[0] = new
            self.left = self.state


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("seed", range(4))
async def test_in_every_order_a_display_is_replaced_only_where_its_run_has_left_it(
    bench: DocumentBench, seed: int
) -> None:
    random = Random(seed)
    for _ in range(4):
        scene = Scene(await bench.open(notebook(code("a", "aaaa1111"))), random)
        await scene.run()
        for _ in range(8):
            events = [scene.run, scene.results, scene.edit, scene.clear, scene.update, scene.update]
            await random.choice(events)()
            cell = await scene.find()
            assert (cell.source, cell.execution_count) == (scene.source, scene.count)
            assert list(await scene.document.outputs(cell.key)) == scene.outputs


class Overtaken:
    """A document in which somebody runs the cell just before a change is applied."""

    def __init__(self, document: NotebookDocument, run: SetOutputs) -> None:
        self._document, self._run = document, run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._document, name)

    async def apply(self, operations: Sequence[Operation]) -> Applied:
        await self._document.apply([self._run])
        return await self._document.apply(operations)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_run_during_an_update_stays_and_other_cells_are_updated(
    bench: DocumentBench,
) -> None:
    stored = notebook(*(code("a", cell, outputs=SHOWN[:1]) for cell in ("aaaa1111", "bbbb2222")))
    document = await bench.open(stored)
    displays, theirs = DisplayRegistry(), display(text_plain="theirs")
    for cell in (await document.read()).cells:
        execution = Execution("ok", tuple(SHOWN[:1]), displays={"d": (0,)})
        displays.ran("k", document.path, cell, execution)

    async def opened(_path: str) -> NotebookDocument:
        overtaken: Any = Overtaken(document, SetOutputs("aaaa1111", (theirs,)))
        return overtaken

    await displays.update("k", {"d": SHOWN[1]}, opened)
    assert await document.outputs("aaaa1111") == (theirs,)
    assert await document.outputs("bbbb2222") == (SHOWN[1],)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("seed", range(4))
async def test_the_last_of_overlapping_updates_of_each_display_is_written(
    bench: DocumentBench, seed: int
) -> None:
    random = Random(seed)
    shown = {each: display(text_plain=each) for each in "de"}
    document = await bench.open(
        notebook(*(code("a", cell, outputs=[*shown.values()]) for cell in ("aaaa1111", "bbbb2222")))
    )
    displays = DisplayRegistry()
    for cell in (await document.read()).cells:
        execution = Execution("ok", tuple(shown.values()), displays={"d": (0,), "e": (1,)})
        displays.ran("k", document.path, cell, execution)

    async def opened(_path: str) -> NotebookDocument:
        return document

    updates: list[dict[str, Json]] = []
    for number in range(6):
        ids = random.choice(["d", "e", "de"])
        updates.append({each: display(text_plain=f"{each}{number}") for each in ids})
        shown |= updates[-1]
    await asyncio.gather(*(displays.update("k", each, opened) for each in updates))
    for key in ("aaaa1111", "bbbb2222"):
        assert await document.outputs(key) == tuple(shown.values())


def test_a_display_that_is_nested_too_deeply_is_not_tracked() -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    outputs = display(application_json=nested), display(text_plain="beside")
    (cell,) = ListNotebook([CellContent("code", "a", "aaaa1111")]).snapshot().cells
    displays = DisplayRegistry()
    displays.ran("k", "n.ipynb", cell, Execution("ok", outputs, displays={"d": (0,), "e": (1,)}))
    assert displays.has("k", "e")


def edit_source(cell: Any) -> None:
    cell.source = "display(expensive_plot())"


def run_again(cell: Any) -> None:
    cell.outputs[0].data = {"text/plain": "THEIRS"}


def count_on(cell: Any) -> None:
    cell.execution_count = 77


def nothing(cell: Any) -> None:
    """Save the notebook as it is."""


@pytest.mark.parametrize("change", [edit_source, run_again, count_on, nothing])
async def test_an_agents_handle_updates_no_output_of_a_person(
    harness: ToolHarness, change: Callable[[Any], None]
) -> None:
    path = harness.write("n.ipynb", "h = display('agent', display_id=True)", "h.update('UPDATED')")
    await harness.call("use_notebook", notebook="n.ipynb")
    await harness.call("execute_cell", cell=0)
    stored = await harness.saved("n.ipynb", lambda found: found.cells[0].outputs)
    change(stored.cells[0])
    nbformat.write(stored, path)
    await harness.call("execute_cell", cell=1)
    if change is nothing:
        stored.cells[0].outputs[0].data = {"text/plain": "'UPDATED'"}
    assert harness.on_disk("n.ipynb").cells[0] == stored.cells[0]
