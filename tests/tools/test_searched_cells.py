"""A search counts a cell as read only if its answer shows the whole source."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.harness import ALICE, ToolHarness
from tk_ai_extension.model.errors import Conflict, NotebookNotFound
from tk_ai_extension.notebooks.session import SessionDocument
from tk_ai_extension.tools.default.search import MAX_LINE

pytestmark = pytest.mark.proves("doc:conflict")

_SOURCE = st.one_of(
    st.text("xy\n", max_size=6),
    st.sampled_from(
        ["x" * MAX_LINE, "x" * (MAX_LINE + 1), "x" * MAX_LINE + "…", "x\n" + "y" * 300]
    ),
)
_NOTEBOOKS = st.lists(st.lists(_SOURCE, max_size=5), min_size=1, max_size=3)


async def check(
    harness: ToolHarness, folder: str, notebooks: list[list[str]], pattern: str, limit: int
) -> None:
    for number, sources in enumerate(notebooks):
        harness.write(f"{folder}/{number}.ipynb", *sources)
    where: Any
    for where in ("outputs", "source"):
        answer = await harness.call(
            "search_cells", notebook=folder, pattern=pattern, limit=limit, where=where
        )
        seen = {
            (each.path, cell): source_hash
            for each in harness.workspace.by_path
            for cell, source_hash in each.seen.of(ALICE).items()
        }
        texts = {(each.notebook, each.index): each.text for each in answer.matches}
        for number, sources in enumerate(notebooks):
            path = f"{folder}/{number}.ipynb"
            snapshot = await (await harness.workspace.store.open(path)).read()
            for cell, source in zip(snapshot.cells, sources, strict=True):
                shown = where == "source" and texts.get((path, cell.index)) == source
                assert seen.get((path, cell.key)) == (cell.hash if shown else None)
    for each in harness.workspace.by_path:
        each.seen.forget(ALICE)


async def test_what_a_search_marks_as_read_is_in_its_answer(harness: ToolHarness) -> None:
    loop, numbers = asyncio.get_running_loop(), count()

    @settings(max_examples=40, deadline=None)
    @given(
        notebooks=_NOTEBOOKS,
        pattern=st.sampled_from(["x", "y$", "^", "^x*$"]),
        limit=st.integers(1, 8),
    )
    @example(notebooks=[["x = 1", "x = 2"]], pattern="x", limit=1)
    def examples(notebooks: list[list[str]], pattern: str, limit: int) -> None:
        work = check(harness, f"f{next(numbers)}", notebooks, pattern, limit)
        asyncio.run_coroutine_threadsafe(work, loop).result()

    await asyncio.to_thread(examples)


async def test_a_cell_beyond_the_limit_cannot_be_overwritten(harness: ToolHarness) -> None:
    harness.write("n.ipynb", "x = 1", "x = 'of a person'")
    answer = await harness.call("search_cells", notebook="n.ipynb", pattern="x", limit=1)
    assert "person" not in answer.full_text()
    with pytest.raises(Conflict):
        await harness.call("overwrite_cell", notebook="n.ipynb", cell=1, source="gone")
    await harness.call("overwrite_cell", notebook="n.ipynb", cell=0, source="x = 3")
    assert harness.sources("n.ipynb") == ["x = 3", "x = 'of a person'"]


async def test_a_read_that_fails_marks_no_cell(
    harness: ToolHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.write("n.ipynb", "print('x')")
    await harness.call("execute_cell", notebook="n.ipynb", cell=0)
    for each in harness.workspace.by_path:
        each.seen.forget(ALICE)

    async def fail(*_: Any) -> Any:
        raise NotebookNotFound("It was deleted.")

    with monkeypatch.context() as patched:
        patched.setattr(SessionDocument, "outputs", fail)
        with pytest.raises(NotebookNotFound):
            await harness.call("read_cell", notebook="n.ipynb", cell=0)
    with pytest.raises(Conflict):
        await harness.call("overwrite_cell", notebook="n.ipynb", cell=0, source="gone")
