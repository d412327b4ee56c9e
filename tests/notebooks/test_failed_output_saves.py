"""Outputs of cells that have ended while saves of their file fail: none is lost without a word."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness import loop_turns
from tests.notebooks.conftest import file_bench
from tests.support.document_bench import code, notebook, stream
from tests.support.document_faults import no_file_larger_than
from tk_ai_extension.model.cells import Cell
from tk_ai_extension.model.errors import DiskFull, NotebookNotFound, ReadOnly, ToolError
from tk_ai_extension.model.outputs import Append
from tk_ai_extension.notebooks.outputs import LASTING, OutputSaver, RunningOutputs, StoredOutputSink

ERRORS = [DiskFull("full"), ReadOnly("read-only"), NotebookNotFound("missing"), KeyError("cells")]


class RandomRuns:
    """Cells that run side by side, in steps that are drawn at random, on a disk that fails at times."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.saver = OutputSaver(
            "n.ipynb",
            [],
            self.save,
            refresh=loop_turns,
            on_idle=lambda: None,
        )
        self.running: dict[RunningOutputs, StoredOutputSink] = {}
        self.all: list[RunningOutputs] = []
        self.errors: dict[RunningOutputs, Exception] = {}
        self.file: dict[RunningOutputs, tuple[int, int | None]] = {}
        self.ended: set[RunningOutputs] = set()
        self.without_file: set[RunningOutputs] = set()
        self.works = False

    async def save(self, runs: Sequence[RunningOutputs]) -> None:
        stored = {run: (len(run.outputs()), run.execution_count) for run in runs}
        turn = asyncio.Event()
        asyncio.get_running_loop().call_soon(turn.set)
        await turn.wait()
        if not self.works and (error := self.data.draw(st.sampled_from([None, *ERRORS]))):
            self.ended = {run for run in runs if run.ended}
            raise error
        self.file |= stored

    async def begin(self) -> None:
        cell_id = f"aaaa{len(self.all):04}"
        run = RunningOutputs(Cell(0, cell_id, "code", "a", id=cell_id), 1)
        self.all.append(run)
        self.running[run] = sink = StoredOutputSink(self.saver)
        await sink.begin(run)

    async def output(self) -> None:
        for run, sink in self.running.items():
            sink.accept(run, [Append(stream("printed"))])

    async def end(self, *, save: bool) -> None:
        if not self.running:
            return
        run, sink = self.running.popitem()
        run.end(7)
        try:
            await sink.end(run, save=save)
        except (ToolError, KeyError) as error:
            self.errors[run] = error
        await sink.release(run, done=True)

    async def flush(self) -> None:
        """As before the update of a display of another cell, which only logs a failure."""
        try:
            await self.saver.save()
        except NotebookNotFound:
            self.without_file |= self.ended
        except (ToolError, KeyError):
            return

    async def save_in_time(self) -> None:
        """An error of it reaches nobody: nothing is given up."""
        with suppress(KeyError):
            await self.saver._save_in_time()

    async def play(self) -> None:
        steps: list[Callable[[], Awaitable[None]]] = [
            self.begin,
            self.output,
            lambda: self.end(save=True),
            lambda: self.end(save=False),
            self.flush,
            self.save_in_time,
        ]
        for _ in range(self.data.draw(st.integers(2, 8))):
            at_once = self.data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=3))
            await asyncio.gather(*(steps[number]() for number in at_once))
            # Whatever is not saved yet has a save ahead.
            ended = [run for run in self.saver.runs if run.ended]
            assert not ended or self.saver._schedule._due is not None
        self.works = True
        while self.running:
            await self.end(save=False)
        await self.saver.save()


@pytest.mark.proves("exec:saved", "fault:disk-full")
@settings(deadline=None)
@given(st.data())
def test_each_cell_that_ended_is_saved_or_its_own_run_has_the_error(
    data: st.DataObject,
) -> None:
    runs = RandomRuns(data)
    asyncio.run(runs.play())
    assert runs.saver.runs == []
    for run in runs.all:
        if run not in runs.without_file and not isinstance(runs.errors.get(run), LASTING):
            assert runs.file[run] == (len(run.outputs()), 7)


@pytest.mark.proves("exec:saved", "fault:disk-full")
async def test_a_disk_that_is_full_for_a_moment_loses_no_outputs_of_a_run_of_several_cells(
    tmp_path: Path,
) -> None:
    async with file_bench(tmp_path) as bench:
        cells = [code("a" * 10_000, "aaaa1111"), code("b", "bbbb2222"), code("c", "cccc3333")]
        document = await bench.open(notebook(*cells))
        async with document.writing("bbbb2222") as writer:
            await writer.start()
            await writer.write([Append(stream("first"))])
            await writer.finish(1, save=False)
        with no_file_larger_than(8_000):
            with pytest.raises(DiskFull):
                await document.flush()
            async with document.writing("cccc3333") as other:
                await other.start()
                await other.write([Append(stream("other"))])
                with pytest.raises(DiskFull):
                    await other.finish(2)
        await document.flush()
        stored = json.loads((tmp_path / document.path).read_bytes())["cells"]
        assert [cell["execution_count"] for cell in stored] == [None, 1, 2]
        assert [len(cell["outputs"]) for cell in stored] == [0, 1, 1]


@pytest.mark.proves("exec:saved", "fault:disk-full")
@pytest.mark.parametrize("change", ["none", "run elsewhere", "another notebook"])
async def test_outputs_that_are_saved_late_are_only_for_the_source_that_ran(
    tmp_path: Path, change: str
) -> None:
    async with file_bench(tmp_path) as bench:
        document = await bench.open(notebook(code("a" * 10_000, "aaaa1111"), code("b", "bbbb2222")))
        file = tmp_path / document.path
        before = file.read_bytes()
        async with document.writing("bbbb2222") as writer:
            await writer.start()
            await writer.write([Append(stream("old"))])
            with no_file_larger_than(8_000), pytest.raises(DiskFull):
                await writer.finish(1)
        stored = json.loads(before)
        if change == "another notebook":
            file.unlink()
            with pytest.raises(NotebookNotFound):
                await document.flush()
            file.write_bytes(before)
        if change == "run elsewhere":
            cell = stored["cells"][1]
            cell["source"] = "new"
            cell["outputs"], cell["execution_count"] = [stream("new")], 7
            file.write_text(json.dumps(stored))
        await document.flush()
        found = json.loads(file.read_bytes())["cells"][1]
        texts = ["".join(output["text"]) for output in found["outputs"]]
        assert (found["execution_count"], texts) == {
            "none": (1, ["old"]),
            "run elsewhere": (7, ["new"]),
            "another notebook": (None, []),
        }[change]
