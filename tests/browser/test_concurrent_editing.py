"""A person and an agent edit one open notebook at once, through reloads, closes and lost networks."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.browser.conftest import OpenLab
from tests.browser.lab import DIALOG, no_dialog, write_notebook
from tests.browser.open_notebook import (
    BEGINS,
    CLEAN,
    CLOSE,
    HAS,
    SHOWS,
    WRITE,
    Frames,
    Network,
    another,
    call,
    has_run,
    on_disk,
    opened,
    reads,
    save,
    saved,
    shown,
    types,
)

SLOW = "import time\nfor i in range(8):\n    print(i, flush=True)\n    time.sleep(0.5)"
ALL = "".join(f"{i}\n" for i in range(8))
WAIT = 55
"""Seconds for which a call waits for the cell's end: a busy machine may take long."""


@pytest.mark.proves("ext:rtc", "fault:concurrent-edit", "doc:untouched-bytes")
async def test_an_agent_changes_one_cell_of_an_open_file_and_the_person_goes_on_without_a_dialog(
    open_lab: OpenLab,
) -> None:
    lab = await open_lab()
    file = lab.server.root / "n.ipynb"
    write_notebook(file, "a = 1", "b = 2", "print(3)")
    file.write_text(json.dumps(json.loads(file.read_text()), indent=7))
    page = await opened(lab, "n.ipynb")
    before = file.read_text()
    await call(lab, "read_notebook", notebook="n.ipynb")
    await call(lab, "edit_cell", notebook="n.ipynb", cell=1, old="2", new="3")
    assert file.read_text() == before.replace("b = 2", "b = 3")
    await page.wait_for_function(HAS, arg=["a = 1", "b = 3", "print(3)"])
    await page.wait_for_function(CLEAN)
    await call(lab, "execute_cell", notebook="n.ipynb", cell=2, wait=WAIT)
    await has_run(lab, "n.ipynb", 2, "3\n", 1)
    assert '\n       "cells"' in file.read_text()
    await types(page, 1, "  # typed")
    await call(lab, "edit_cell", notebook="n.ipynb", cell=0, old="1", new="2")
    await saved(lab, "n.ipynb", ["a = 2", "b = 3  # typed", "print(3)"])
    await types(page, 1, "!")
    await saved(lab, "n.ipynb", ["a = 2", "b = 3  # typed!", "print(3)"])
    await no_dialog(page)


@pytest.mark.proves("ext:rtc", "fault:tab-lost")
async def test_a_notebook_that_is_closed_and_opened_again_in_the_middle_of_a_cell_is_complete(
    open_lab: OpenLab,
) -> None:
    lab = await open_lab()
    write_notebook(lab.server.root / "n.ipynb", SLOW, "b = 2")
    page = await opened(lab, "n.ipynb")
    running = asyncio.create_task(call(lab, "execute_cell", notebook="n.ipynb", cell=0, wait=WAIT))
    await page.wait_for_function(BEGINS, arg=[0, "0\n1\n"])
    await saved(lab, "n.ipynb", [SLOW, "b = 2"])
    await page.wait_for_function(CLOSE)
    ran = await running
    assert ran["status"] == "ok"
    await lab.command("docmanager:open", path="n.ipynb")
    await shown(page, "n.ipynb")
    await page.wait_for_function(SHOWS, arg=[0, ALL])
    await has_run(lab, "n.ipynb", 0, ALL, 1)
    await call(lab, "insert_cell", notebook="n.ipynb", source="c = 3")
    await page.wait_for_function(HAS, arg=[SLOW, "b = 2", "c = 3"])
    await no_dialog(page)


@pytest.mark.proves("ext:rtc", "fault:tab-lost")
async def test_a_run_and_edits_go_on_when_the_page_that_answers_is_closed(
    open_lab: OpenLab,
) -> None:
    """Nothing is lost or doubled in the other browser and in the file."""
    lab = await open_lab(collaboration=True)
    write_notebook(lab.server.root / "n.ipynb", "a = 1", SLOW)
    first = await opened(lab, "n.ipynb")
    second = await another(lab, "n.ipynb")
    await types(first, 0, "  # one")
    await second.wait_for_function(HAS, arg=["a = 1  # one", SLOW])
    # The page that was used last answers.
    await types(second, 0, ", two")
    running = asyncio.create_task(call(lab, "execute_cell", notebook="n.ipynb", cell=1, wait=WAIT))
    await first.wait_for_function(BEGINS, arg=[1, "0"])
    await second.close()
    await call(lab, "insert_cell", notebook="n.ipynb", source="b = 2", index=0)
    assert lab.notebook("n.ipynb").cells[0].source == "b = 2"
    assert (await running)["status"] == "ok"
    sources = ["b = 2", "a = 1  # one, two", SLOW]
    await first.wait_for_function(HAS, arg=sources)
    await first.wait_for_function(SHOWS, arg=[2, ALL])
    await has_run(lab, "n.ipynb", 2, ALL, 1)
    await on_disk(lab, "n.ipynb", sources)
    await call(lab, "undo", notebook="n.ipynb")
    await first.wait_for_function(HAS, arg=sources[1:])


@pytest.mark.proves("ext:rtc", "fault:tab-lost")
async def test_a_browser_that_is_offline_for_a_while_loses_nothing(open_lab: OpenLab) -> None:
    lab = await open_lab()
    write_notebook(lab.server.root / "n.ipynb", SLOW, "b = 2")
    async with Network.to(lab.server.url) as network:
        page, frames = lab.page, Frames()
        page.on("websocket", frames.follow)
        await page.goto(f"{network.url}lab/tree/n.ipynb?token={lab.server.token}")
        await shown(page, "n.ipynb")
        running = asyncio.create_task(
            call(lab, "execute_cell", notebook="n.ipynb", cell=0, wait=WAIT)
        )
        await page.wait_for_function(BEGINS, arg=[0, "0\n"])
        await network.fails()
        await running
        network.works()
        await page.wait_for_function(SHOWS, arg=[0, ALL])
        await save(lab)

        is_dirty = page.evaluate(WRITE, [1, "  # typed"])
        await frames.next(lambda frame: '"dirty":true' in frame, is_dirty)
        await network.fails()
        await page.evaluate(WRITE, [1, " offline"])
        # The file counts, and the page merges it with what is unsaved.
        await call(lab, "insert_cell", notebook="n.ipynb", source="c = 3")
        network.works()
        await frames.next(lambda frame: '"listed"' in frame)
        expected = [SLOW, "b = 2  # typed offline", "c = 3"]
        await page.wait_for_function(HAS, arg=expected)
        await frames.next(lambda frame: '"dirty":false' in frame, save(lab))
        stored = lab.notebook("n.ipynb").cells
        assert [cell.source for cell in stored] == expected
        assert stored[0].outputs[0].text == ALL
        assert await page.get_by_text("File Changed").count() == 0


@pytest.mark.proves("ext:rtc", "fault:tab-lost", "fault:concurrent-edit")
async def test_with_collaboration_offline_edits_are_merged_with_others_edits(
    open_lab: OpenLab,
) -> None:
    lab = await open_lab(collaboration=True)
    write_notebook(lab.server.root / "n.ipynb", SLOW, "b = 2")
    async with Network.to(lab.server.url) as network:
        page = lab.page
        await page.goto(f"{network.url}lab/tree/n.ipynb?token={lab.server.token}")
        await shown(page, "n.ipynb")
        running = asyncio.create_task(
            call(lab, "execute_cell", notebook="n.ipynb", cell=0, wait=WAIT)
        )
        await page.wait_for_function(BEGINS, arg=[0, "0\n"])
        await network.fails()
        await page.evaluate(WRITE, [0, "  # offline too"])
        await page.evaluate(WRITE, [1, "  # offline"])
        await call(lab, "insert_cell", notebook="n.ipynb", source="c = 3")
        await running
        network.works()
        expected = [f"{SLOW}  # offline too", "b = 2  # offline", "c = 3"]
        await page.wait_for_function(HAS, arg=expected)
        await page.wait_for_function(SHOWS, arg=[0, ALL])
        await reads(lab, "n.ipynb", "# offline")
        await saved(lab, "n.ipynb", expected)
        await has_run(lab, "n.ipynb", 0, ALL, 1)


@pytest.mark.proves("ext:rtc", "fault:concurrent-edit")
async def test_with_collaboration_text_typed_just_before_the_page_closes_is_kept(
    open_lab: OpenLab,
) -> None:
    lab = await open_lab(collaboration=True)
    write_notebook(lab.server.root / "n.ipynb", "a = 1", "b = 2")
    page = await opened(lab, "n.ipynb")
    await page.evaluate(WRITE, [1, "  # typed"])
    await page.wait_for_function(CLOSE)
    await call(lab, "insert_cell", notebook="n.ipynb", source="c = 3")
    await on_disk(lab, "n.ipynb", ["a = 1", "b = 2  # typed", "c = 3"])


@pytest.mark.proves("ext:rtc", "fault:concurrent-edit")
async def test_where_a_person_and_a_program_changed_the_same_an_agent_gets_an_error_and_the_person_is_asked(
    open_lab: OpenLab,
) -> None:
    lab = await open_lab()
    file = lab.server.root / "n.ipynb"
    write_notebook(file, "a = 1", "b = 2")
    page = await opened(lab, "n.ipynb")
    await types(page, 0, "  # typed")
    file.write_text(file.read_text().replace("a = 1", "a = 2"))
    refused = await call(lab, "insert_cell", status=500, notebook="n.ipynb", source="c = 3")
    assert refused["error"]["code"] == "save_failed"
    await page.keyboard.press("Control+s")
    dialog = page.locator(DIALOG, has_text="File Changed")
    await dialog.wait_for()
    # However long that stands, nobody waits for it.
    assert "# typed" in (await call(lab, "read_notebook", notebook="n.ipynb"))["text"]
    await call(lab, "insert_cell", status=500, notebook="n.ipynb", source="c = 3")
    await dialog.get_by_role("button", name="Revert").click()
    await page.wait_for_function(HAS, arg=["a = 2", "b = 2"])
    await call(lab, "insert_cell", notebook="n.ipynb", source="c = 3")
    await page.wait_for_function(HAS, arg=["a = 2", "b = 2", "c = 3"])
    assert [cell.source for cell in lab.notebook("n.ipynb").cells] == ["a = 2", "b = 2", "c = 3"]
