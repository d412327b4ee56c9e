"""The contents manager's hooks and events, for files that we write ourselves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from tornado.web import HTTPError

from tests.notebooks.conftest import file_bench
from tests.notebooks.forms import PLAIN
from tests.support.document_bench import (
    DEADLINE,
    DocumentBench,
    code,
    notebook,
    sources,
)
from tk_ai_extension.model.cell_operations import Delete, Insert, Replace
from tk_ai_extension.model.cells import CellData
from tk_ai_extension.model.errors import SaveFailed
from tk_ai_extension.server.services import CONTENTS_EVENTS


class HookedManager(AsyncLargeFileManager):
    """A contents manager with hooks that a test sets."""


@pytest.fixture
def manager(tmp_path: Path) -> HookedManager:
    return HookedManager(root_dir=str(tmp_path))


@pytest.fixture
async def hooked(tmp_path: Path, manager: HookedManager) -> AsyncIterator[DocumentBench]:
    async with file_bench(tmp_path, manager) as made:
        yield made


async def test_a_hook_sees_what_is_saved_and_its_changes_are_saved(
    hooked: DocumentBench, manager: HookedManager
) -> None:
    seen: list[Any] = []

    def scrub(model: Any, path: str, contents_manager: Any) -> None:
        seen.append((path, contents_manager, [c["source"] for c in model["content"]["cells"]]))
        for cell in model["content"]["cells"]:
            if cell["cell_type"] == "code":
                cell["outputs"] = []
                cell["execution_count"] = None
        model["content"]["metadata"]["scrubbed"] = True
        model["content"]["cells"].append(code("from the hook", "hook0000"))

    document = await hooked.open(PLAIN)
    before = json.loads((hooked.root / document.path).read_bytes())
    manager.pre_save_hook = scrub
    applied = await document.apply([Replace("bbbb2222", "new\nprose")])
    assert seen == [(document.path, manager, ["import os\nprint('ü')\n", "new\nprose", "", "raw"])]
    stored = json.loads((hooked.root / document.path).read_bytes())
    assert stored["metadata"] == {**before["metadata"], "scrubbed": True}
    assert stored["cells"][0] == {**before["cells"][0], "outputs": [], "execution_count": None}
    assert stored["cells"][1] == {**before["cells"][1], "source": ["new\n", "prose"]}
    assert stored["cells"][2:4] == before["cells"][2:]
    assert stored["cells"][4]["source"] == ["from the hook"]
    assert sources(applied.snapshot.cells)[-1] == "from the hook"
    assert sources((await document.read()).cells) == sources(stored["cells"])


async def test_a_hook_can_refuse(hooked: DocumentBench, manager: HookedManager) -> None:
    def refuse(**_: Any) -> None:
        raise HTTPError(400, "secrets found")

    document = await hooked.open(PLAIN)
    before = (hooked.root / document.path).read_bytes()
    manager.pre_save_hook = refuse
    with pytest.raises(SaveFailed, match="secrets found"):
        await document.apply([Delete("bbbb2222")])
    assert (hooked.root / document.path).read_bytes() == before
    with pytest.raises(SaveFailed):
        await hooked.store.create("refused.ipynb", notebook())
    assert not (hooked.root / "refused.ipynb").exists()


@pytest.mark.parametrize("part", ["run_post_save_hooks", "emit"])
async def test_an_edit_that_is_in_the_file_succeeds_whatever_fails_afterwards(
    hooked: DocumentBench,
    manager: HookedManager,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    part: str,
) -> None:
    """A person may have deleted or renamed the notebook at that moment."""
    document = await hooked.open(PLAIN)
    manager.post_save_hook = lambda **_: None
    for error in (HTTPError(404), RuntimeError("a defect"), TypeError()):

        def fail(*_: Any, error: Exception = error, **__: Any) -> None:
            raise error

        monkeypatch.setattr(type(manager), part, fail)
        caplog.clear()
        source = f"saved, {error!r}"
        await document.apply([Replace("bbbb2222", source)])
        assert (await hooked.person.sources(document.path))[1] == source
        assert document.path in caplog.text
        async with document.writing("aaaa1111") as writer:
            writer.start()
            await writer.finish(3)
        assert document.notebook.saver is None


@pytest.mark.parametrize("left", [None, {}, {"cells": [None]}])
async def test_a_hook_that_leaves_no_notebook_is_a_refused_save(
    hooked: DocumentBench, manager: HookedManager, left: Any
) -> None:
    document = await hooked.open(PLAIN)
    before = (hooked.root / document.path).read_bytes()
    manager.register_pre_save_hook(lambda model, **_: model.update(content=left))
    with pytest.raises(SaveFailed, match="hook"):
        await document.apply([Replace("bbbb2222", "new")])
    assert (hooked.root / document.path).read_bytes() == before


async def test_a_save_is_announced_as_jupyters_own_is(
    hooked: DocumentBench, manager: HookedManager
) -> None:
    saved: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    ran: list[tuple[str, str]] = []

    async def listen(logger: Any, schema_id: str, data: dict[str, Any]) -> None:
        if data["action"] == "save":
            saved.put_nowait(data)

    manager.event_logger.add_listener(schema_id=CONTENTS_EVENTS, listener=listen)
    manager.post_save_hook = lambda model, os_path, **_: ran.append((model["path"], os_path))
    document = await hooked.open(PLAIN)
    await document.apply([Insert(CellData("code", "x"))])
    event = await asyncio.wait_for(saved.get(), DEADLINE)
    assert event["path"] == document.path
    assert ran == [(document.path, str(hooked.root / document.path))]
