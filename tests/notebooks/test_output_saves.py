"""How often the outputs of cells that run are saved, and what happens when that fails or takes long."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.harness import loop_turns
from tests.notebooks.conftest import file_bench
from tests.support.document_bench import DEADLINE, DocumentBench, code, notebook, stream
from tk_ai_extension.model.cells import Cell
from tk_ai_extension.model.errors import DiskFull, ReadOnly, ToolError
from tk_ai_extension.model.outputs import Append
from tk_ai_extension.notebooks import outputs
from tk_ai_extension.notebooks.document import NotebookDocument
from tk_ai_extension.notebooks.notebook import Notebook
from tk_ai_extension.notebooks.outputs import (
    MAX_DELAY,
    SAVE_DELAY,
    SAVE_SHARE,
    CellOutputWriter,
    Find,
    OutputSaver,
    OutputSink,
    RunningCell,
    RunningOutputs,
    StoredOutputSink,
)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[DocumentBench]:
    async with file_bench(tmp_path) as made:
        yield made


async def test_many_cells_in_a_row_are_saved_once_a_second_and_not_one_by_one(
    bench: DocumentBench,
) -> None:
    count = 100
    cells = [code(f"{n}", f"aaaa{n:04}") for n in range(count)]
    document = await bench.open(notebook(*cells))
    file, saves = bench.root / document.path, set[int]()
    started = time.monotonic()
    for number in range(count):
        async with document.writing(f"aaaa{number:04}") as writer:
            await writer.start()
            await writer.write([Append(stream(f"{number}"))])
            await writer.finish(number + 1, save=False)
        saves.add(file.stat().st_ino)
    await document.flush()
    assert len(saves) <= 1 + (time.monotonic() - started) / SAVE_DELAY
    stored = json.loads((bench.root / document.path).read_bytes())
    assert [cell["execution_count"] for cell in stored["cells"]] == list(range(1, count + 1))


@pytest.mark.proves("exec:saved")
async def test_a_cell_that_ended_without_a_save_is_saved_soon_by_itself(
    bench: DocumentBench,
) -> None:
    document = await bench.open(notebook(code("a", "aaaa1111")))
    before = (bench.root / document.path).read_bytes()
    async with document.writing("aaaa1111") as writer:
        await writer.start()
        await writer.write([Append(stream("printed"))])
        await writer.finish(1, save=False)
    ended = time.monotonic() + DEADLINE
    while (bench.root / document.path).read_bytes() == before and time.monotonic() < ended:  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    stored = json.loads((bench.root / document.path).read_bytes())["cells"][0]
    assert (stored["execution_count"], stored["outputs"][0]["text"]) == (1, ["printed"])


class Disk:
    """A slow or a failing disk."""

    def __init__(self, error: ToolError | None = None, *, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.error = error
        self.saves = asyncio.Semaphore(0)
        self.idle = asyncio.Event()
        self.saver = OutputSaver(
            "n.ipynb",
            [],
            self.save,
            refresh=loop_turns,
            on_idle=self.idle.set,
        )

    async def save(self, runs: Sequence[RunningOutputs]) -> None:  # noqa: ARG002
        deadline = asyncio.get_running_loop().time() + self.seconds
        while (left := deadline - asyncio.get_running_loop().time()) > 0:
            await asyncio.to_thread(Event().wait, left)
        self.saves.release()
        if self.error is not None:
            raise self.error


CELL = Cell(0, "aaaa1111", "code", "a", id="aaaa1111")


class SavedNotebook(NotebookDocument):
    """A notebook of one cell, whose outputs a saver saves."""

    backend = "file"

    async def read(self) -> Any:
        """Not called."""

    async def pull(self, look: Any) -> Any:
        """Not called."""

    async def attempt(self, operations: Any, number: int) -> Any:
        """Not called."""

    def __init__(self, saver: OutputSaver) -> None:
        super().__init__(Notebook("n.ipynb"))
        self.saver = saver

    async def locate(self, find: Find) -> RunningCell:  # noqa: ARG002
        return RunningCell(CELL, 1, StoredOutputSink(self.saver))

    async def is_current(self, sink: OutputSink) -> bool:  # noqa: ARG002
        return True


@asynccontextmanager
async def writing(saver: OutputSaver) -> AsyncGenerator[CellOutputWriter]:
    document: Any = SavedNotebook(saver)
    async with document.writing(CELL.key) as writer:
        yield writer


async def test_a_save_that_takes_long_puts_the_next_one_off() -> None:
    disk = Disk(seconds=0.3)
    async with writing(disk.saver) as writer:
        await writer.start()
        await writer.finish(1)
        assert SAVE_SHARE * 0.3 <= disk.saver.delay <= MAX_DELAY
        disk.seconds = 0.0
        await disk.saver.save()
    assert disk.idle.is_set()


@pytest.mark.proves("fault:disk-full")
async def test_a_save_that_fails_is_tried_again_later_and_later_also_after_the_end_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outputs, "SAVE_DELAY", 0.05)
    disk = Disk(DiskFull("full"))
    async with writing(disk.saver) as writer:
        await writer.start()
        await asyncio.wait_for(disk.saves.acquire(), DEADLINE)
        await asyncio.wait_for(disk.saves.acquire(), DEADLINE)
        assert disk.saver.delay >= 0.1
        with pytest.raises(DiskFull):
            await writer.finish(1)
    assert not disk.idle.is_set()
    disk.error = None
    await asyncio.wait_for(disk.idle.wait(), DEADLINE)
    assert disk.saver.runs == []


@pytest.mark.proves("fault:disk-full")
async def test_the_outputs_of_a_run_with_a_lasting_error_are_given_up() -> None:
    disk = Disk(ReadOnly("n.ipynb cannot be written."))
    async with writing(disk.saver) as writer:
        await writer.start()
        with pytest.raises(ReadOnly):
            await writer.finish(1)
    assert disk.idle.is_set()
    assert disk.saver.runs == []


@pytest.mark.proves("fault:disk-full")
async def test_outputs_that_cannot_be_saved_are_given_up_at_last_once_no_cell_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outputs, "SAVE_DELAY", 0.05)
    monkeypatch.setattr(outputs, "MAX_RETRY", 0.0)
    disk = Disk(DiskFull("full"))
    async with writing(disk.saver) as writer:
        await writer.start()
        await writer.finish(1, save=False)
        with pytest.raises(DiskFull):
            await disk.saver.save()
        assert disk.saver.runs == [writer.run]
    await asyncio.wait_for(disk.idle.wait(), DEADLINE)
    assert disk.saver.runs == []


@pytest.mark.proves("fault:flood")
async def test_output_during_a_save_is_saved_when_the_cell_ends() -> None:
    saved: list[int] = []
    saving, go_on = asyncio.Event(), asyncio.Event()

    async def save(runs: Sequence[RunningOutputs]) -> None:
        saved.append(sum(len(run.outputs()) for run in runs))
        saving.set()
        await go_on.wait()

    saver = OutputSaver("n.ipynb", [], save, refresh=loop_turns, on_idle=lambda: None)
    async with writing(saver) as writer:
        await writer.start()
        await writer.write([Append(stream("began"))])
        await asyncio.wait_for(saving.wait(), DEADLINE)
        await writer.write([Append(stream("the tail"))])
        ending = asyncio.create_task(writer.finish(1))
        asyncio.get_running_loop().call_soon(go_on.set)
        await asyncio.wait_for(ending, DEADLINE)
    assert saved == [1, 2]
    assert saver.runs == []
