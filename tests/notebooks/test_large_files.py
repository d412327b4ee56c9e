"""Large notebooks never hold the event loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.notebooks.conftest import file_bench
from tests.support.document_bench import DocumentBench, sources, stream
from tests.support.faults import LoopMeter
from tk_ai_extension.model.cell_marked_text import render
from tk_ai_extension.model.cell_operations import Insert, Move, Replace
from tk_ai_extension.model.cells import CellData
from tk_ai_extension.model.output_changes import AppendOutput

LONGEST_STALL = 0.2
"""Seconds for which the loop may be blocked, on a machine that runs other tests at the same time."""


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
                Insert(CellData("markdown", "new"), index=0),
                Move(snapshot.cells[-1].key, 1),
            ]
        )
        async with document.writing(key) as writer:
            writer.start()
            await writer.write([AppendOutput(stream("out"))])
            await writer.finish(1)
        again = await (await bench.store.open("large.ipynb")).read()
    assert sources(again.cells[:2]) == ["new", f"cell {cells - 1}"]
    assert again.cell(key).source == "edited"
    return meter.longest


@pytest.mark.proves("fault:huge-notebook")
async def test_30_megabytes_are_used_without_holding_the_loop(bench: DocumentBench) -> None:
    assert await use(bench, 1_000, 30_000_000) < LONGEST_STALL


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.proves("fault:huge-notebook")
async def test_200_megabytes_work(bench: DocumentBench) -> None:
    await use(bench, 5_000, 200_000_000)
