"""Files that are JSON but hold odd values: read with warnings or refused by name, never anything else."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.notebooks.conftest import file_bench
from tests.support.document_bench import code, display, notebook, prose, stream
from tk_ai_extension.model.cells import CellContent
from tk_ai_extension.model.celltext import render
from tk_ai_extension.model.digest import digest
from tk_ai_extension.model.errors import InvalidNotebook
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.operations import Insert, Replace, expecting
from tk_ai_extension.model.outputs import Append, summarise
from tk_ai_extension.notebooks.reading import read_notebook

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


def places(value: Any, above: Place = ()) -> Iterator[Place]:
    """Where each value in a JSON value is."""
    if above:
        yield above
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(item, (*above, key))


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


RANDOM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

DEEP = "deep"
"""Stands for a value that is nested as deeply as JSON's own reader bears."""


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.just(10**400)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["", "\ud800", "cell-1", "code", "stream", "error", "text/plain", "\0"])
)
keys = st.text(max_size=3) | st.sampled_from(["name", "text", "data", "text/plain", "image/png"])
odd = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3)
)
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
            edits = [Replace(key, "new"), Insert(CellContent("markdown", "more"))]
            await document.apply(expecting(await document.read(), edits))
            if snapshot.cells[0].type == "code":
                async with document.writing(key) as writer:
                    await writer.start()
                    await writer.write([Append(stream("printed"))])
        except InvalidNotebook:
            assert file.read_bytes() == data
            return
        assert (await document.read()).cells[0].source == "new"


@pytest.mark.proves("doc:errors", "doc:lenient")
@settings(RANDOM, max_examples=40)
@given(place=st.sampled_from(sorted(places(WHOLE), key=str)), value=odd)
@example(place=("nbformat",), value=float("nan"))
@example(place=("nbformat",), value=float("inf"))
@example(place=("nbformat",), value=3)
@example(place=("nbformat",), value=10**400)
@example(place=("nbformat_minor",), value=float("-inf"))
@example(place=("cells", 0, "execution_count"), value=float("inf"))
@example(place=("cells", 0, "execution_count"), value=float("nan"))
@example(place=(*OUTPUTS, 0, "text"), value=[5])
@example(place=(*OUTPUTS, 0, "name"), value=[5])
@example(place=(*OUTPUTS, 1, "data"), value=[1])
@example(place=(*OUTPUTS, 1, "data"), value=DEEP)
@example(place=("cells", 0, "metadata"), value=DEEP)
@example(place=(*OUTPUTS, 1, "data", "image/png"), value={"a": float("nan")})
@example(place=(*OUTPUTS, 4, "traceback"), value=5)
@example(place=(*OUTPUTS, 4, "traceback"), value=True)
def test_any_json_value_anywhere_is_a_warning_or_a_typed_error(
    tmp_path_factory: pytest.TempPathFactory, place: Place, value: Any
) -> None:
    asyncio.run(use(tmp_path_factory.getbasetemp(), changed(WHOLE, place, value)))


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


@pytest.mark.proves("doc:errors", "doc:lenient")
@settings(RANDOM, max_examples=60)
@given(place=st.sampled_from(sorted(places(OLD), key=str)), value=odd)
@example(place=("nbformat",), value=1)
@example(place=("nbformat",), value=2)
@example(place=("nbformat",), value=float("nan"))
@example(place=("worksheets", 0, "cells", 0, "outputs", 0), value=DEEP)
def test_old_formats_with_odd_values_are_read_or_refused(place: Place, value: Any) -> None:
    try:
        index = read_notebook(changed(OLD, place, value), "old.ipynb")
    except InvalidNotebook as refusal:
        names_the_place(refusal, "old.ipynb")
    else:
        assert index.warnings
