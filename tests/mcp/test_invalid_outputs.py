"""Outputs of any JSON shape as resources: shown as far as possible, or refused with a typed error."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mcp_types as types
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp.shared.exceptions import MCPError

from tests.cases import Cases
from tests.mcp.conftest import Connect
from tk_ai_extension.mcp.resources import Resources
from tk_ai_extension.mcp.uris import NotebookUri

MIMES = ("text/plain", "text/html", "application/json", "image/png", "image/svg+xml", "a/b+json")
TEXT = "shown"


def nested(depth: int) -> Any:
    value: list[Any] = [TEXT]
    for _ in range(depth):
        value = [value]
    return value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(MIMES), inner),
    max_leaves=8,
)
DEEP = st.builds(nested, st.sampled_from([90, 900, 970, 2_000]))
VALUES = JSON | DEEP | st.dictionaries(st.sampled_from(MIMES), JSON | DEEP)
MEMBERS = ("data", "text", "traceback", "ename", "evalue", "name", "metadata")
OUTPUTS = st.fixed_dictionaries(
    {"output_type": st.sampled_from(["stream", "error", "display_data", "execute_result"]) | JSON},
    optional=dict.fromkeys(MEMBERS, VALUES),
)


async def read(reading: Awaitable[Any]) -> tuple[Any, Any]:
    """What is read, and the typed error if nothing is."""
    try:
        return await reading, None
    except MCPError as error:
        return None, error.error.data["error"]


def resources_of(output: Any) -> Resources:
    """Resources of a notebook with one output."""

    class Notebook:
        def find(self, _cell: str) -> Any:
            return SimpleNamespace(key="cell0000"), None

        async def open(self, _caller: object, _path: str) -> Any:
            return self

        async def read(self) -> Any:
            return self

        async def outputs(self, _cell: str) -> Any:
            return (output,)

    workspace: Any = Notebook()
    unused: Any = None
    return Resources(workspace, unused, unused, lambda _context: unused)


@pytest.mark.proves("mcp:resources", "mcp:errors")
@given(output=OUTPUTS)
@example(output={"output_type": "display_data", "data": ["x"]})
@example(output={"output_type": "display_data", "data": "x"})
@example(output={"output_type": "display_data", "data": {"text/html": [1, None, "a"]}})
async def test_any_output_is_served_or_refused_with_a_typed_error(output: Any) -> None:
    context: Any = SimpleNamespace(protocol_version="2025-11-25")
    place = NotebookUri("a.ipynb", "cell0000", 0)
    contents, error = await read(resources_of(output).contents(context, place))
    if error is not None:
        assert error["code"] == "not_readable"
        assert error["hint"]
    else:
        types.ReadResourceResult(contents=contents).model_dump_json()


NONSENSE: tuple[Any, ...] = (None, True, 7, "x", [1, None], ["x"], {"a": 1}, [], {}, nested(50))


@pytest.mark.proves("mcp:resources", "mcp:errors")
async def test_what_is_valid_beside_invalid_data_is_served(
    connect: Connect, jp_root_dir: Path
) -> None:
    cell = {"cell_type": "code", "id": "cell0000", "metadata": {}, "execution_count": None}
    outputs = [
        output
        for value in NONSENSE
        for output in (
            {"output_type": "display_data", "metadata": {}, "data": value},
            {"output_type": "stream", "name": "stdout", "text": value},
            {"output_type": "error", "ename": "E", "evalue": TEXT, "traceback": value},
            {"output_type": "display_data", "data": {"a/b": TEXT, "text/html": value}},
        )
    ]
    notebook = {
        "cells": [{**cell, "source": "1", "outputs": outputs}],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    (jp_root_dir / "a.ipynb").write_text(json.dumps(notebook))
    async with asyncio.timeout(60), connect() as client:
        with Cases() as cases:
            for number, output in enumerate(outputs):
                with cases.case(output):
                    uri = f"notebook://a.ipynb/cells/cell0000/outputs/{number}"
                    found, error = await read(client.read_resource(uri))
                    data = output.get("data")
                    if "data" in output and data and not isinstance(data, dict):
                        assert error["code"] == "not_readable"
                        continue
                    assert error is None
                    # An empty bundle has no contents.
                    assert len(found.contents) == (len(data or ()) if "data" in output else 1)
                    if isinstance(data, dict) and "a/b" in data:
                        assert found.contents[0].text == TEXT
