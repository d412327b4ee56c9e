"""Files that are JSON but hold odd values: read with warnings or refused by name, never anything else."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.notebooks.conftest import file_bench
from tests.support.document_bench import code, display, notebook, prose, stream
from tk_ai_extension.model.cell_marked_text import render
from tk_ai_extension.model.cell_operations import Insert, Replace, expecting
from tk_ai_extension.model.cells import CellData
from tk_ai_extension.model.errors import InvalidNotebook
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.output_changes import AppendOutput, summarise
from tk_ai_extension.model.output_text import digest

WHOLE = notebook(
    code(
        "a",
        "aaaa1111",
        execution_count=1,
        outputs=[
            stream("printed"),
            display(text_plain="shown", text_html="<b>shown</b>", image_png="aGk="),
            {**display(application_json={"a": [1]}), "output_type": "display_data"},
            {**display(text_plain="2"), "output_type": "execute_result", "execution_count": 1},
            {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["a", "b", "c"]},
        ],
        metadata={"tags": ["keep"], "collapsed": False, "jupyter": {"source_hidden": True}},
    ),
    prose("# Title", "bbbb2222", attachments={"a.png": {"image/png": "aGk="}}),
    code("b", "cccc3333"),
)

Place = tuple[str | int, ...]
DEEP = "deep"
"""Stands for a value that is nested as deeply as JSON's own reader bears."""


def changed(stored: Json, place: Place, value: Any) -> bytes:
    """The notebook with another value at a place, as text."""
    new = copy.deepcopy(stored)
    at: Any = new
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    depth = 300
    deep = '{"a": [' * depth + "1" + "]}" * depth
    return json.dumps(new, indent=1).replace(f'"{DEEP}"', deep).encode()


OLD = {
    "metadata": {"name": "old"},
    "nbformat": 3,
    "nbformat_minor": 0,
    "worksheets": [
        {
            "metadata": {},
            "cells": [
                {
                    "cell_type": "code",
                    "input": ["a"],
                    "language": "python",
                    "metadata": {},
                    "outputs": [
                        {"output_type": "pyout", "prompt_number": 1, "text": ["shown"]},
                        {"output_type": "stream", "stream": "stdout", "text": ["printed"]},
                        {"output_type": "pyerr", "ename": "E", "evalue": "v", "traceback": ["a"]},
                    ],
                    "prompt_number": 1,
                },
                {"cell_type": "heading", "level": 1, "metadata": {}, "source": ["Title"]},
            ],
        }
    ],
}


OUTPUTS: Place = ("cells", 0, "outputs")


def names_the_place(refusal: InvalidNotebook, name: str) -> None:
    assert refusal.message.startswith(f"{name}, line ")
    assert {"line", "column"} <= refusal.details.keys()


async def use(root: Path, data: bytes) -> None:
    """Reads all there is, then edits; nothing but a typed error may come of it."""
    file = root / "odd.ipynb"
    file.write_bytes(data)
    async with file_bench(root) as bench:
        try:
            document = await bench.store.open("odd.ipynb")
            snapshot = await document.read()
        except InvalidNotebook as refusal:
            names_the_place(refusal, "odd.ipynb")
            return
        finally:
            assert file.read_bytes() == data
        assert render(snapshot).startswith("# %% notebook: odd.ipynb")
        assert len(snapshot.short_keys) == len(snapshot.cells)
        assert isinstance(snapshot.language, str)
        assert snapshot.kernel_name is None or snapshot.kernel_name
        for cell in snapshot.cells:
            outputs = await document.outputs(cell.key)
            summarise(outputs)
            assert isinstance(digest(outputs).text, str)
        await document.raw()
        assert file.read_bytes() == data
        if not snapshot.cells:
            return
        try:
            key = snapshot.cells[0].key
            edits = [Replace(key, "new"), Insert(CellData("markdown", "more"))]
            await document.apply(expecting(await document.read(), edits))
            if snapshot.cells[0].type == "code":
                async with document.writing(key) as writer:
                    writer.start()
                    await writer.write([AppendOutput(stream("printed"))])
        except InvalidNotebook:
            assert file.read_bytes() == data
            return
        assert (await document.read()).cells[0].source == "new"


ODD: list[tuple[Json, Place, Any]] = [
    (WHOLE, ("nbformat",), float("nan")),
    (WHOLE, ("nbformat",), 3),
    (WHOLE, ("nbformat_minor",), 10**400),
    (WHOLE, ("metadata",), None),
    (WHOLE, ("metadata", "kernelspec"), ["python3"]),
    (WHOLE, ("cells", 0, "id"), "\ud800"),
    (WHOLE, ("cells", 0, "source"), {"a": 1}),
    (WHOLE, ("cells", 0, "execution_count"), float("inf")),
    (WHOLE, ("cells", 0, "metadata"), DEEP),
    (WHOLE, ("cells", 0, "outputs"), "shown"),
    (WHOLE, (*OUTPUTS, 0, "text"), [5]),
    (WHOLE, (*OUTPUTS, 0, "name"), [5]),
    (WHOLE, (*OUTPUTS, 1, "data"), [1]),
    (WHOLE, (*OUTPUTS, 1, "data"), DEEP),
    (WHOLE, (*OUTPUTS, 1, "data", "image/png"), {"a": float("nan")}),
    (WHOLE, (*OUTPUTS, 4, "traceback"), True),
    (WHOLE, ("cells", 1, "attachments"), []),
    (OLD, ("nbformat",), 2),
    (OLD, ("worksheets",), {}),
    (OLD, ("worksheets", 0, "cells", 0, "input"), 5),
    (OLD, ("worksheets", 0, "cells", 0, "outputs", 0), DEEP),
]


@pytest.mark.proves("doc:errors", "doc:lenient")
@pytest.mark.parametrize(("stored", "place", "value"), ODD)
async def test_an_odd_value_is_a_warning_or_a_typed_error(
    tmp_path: Path, stored: Json, place: Place, value: Any
) -> None:
    await use(tmp_path, changed(stored, place, value))
