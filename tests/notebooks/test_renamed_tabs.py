"""A rename in a page, whose lists have the former path until the answer to it arrives."""

from __future__ import annotations

import asyncio
import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from tests.notebooks.tabs import PATH, SHORT, TabHarness
from tests.support.document_bench import DEADLINE, stream
from tk_ai_extension.model.cells import CellContent
from tk_ai_extension.model.operations import Insert, Replace
from tk_ai_extension.model.outputs import Append

NEW = "new.ipynb"

RENAME = ("request", "list", "answer")
"""A rename in the page: between its request and the answer, the page lists the former path."""


ORDERS = [
    order
    for order in permutations((*RENAME, "edit", "end"))
    if tuple(step for step in order if step in RENAME) == RENAME
]


@pytest.mark.proves("fault:tab-lost", "ext:rtc")
@pytest.mark.parametrize("order", ORDERS, ids="-".join)
async def test_an_edit_and_a_run_are_in_the_tab_and_in_the_file_whenever_it_is_renamed(
    harness: TabHarness, order: tuple[str, ...]
) -> None:
    page, document = harness.page, await harness.document()
    opened = page.notebooks[PATH]
    added = Insert(CellContent("code", "agent"))
    agents: list[asyncio.Task[Any]] = []

    async def run() -> None:
        async with document.writing("aaaa1111") as writer:
            await writer.start()
            await writer.write([Append(stream("one"))])
            await document.outputs("aaaa1111")
            started.set()
            await ending.wait()
            await writer.finish(4)

    started, ending = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(run())
    await asyncio.wait_for(started.wait(), DEADLINE)
    await harness.person.type(PATH, 1, " typed")
    for step in order:
        match step:
            case "request":
                await page.request_rename(PATH, NEW)
            case "list":
                await page.report_and_wait()
                assert harness.channel.present(NEW)
            case "answer":
                await page.on_renamed(PATH, NEW)
            case "edit":
                agents.append(asyncio.create_task(document.apply([added])))
            case "end":
                ending.set()
                agents.append(running)
        # Whatever does not need the page's next step is done before it.
        if agents:
            await asyncio.wait(agents, timeout=SHORT)
    async with asyncio.timeout(DEADLINE):
        await asyncio.gather(*agents)
    await page.save(NEW)
    root = Path(harness.app.root_dir)
    stored = json.loads((root / NEW).read_bytes())["cells"]
    assert not (root / PATH).exists()
    for cells in (opened.cells, stored):
        assert ["".join(cell["source"]) for cell in cells] == ["a", "b typed", "agent"]
        assert ["".join(each["text"]) for each in cells[0]["outputs"]] == ["one"]
        assert cells[0]["execution_count"] == 4


@pytest.mark.usefixtures("short_grace")
async def test_a_page_that_does_not_use_the_new_path_holds_nothing_up(harness: TabHarness) -> None:
    document = await harness.document()
    # Another page renamed it.
    await harness.page.request_rename(PATH, NEW)
    await harness.changes(lambda: not harness.channel.present(NEW))
    await document.apply([Replace("aaaa1111", "agent")])
    stored = json.loads((Path(harness.app.root_dir) / NEW).read_bytes())["cells"]
    assert ["".join(cell["source"]) for cell in stored] == ["agent", "b"]
    await harness.page.on_renamed(PATH, NEW)
    assert await harness.person.sources(NEW) == ["agent", "b"]


async def test_a_renamed_notebook_is_saved_once_the_page_uses_its_new_path(
    harness: TabHarness,
) -> None:
    page = harness.page
    await harness.person.type(PATH, 0, " typed")
    await page.request_rename(PATH, NEW)
    await page.report_and_wait()
    (tab,) = harness.channel.present(NEW)
    saved = asyncio.create_task(tab.ask("save"))
    await asyncio.wait({saved}, timeout=SHORT)
    assert "save" not in page.asked
    await page.on_renamed(PATH, NEW)
    assert await asyncio.wait_for(saved, DEADLINE) == {}
    stored = json.loads((Path(harness.app.root_dir) / NEW).read_bytes())["cells"]
    assert "".join(stored[0]["source"]) == "a typed"
