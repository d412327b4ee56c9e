"""A version replaces reading a cell only if it is at least four digits of the present source's hash."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.harness import ALICE, NOBODY, ToolHarness
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.cells import source_hash
from tk_ai_extension.model.errors import CellNotFound, Conflict, InvalidArguments
from tk_ai_extension.tools.registry import Registry

SOURCE = "b = 2\nprint(b)"
HASH = source_hash(SOURCE)


def _calls(path: str, version: str) -> list[tuple[str, dict[str, Any]]]:
    """Each tool that changes one cell, with a version of that cell."""
    address = f"cellb000.{version}"
    by_index = {"path": "n.ipynb", "cell_index": 1, "version": version}
    operations = [
        {"action": "delete", "cell": address},
        {"action": "overwrite", "cell": address, "source": "x"},
        {"action": "edit", "cell": address, "old": "2", "new": "x"},
    ]
    return [
        ("notebook", {**by_index, "action": "delete"}),
        ("notebook", {**by_index, "action": "edit", "content": "x"}),
        ("NotebookEdit", {"notebook_path": path, "cell_id": address, "edit_mode": "delete"}),
        ("NotebookEdit", {"notebook_path": path, "cell_id": address, "new_source": "x"}),
        ("overwrite_cell", {"notebook": "n.ipynb", "cell": address, "source": "x"}),
        ("edit_cell", {"notebook": "n.ipynb", "cell": address, "old": "2", "new": "x"}),
        ("delete_cell", {"notebook": "n.ipynb", "cell": address}),
        *(("edit_cells", {"notebook": "n.ipynb", "operations": [each]}) for each in operations),
    ]


_VERSIONS = st.one_of(
    st.integers(0, 3).map(lambda length: HASH[:length]),
    st.text("0123456789abcdef", max_size=66),
    st.integers(4, 32).map(lambda length: HASH[:length].upper()),
    st.sampled_from(
        [" ", "\n", HASH[:8] + "\n", " " + HASH[:8], HASH + "0", "0" * 65, ".*", "٠١٢٣"]
    ),
    st.text(max_size=8),
)


@pytest.mark.proves("doc:conflict")
async def test_no_other_version_replaces_reading(harness: ToolHarness) -> None:
    harness = replace(harness, registry=Registry.load(("default", "claude-code", "omp")))
    file = harness.write("n.ipynb", "a = 1", SOURCE)
    before, loop, numbers = file.read_bytes(), asyncio.get_running_loop(), count()

    async def check(tool: str, arguments: dict[str, Any]) -> None:
        # A conflict counts as reading, so each call is another caller's.
        fresh = Caller(ALICE.user, f"session {next(numbers)}", "mcp")
        for caller in (fresh, NOBODY):
            with pytest.raises((Conflict, InvalidArguments, CellNotFound)):
                await harness.call(tool, caller=caller, **arguments)
            assert file.read_bytes() == before

    @settings(max_examples=60, deadline=None)
    @given(version=_VERSIONS)
    @example(version="")
    def examples(version: str) -> None:
        for tool, arguments in _calls(str(file), version):
            # Addresses are stripped.
            given = version if tool == "notebook" else version.rstrip()
            if len(given) >= 4 and HASH.startswith(given):
                continue
            asyncio.run_coroutine_threadsafe(check(tool, arguments), loop).result()

    await asyncio.to_thread(examples)


@pytest.mark.proves("doc:conflict")
@pytest.mark.parametrize("length", [4, 8, len(HASH)])
async def test_a_version_of_four_digits_and_more_replaces_reading(
    harness: ToolHarness, length: int
) -> None:
    harness = replace(harness, registry=Registry.load(("default", "claude-code", "omp")))
    file = harness.write("n.ipynb", "a = 1", SOURCE)
    for tool, arguments in _calls(str(file), HASH[:length]):
        await harness.call(tool, caller=NOBODY, **arguments)
        harness.write("n.ipynb", "a = 1", SOURCE)
