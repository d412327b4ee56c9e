"""Notebooks of one module's tests: as files, and in tabs of a real Jupyter Server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.notebooks.tabs import PATH, SHORT, TabHarness, listening_server, store_of, tab_bench
from tests.support.document_bench import (
    DEADLINE,
    DocumentBench,
    FilePerson,
    code,
    notebook,
    written,
)
from tests.support.tab_page import TabPage
from tk_ai_extension.model.paths import notebook_path
from tk_ai_extension.notebooks import browser_pages
from tk_ai_extension.notebooks.notebook_store import NotebookStore


@asynccontextmanager
async def file_bench(root: Path, contents_manager: Any = None) -> AsyncGenerator[DocumentBench]:
    """Notebooks as files, without a server unless its contents manager is given."""
    store = NotebookStore(root, partial(notebook_path, root), contents_manager=contents_manager)

    async def settle(path: str) -> None:
        """A file is settled when a change of it returns."""

    yield DocumentBench(store, "file", root, FilePerson(root), settle, keeps_bytes=True)
    await store.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["file", "tab"])
async def bench(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[DocumentBench]:
    """The bench of one backend."""
    folder = tmp_path_factory.mktemp("notebooks")
    if request.param == "file":
        async with file_bench(folder) as made:
            yield made
    else:
        async with tab_bench(folder) as made:
            yield made


@pytest.fixture
async def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[TabHarness]:
    monkeypatch.setattr(browser_pages, "GRACE", DEADLINE)
    async with listening_server(tmp_path) as (app, address):
        stored = notebook(code("a", "aaaa1111"), code("b", "bbbb2222"))
        (Path(app.root_dir) / PATH).write_bytes(written(stored))
        page = TabPage(address, app.identity_provider.token)
        await page.connect()
        await page.open(PATH)
        yield TabHarness(app, address, store_of(app), page)
        assert page.dialogs == []
        page.before = None
        await page.close()


@pytest.fixture
def short_grace(harness: TabHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tab that goes away counts as lost at once."""
    monkeypatch.setattr(browser_pages, "GRACE", SHORT)
