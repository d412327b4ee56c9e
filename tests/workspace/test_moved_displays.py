"""Displays are updated in the cell that has shown them, wherever others have moved it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.notebooks.conftest import file_bench
from tests.support.document_bench import code, display, notebook
from tk_ai_extension.model.executions import Execution
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.notebooks.document import NotebookDocument
from tk_ai_extension.notebooks.notebook import Notebook
from tk_ai_extension.workspace.display_updates import DisplayRegistry

SOURCES = "abc"


@pytest.mark.proves("exec:display-elsewhere", "exec:own-source")
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    minor=st.sampled_from([4, 5]),
    sources=st.lists(st.sampled_from(SOURCES), min_size=1, max_size=4),
    later=st.lists(st.sampled_from(SOURCES), max_size=5),
)
def test_an_update_changes_no_other_cell(
    tmp_path: Path, minor: int, sources: list[str], later: list[str]
) -> None:
    old, new = display(text_plain="old"), display(text_plain="new")

    def stored(texts: list[str]) -> Json:
        cells = (code(text, outputs=[old]) for text in texts)
        return notebook(*cells, minor=minor)

    async def run() -> None:
        async with file_bench(tmp_path) as bench:
            document = await bench.open(stored(sources))
            ran = (await document.read()).cells[0]
            displays = DisplayRegistry()
            displays.ran(
                "k", Notebook(document.path), ran, Execution("ok", (old,), displays={"d": (0,)})
            )
            bench.put(stored(later), document.path)

            async def opened(_path: str) -> NotebookDocument:
                return document

            await displays.update("k", {"d": new}, opened)
            changed = [
                cell
                for cell in (await document.read()).cells
                if await document.outputs(cell.key) == (new,)
            ]
            if minor >= 5:
                is_there = later[:1] == [ran.source]
                assert [cell.id for cell in changed] == ([ran.id] if is_there else [])
            else:
                expected = 1 if later.count(ran.source) == 1 else 0
                assert [cell.source for cell in changed] == [ran.source] * expected

    asyncio.run(run())
