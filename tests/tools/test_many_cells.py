"""Tools in a notebook of very many cells do not hold the event loop."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import ToolHarness
from tests.notebooks.test_large_files import LONGEST_STALL
from tests.support.faults import LoopMeter

CELLS = 5_000


@pytest.fixture
def no_garbage_collection() -> Iterator[None]:
    """No garbage collection: a full one stops all threads for 0.1 s and more with so many objects."""
    gc.disable()
    yield
    gc.enable()


def write(file: Path) -> None:
    """Write a notebook of small cells."""
    cells = ",\n".join(
        f'  {{"cell_type": "code", "execution_count": null, "id": "c{number:07}", '
        f'"metadata": {{}}, "outputs": [], "source": ["x = {number}"]}}'
        for number in range(CELLS)
    )
    rest = '"metadata": {}, "nbformat": 4, "nbformat_minor": 5'
    file.write_text(f'{{\n "cells": [\n{cells}\n ],\n {rest}\n}}\n')


@pytest.mark.usefixtures("no_garbage_collection")
@pytest.mark.proves("fault:huge-notebook")
async def test_very_many_cells_are_listed_changed_and_undone_off_the_loop(
    harness: ToolHarness,
) -> None:
    await asyncio.to_thread(write, harness.root / "many.ipynb")
    many: dict[str, Any] = {"notebook": "many.ipynb"}
    longest: dict[str, float] = {}
    steps: list[tuple[str, dict[str, Any]]] = [
        ("list_notebooks", {}),
        ("list_cells", {**many, "limit": 50}),
        ("read_cell", {**many, "cell": CELLS - 1}),
        ("insert_cell", {**many, "source": "y", "index": 3}),
        ("delete_cell", {**many, "cell": 3}),
        ("undo", many),
    ]
    for tool, arguments in steps:
        with LoopMeter() as meter:
            await harness.call(tool, **arguments)
        longest[tool] = meter.longest
    assert max(longest.values()) < LONGEST_STALL, longest
