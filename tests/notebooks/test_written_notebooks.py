"""Tabs that have a notebook open whose file the server writes: they show it, or hold nothing up."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.harness import ALICE
from tests.notebooks.tabs import PATH, SHORT, TabHarness, services_of
from tests.support.document_bench import (
    DEADLINE,
    code,
    notebook,
    sources,
    stream,
    written,
)
from tk_ai_extension.model.errors import Conflict, NotebookExists
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.operations import Replace
from tk_ai_extension.model.outputs import Append
from tk_ai_extension.notebooks import pages
from tk_ai_extension.notebooks.files import NotebookFile, NotebookFiles
from tk_ai_extension.workspace import editing
from tk_ai_extension.workspace.workspace import Workspace


async def workspace_of(harness: TabHarness) -> Workspace:
    services = services_of(harness.app)
    await services.ready()
    return services.workspace


def shown(harness: TabHarness) -> list[str]:
    return sources(harness.page.notebooks[PATH].cells)


def file_of(harness: TabHarness) -> Path:
    return Path(harness.app.root_dir) / PATH


# --- whole notebooks


@pytest.mark.proves("ext:rtc", "verify:run")
async def test_a_tab_that_opens_a_notebook_while_a_copy_replaces_it_shows_the_copy(
    harness: TabHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, copy = harness.page, NotebookFiles.copy
    await page.close_notebook(PATH)
    source = written(notebook(code("approved", "dddd4444")))
    file_of(harness).with_name("source.ipynb").write_bytes(source)

    async def late(files: NotebookFiles, *arguments: str) -> None:
        await page.opened(PATH)
        await copy(files, *arguments)

    monkeypatch.setattr(NotebookFiles, "copy", late)
    document = await harness.store.copy(await harness.store.open("source.ipynb"), PATH)
    assert sources((await document.read()).cells) == shown(harness) == ["approved"]


@pytest.mark.proves("ext:rtc")
async def test_a_notebook_is_created_in_the_tab_that_shows_it_though_its_file_is_gone(
    harness: TabHarness,
) -> None:
    file_of(harness).unlink()
    made = await editing.create(
        await workspace_of(harness), ALICE, PATH, [("code", "new")], tool="create_notebook"
    )
    assert sources(made.snapshot.cells) == shown(harness) == ["new"]
    assert [change.after and change.after.source for change in made.changes] == ["new"]


@pytest.mark.proves("ext:rtc")
async def test_a_notebook_is_not_created_below_unsaved_changes_in_a_tab(
    harness: TabHarness,
) -> None:
    workspace = await workspace_of(harness)
    await harness.person.type(PATH, 0, " typed")
    with pytest.raises(NotebookExists):
        await editing.create(workspace, ALICE, PATH, tool="create_notebook")
    file_of(harness).unlink()
    with pytest.raises(Conflict, match="unsaved changes"):
        await editing.create(workspace, ALICE, PATH, tool="create_notebook")
    assert not file_of(harness).exists()
    assert shown(harness) == ["a typed", "b"]


# --- tabs that do not answer


@pytest.mark.proves("fault:tab-lost")
@pytest.mark.parametrize("what", ["outputs", "an edit"])
async def test_tabs_that_do_not_answer_hold_up_neither_an_edit_nor_the_end_of_a_run(
    harness: TabHarness, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(pages, "REFRESH_WAIT", SHORT)
    there = [harness.page, await harness.another_page()]
    rewrite, answers = NotebookFile.rewrite, asyncio.Event()
    await harness.page.close_notebook(PATH)
    document = await harness.document()

    async def before(question: Json) -> None:
        if question["method"] == "refresh":
            await answers.wait()

    async def late(file: NotebookFile, *arguments: Any) -> Any:
        for page in there:
            await page.opened(PATH)
            page.before = before
        return await rewrite(file, *arguments)

    monkeypatch.setattr(NotebookFile, "rewrite", late)
    async with asyncio.timeout(DEADLINE / 2):
        if what == "outputs":
            async with document.writing("aaaa1111") as writer:
                await writer.start()
                await writer.write([Append(stream("one"))])
                await writer.finish(4)
        else:
            await document.apply([Replace("aaaa1111", "a = 1")])
    answers.set()

    def has_read(cell: Json) -> bool:
        return bool(cell["outputs"]) if what == "outputs" else cell["source"] == "a = 1"

    await harness.changes(lambda: all(has_read(page.notebooks[PATH].cells[0]) for page in there))
    await there[1].close()
