"""A contents manager that saves in its own way keeps the document's promises too."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

from tests.support.document_bench import (
    DocumentBench,
    FilePerson,
    code,
    notebook,
    sources,
)
from tests.support.documents import DocumentConformance
from tk_ai_extension.model.cell_operations import Replace
from tk_ai_extension.model.paths import notebook_path
from tk_ai_extension.notebooks.notebook_store import NotebookStore


class PairedManager(AsyncLargeFileManager):
    """Keeps a script next to each notebook, as other managers do."""

    async def save(self, model: Any, path: str = "") -> Any:
        saved = await super().save(model, path)
        script = Path(self.root_dir) / path.replace(".ipynb", ".py")
        script.write_text("\n".join(sources(model["content"]["cells"])))
        return saved


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[DocumentBench]:
    root = tmp_path_factory.mktemp("contents")
    manager = PairedManager(root_dir=str(root))
    manager.notary.db_file = ":memory:"
    store = NotebookStore(
        root,
        partial(notebook_path, root),
        contents_manager=manager,
    )

    async def settle(path: str) -> None:
        """It is settled when a change of it returns."""

    assert store.backend == "contents"
    yield DocumentBench(
        store, "contents", root, FilePerson(root), settle, says_where=False, one_step=False
    )
    await store.close()


@pytest.mark.asyncio(loop_scope="module")
class TestContents(DocumentConformance):
    async def test_the_managers_own_way_to_save_is_taken(self, bench: DocumentBench) -> None:
        document = await bench.open(notebook(code("a", "aaaa1111")))
        await document.apply([Replace("aaaa1111", "paired")])
        script = bench.root / document.path.replace(".ipynb", ".py")
        assert script.read_text(encoding="utf-8") == "paired"
