"""Large notebooks are read by another process, and never hold the event loop."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.notebooks.conftest import file_bench
from tk_ai_extension.model.cells import CellContent
from tk_ai_extension.model.celltext import render
from tk_ai_extension.model.errors import InternalError, InvalidNotebook, NotebookNotFound
from tk_ai_extension.model.operations import Insert, Move, Replace
from tk_ai_extension.model.outputs import Append
from tk_ai_extension.notebooks.files.indexing import FileVersion, is_racy
from tk_ai_extension.notebooks.files.state import INLINE
from tk_ai_extension.notebooks.files.store import NotebookFiles
from tk_ai_extension.notebooks.reading import read_notebook
from tk_ai_extension.testing.document_bench import DEADLINE, DocumentBench, sources, stream
from tk_ai_extension.testing.faults import LoopMeter

LONGEST_STALL = 0.2
"""Seconds that the loop may stand still, on a machine that runs other tests beside this one."""


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[DocumentBench]:
    async with file_bench(tmp_path) as made:
        yield made


def generate(file: Path, cells: int, size: int) -> None:
    """A notebook of so many cells with text, a table and a picture each, of ``size`` bytes."""
    each = size // cells
    text = json.dumps([f"row {n} ü\n" for n in range(each // 3 // 12)], ensure_ascii=False)
    table = json.dumps({"data": [[n * 0.37, n] for n in range(each // 3 // 12)]})
    picture = "iVBORw0K" * (each // 3 // 8)
    with file.open("w", encoding="utf-8") as opened:
        opened.write('{\n "cells": [')
        for number in range(cells):
            opened.write(
                f"""{"," * bool(number)}
  {{
   "cell_type": "code",
   "execution_count": {number},
   "id": "c{number:07}",
   "metadata": {{}},
   "outputs": [
    {{"name": "stdout", "output_type": "stream", "text": {text}}},
    {{"data": {{"application/json": {table}}}, "metadata": {{}}, "output_type": "display_data"}},
    {{"data": {{"image/png": "{picture}"}}, "metadata": {{}}, "output_type": "display_data"}}
   ],
   "source": ["cell {number}"]
  }}"""
            )
        opened.write('\n ],\n "metadata": {},\n "nbformat": 4,\n "nbformat_minor": 5\n}\n')


async def use(bench: DocumentBench, cells: int, size: int) -> float:
    """Lists, pages, edits and runs cells of a large notebook; returns the longest stall in seconds."""
    file = bench.root / "large.ipynb"
    await asyncio.to_thread(generate, file, cells, size)
    document = await bench.store.open("large.ipynb")
    with LoopMeter() as meter:
        snapshot = await document.read()
        assert len(snapshot.cells) == cells
        page = render(snapshot, range(cells // 2, cells // 2 + 50))
        assert f"cell {cells // 2}\n" in page
        key = snapshot.cells[cells // 2].key
        assert [o["output_type"] for o in await document.outputs(key)] == [
            "stream",
            "display_data",
            "display_data",
        ]
        await document.apply(
            [
                Replace(key, "edited"),
                Insert(CellContent("markdown", "new"), index=0),
                Move(snapshot.cells[-1].key, 1),
            ]
        )
        async with document.writing(key) as writer:
            await writer.start()
            await writer.write([Append(stream("out"))])
            await writer.finish(1)
        again = await (await bench.store.open("large.ipynb")).read()
    assert sources(again.cells[:2]) == ["new", f"cell {cells - 1}"]
    assert again.by_key[key].source == "edited"
    return meter.longest


@pytest.mark.proves("fault:huge-notebook")
async def test_30_megabytes_are_used_without_holding_the_loop(bench: DocumentBench) -> None:
    assert await use(bench, 1_000, 30_000_000) < LONGEST_STALL


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.proves("fault:huge-notebook")
async def test_200_megabytes_are_used_without_holding_the_loop(bench: DocumentBench) -> None:
    assert await use(bench, 5_000, 200_000_000) < LONGEST_STALL


async def test_the_reader_process_gives_the_same_as_reading_here(bench: DocumentBench) -> None:
    file = bench.root / "n.ipynb"
    generate(file, 20, INLINE + 100_000)
    snapshot = await (await bench.store.open("n.ipynb")).read()
    here = read_notebook(file.read_bytes(), "n.ipynb")
    assert snapshot.cells == here.cells
    assert await (await bench.store.open("n.ipynb")).raw() == json.loads(file.read_bytes())


async def test_a_large_broken_notebook_is_refused_by_place(bench: DocumentBench) -> None:
    path = bench.put(b'{"cells": [\n' + b" " * INLINE + b"x]}")
    os.utime(bench.root / path, (1, 1))
    with pytest.raises(InvalidNotebook, match=path) as raised:
        await (await bench.store.open(path)).read()
    assert (raised.value.details["line"], raised.value.details["column"]) == (2, INLINE + 1)


async def test_a_large_notebook_that_goes_is_gone(bench: DocumentBench) -> None:
    file = bench.root / "n.ipynb"
    generate(file, 5, INLINE + 100_000)
    document = await bench.store.open("n.ipynb")
    file.unlink()
    with pytest.raises(NotebookNotFound):
        await document.read()


def indexer_process(bench: DocumentBench) -> asyncio.subprocess.Process | None:
    files = bench.store._store  # pyrefly: ignore[missing-attribute]
    assert isinstance(files, NotebookFiles)
    return files._indexer._process


async def test_the_process_may_die_and_the_next_read_has_a_new_one(bench: DocumentBench) -> None:
    file = bench.root / "n.ipynb"
    generate(file, 5, INLINE + 100_000)
    await (await bench.store.open("n.ipynb")).read()
    process = indexer_process(bench)
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    await asyncio.wait_for(process.wait(), DEADLINE)
    file.write_bytes(file.read_bytes() + b"\n")
    assert len((await (await bench.store.open("n.ipynb")).read()).cells) == 5


async def test_a_process_that_dies_while_it_reads_is_reported(
    bench: DocumentBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = bench.root / "n.ipynb"
    generate(file, 5, INLINE + 100_000)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    document = await bench.store.open("n.ipynb")
    with pytest.raises(InternalError):
        await document.read()
    monkeypatch.undo()
    assert len((await document.read()).cells) == 5


async def test_a_cancelled_read_leaves_no_answer_for_the_next(bench: DocumentBench) -> None:
    generate(bench.root / "n.ipynb", 5, INLINE + 100_000)
    generate(bench.root / "m.ipynb", 7, INLINE + 100_000)
    reading = asyncio.create_task((await bench.store.open("n.ipynb")).read())
    await asyncio.wait([reading], timeout=0.02)
    reading.cancel()
    await asyncio.wait([reading])
    assert len((await (await bench.store.open("m.ipynb")).read()).cells) == 7


async def test_no_process_is_left_when_the_store_is_closed(tmp_path: Path) -> None:
    async with file_bench(tmp_path) as bench:
        generate(tmp_path / "n.ipynb", 5, INLINE + 100_000)
        await (await bench.store.open("n.ipynb")).read()
        process = indexer_process(bench)
        assert process is not None
    assert process.returncode is not None


def bytes_read() -> int:
    """How many bytes this process has read, by Linux's count."""
    counts = dict(at.split(": ") for at in Path("/proc/self/io").read_text().splitlines())
    return int(counts["rchar"])


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="Linux counts the bytes read")
@pytest.mark.proves("doc:outputs-once")
async def test_outputs_of_all_cells_read_the_file_about_once(bench: DocumentBench) -> None:
    file = bench.root / "n.ipynb"
    generate(file, 300, INLINE // 2)
    document = await bench.store.open("n.ipynb")
    # The index is as old as the file: another write could leave the same version behind.
    snapshot = await document.read()
    while is_racy(FileVersion.of(file.stat()), time.time_ns()):  # noqa: ASYNC110 - for 25 ms
        await asyncio.sleep(0)
    before = bytes_read()
    for cell in snapshot.cells:
        assert len(await document.outputs(cell.key)) == 3
    assert bytes_read() - before < 4 * file.stat().st_size
