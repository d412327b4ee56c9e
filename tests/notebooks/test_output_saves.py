"""How often the outputs of cells that run are saved, and what happens when that fails."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.notebooks.conftest import file_bench
from tests.support.document_bench import DEADLINE, DocumentBench, code, notebook, stream
from tests.support.document_faults import no_file_larger_than
from tk_ai_extension.model.errors import DiskFull, NotebookNotFound
from tk_ai_extension.model.output_changes import AppendOutput
from tk_ai_extension.notebooks.running_outputs import SAVE_DELAY


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
            writer.start()
            await writer.write([AppendOutput(stream(f"{number}"))])
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
        writer.start()
        await writer.write([AppendOutput(stream("printed"))])
        await writer.finish(1, save=False)
    ended = time.monotonic() + DEADLINE
    while (bench.root / document.path).read_bytes() == before and time.monotonic() < ended:  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    stored = json.loads((bench.root / document.path).read_bytes())["cells"][0]
    assert (stored["execution_count"], stored["outputs"][0]["text"]) == (1, ["printed"])


@pytest.mark.proves("exec:saved", "fault:disk-full")
async def test_a_disk_that_is_full_for_a_moment_loses_no_outputs_of_a_run_of_several_cells(
    tmp_path: Path,
) -> None:
    async with file_bench(tmp_path) as bench:
        cells = [code("a" * 10_000, "aaaa1111"), code("b", "bbbb2222"), code("c", "cccc3333")]
        document = await bench.open(notebook(*cells))
        async with document.writing("bbbb2222") as writer:
            writer.start()
            await writer.write([AppendOutput(stream("first"))])
            await writer.finish(1, save=False)
        with no_file_larger_than(8_000):
            with pytest.raises(DiskFull):
                await document.flush()
            async with document.writing("cccc3333") as other:
                other.start()
                await other.write([AppendOutput(stream("other"))])
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
            writer.start()
            await writer.write([AppendOutput(stream("old"))])
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
