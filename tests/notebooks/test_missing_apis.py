"""Other libraries without a part that this extension uses: each feature falls back and says so."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jupyter_client.manager import KernelManager
from jupyter_server.services.contents.filemanager import FileContentsManager
from jupyter_server_ydoc.loaders import FileLoader

from tests.notebooks.conftest import room_bench, running_server
from tests.support.document_bench import code, notebook, sources
from tk_ai_extension.kernels import persistent
from tk_ai_extension.kernels.stack import GuardedStack, StackUnavailable
from tk_ai_extension.model.cells import CellContent
from tk_ai_extension.model.errors import CollaborationUnsupported
from tk_ai_extension.model.operations import Insert
from tk_ai_extension.model.private_api import missing_members
from tk_ai_extension.notebooks import save_hooks
from tk_ai_extension.notebooks.router import NotebookRouter


def test_attributes_of_instances_are_found_without_one() -> None:
    class Base:
        def __init__(self) -> None:
            self.own = 1

    class Derived(Base):
        method = None

    assert missing_members(Derived, ("own", "method", "gone")) == ["Derived.gone"]


async def test_a_live_notebook_is_read_and_not_changed(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_server(tmp_path) as app, room_bench(app) as bench:
        document = await bench.open(notebook(code("x = 1", "aaaa1111")))
        await document.apply([Insert(CellContent("code", "live = 1"), index=0)])
        monkeypatch.delattr(FileLoader, "maybe_notify")
        store = NotebookRouter(
            Path(app.root_dir),
            str,
            contents_manager=app.contents_manager,
            settings=app.web_app.settings,
        )
        with caplog.at_level(logging.WARNING):
            beside = await store.open(document.path)
            assert sources((await beside.read()).cells) == ["live = 1", "x = 1"]
            with pytest.raises(CollaborationUnsupported):
                await beside.apply([Insert(CellContent("code", "lost = 1"), index=0)])
            with pytest.raises(CollaborationUnsupported):
                beside.writing("aaaa1111")
            await store.open(document.path)
        assert store.missing_parts == ["FileLoader.maybe_notify"]
        assert store.backend == "file"
        assert sum("maybe_notify" in record.message for record in caplog.records) == 1
        other = await store.create("nobody.ipynb", notebook(code("y = 1", "bbbb2222")))
        await other.apply([Insert(CellContent("code", "kept = 1"), index=0)])
        assert sources((await other.read()).cells) == ["kept = 1", "y = 1"]
        await store.close()


def test_hooks_are_run_where_nobody_can_say_whether_there_are_any(tmp_path: Any) -> None:
    class Newer(FileContentsManager):
        def __getattribute__(self, name: str) -> Any:
            if name == "_pre_save_hooks":
                raise AttributeError(name)
            return super().__getattribute__(name)

    manager = Newer(root_dir=str(tmp_path))
    assert save_hooks.missing_parts(manager) == ["Newer._pre_save_hooks"]
    assert save_hooks.SaveHooks(manager).before


def test_a_stack_that_is_not_known_is_not_used() -> None:
    with pytest.raises(StackUnavailable, match="_get_local_client"):
        GuardedStack(SimpleNamespace(), lambda _: None)


def test_a_kernel_manager_without_a_part_is_reported_and_released_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert persistent.missing_parts() == []
    manager = persistent.PersistentServerKernelManager()
    monkeypatch.delattr(KernelManager, "_close_control_socket")
    assert persistent.missing_parts() == ["ServerKernelManager._close_control_socket"]
    manager.detach()
