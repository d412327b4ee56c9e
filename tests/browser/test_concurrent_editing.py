"""A person and an agent edit one open notebook at once, through reloads, closes and lost networks."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
from playwright.async_api import Route

from tests.browser.agents import gate
from tests.browser.conftest import OpenLab
from tests.browser.lab import DIALOG, no_dialog, write_notebook
from tests.browser.open_notebook import (
    ALONE_FIRST,
    BEGINS,
    BOTH,
    CLEAN,
    CLOSE,
    HAS,
    ON_DISK,
    PRINTED,
    RAN,
    SHOWS,
    SOURCES,
    STATE,
    WRITE,
    Frames,
    Network,
    call,
    changed_twice,
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


@BOTH
@pytest.mark.proves("ext:rtc", "fault:concurrent-edit")
async def test_a_person_types_on_unsaved_while_an_agent_inserts_edits_and_runs(
    open_lab: OpenLab, collaboration: bool
) -> None:
    lab = await open_lab(collaboration=collaboration)
    write_notebook(lab.server.root / "n.ipynb", "a = 1", "print('old')", "c = 3")
    page = await opened(lab, "n.ipynb")
    await types(page, 0, "  # typed")
    before = await page.evaluate(STATE)
    if not collaboration:
        assert before["dirty"]

    async def types_on() -> None:
        for letter in " and typed on":
            await page.keyboard.type(letter)

    async def works() -> None:
        await reads(lab, "n.ipynb", "# typed")
        await call(lab, "insert_cell", notebook="n.ipynb", source="first = 0", index=0)
        await call(lab, "edit_cell", notebook="n.ipynb", cell=2, old="old", new="new")
        ran = await call(lab, "execute_cell", notebook="n.ipynb", cell=2)
        assert ran["status"] == "ok"

    await asyncio.gather(types_on(), works())
    expected = ["first = 0", "a = 1  # typed and typed on", "print('new')", "c = 3"]
    await page.wait_for_function(HAS, arg=expected)
    await page.wait_for_function(SHOWS, arg=[2, "new\n"])
    state = await page.evaluate(STATE)
    assert state["focused"]
    assert state["editing"]
    assert state["active"] == before["active"] + 1
    await saved(lab, "n.ipynb", expected)
    await page.evaluate(RAN, ["n.ipynb", 2, "new\n", 1])
    await no_dialog(page)
    # Each takes back their own.
    await page.keyboard.press("Control+z")
    [first, mine, *rest] = await page.evaluate(SOURCES)
    assert mine != expected[1]
    assert expected[1].startswith(mine)
    assert [first, *rest] == [expected[0], *expected[2:]]
    await call(lab, "undo", notebook="n.ipynb", steps=2)
    await page.wait_for_function(HAS, arg=[mine, "print('old')", "c = 3"])


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
    await page.evaluate(RAN, ["n.ipynb", 2, "3\n", 1])
    assert '\n       "cells"' in file.read_text()
    await types(page, 1, "  # typed")
    await call(lab, "edit_cell", notebook="n.ipynb", cell=0, old="1", new="2")
    await saved(lab, "n.ipynb", ["a = 2", "b = 3  # typed", "print(3)"])
    await types(page, 1, "!")
    await saved(lab, "n.ipynb", ["a = 2", "b = 3  # typed!", "print(3)"])
    await no_dialog(page)


@BOTH
@pytest.mark.proves("ext:rtc", "fault:tab-lost")
async def test_a_page_that_is_reloaded_in_the_middle_of_a_cell_shows_all_of_its_output(
    open_lab: OpenLab, collaboration: bool
) -> None:
    lab = await open_lab(collaboration=collaboration)
    write_notebook(lab.server.root / "n.ipynb", SLOW, "b = 2")
    page = await opened(lab, "n.ipynb")
    running = asyncio.create_task(call(lab, "execute_cell", notebook="n.ipynb", cell=0, wait=WAIT))
    await page.wait_for_function(BEGINS, arg=[0, "0\n1\n"])
    # The browser may ask whether to leave.
    page.on("dialog", lambda dialog: dialog.accept())
    await page.reload()
    await shown(page, "n.ipynb")
    assert (await running)["status"] == "ok"
    await page.wait_for_function(SHOWS, arg=[0, ALL])
    await saved(lab, "n.ipynb", [SLOW, "b = 2"])
    await page.evaluate(RAN, ["n.ipynb", 0, ALL, 1])
    await no_dialog(page)


@pytest.mark.proves("ext:rtc", "fault:tab-lost")
async def test_a_run_saves_the_file_while_a_page_reads_it_and_a_person_types(
    open_lab: OpenLab,
) -> None:
    lab = await open_lab(fresh=True)
    with gate(lab.server.root) as runs:
        write_notebook(lab.server.root / "n.ipynb", runs, "b = 2")
        page, frames = await opened(lab, "n.ipynb"), Frames()
        address = f"{lab.server.url}api/contents/n.ipynb?type=notebook&content=1&hash=1"
        written = await page.request.get(address)
        running = asyncio.create_task(
            call(lab, "execute_cell", notebook="n.ipynb", cell=0, wait=WAIT)
        )
        await page.evaluate(PRINTED, ["n.ipynb", 0])
        is_typed = asyncio.Event()

        async def old(route: Route) -> None:
            await route.fulfill(response=written)

        async def late(route: Route) -> None:
            response = await route.fetch()
            await is_typed.wait()
            await route.fulfill(response=response)

        # What the page reads is stale when it arrives; the page learns that when something is typed.
        await page.route(re.compile(r"/n\.ipynb\?.*content=1&hash=1"), old, times=1)
        await page.route(re.compile(r"/n\.ipynb\?.*content=0&hash=1"), late, times=1)
        page.on("websocket", frames.follow)
        page.on("dialog", lambda dialog: dialog.accept())
        await frames.next(lambda frame: '"read"' in frame, page.reload())
        await page.evaluate(WRITE, [1, "  # typed"])
        assert not any('"answer"' in frame for frame in frames.all())
        is_typed.set()
    assert (await running)["status"] == "ok", frames.all()
    await page.wait_for_function(SHOWS, arg=[0, "running\n"])
    await saved(lab, "n.ipynb", [runs, "b = 2  # typed"])
    await page.evaluate(RAN, ["n.ipynb", 0, "running\n", 1])
    await no_dialog(page)


@ALONE_FIRST
@pytest.mark.proves("ext:rtc", "fault:tab-lost")
async def test_a_notebook_that_is_closed_and_opened_again_in_the_middle_of_a_cell_is_complete(
    open_lab: OpenLab, collaboration: bool
) -> None:
    lab = await open_lab(collaboration=collaboration)
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
    await page.evaluate(RAN, ["n.ipynb", 0, ALL, 1])
    await call(lab, "insert_cell", notebook="n.ipynb", source="c = 3")
    await page.wait_for_function(HAS, arg=[SLOW, "b = 2", "c = 3"])
    await no_dialog(page)


@pytest.mark.proves("ext:rtc", "fault:concurrent-edit")
async def test_two_tabs_with_one_notebook_show_the_same_or_the_agent_gets_an_error(
    open_lab: OpenLab,
) -> None:
    lab = await open_lab()
    write_notebook(lab.server.root / "n.ipynb", "a = 1", "b = 2")
    first = await opened(lab, "n.ipynb")
    second = await opened(lab, "n.ipynb", await first.context.new_page())
    await first.bring_to_front()
    await types(first, 0, "  # typed")
    await call(lab, "read_notebook", notebook="n.ipynb")
    await call(lab, "overwrite_cell", notebook="n.ipynb", cell=1, source="b = 3")
    both = ["a = 1  # typed", "b = 3"]
    assert await first.evaluate(SOURCES) == both
    await second.wait_for_function(HAS, arg=both)
    await types(first, 0, "!")
    await types(second, 1, "?")
    await second.wait_for_function(f"() => !({CLEAN})()")
    await changed_twice(lab, "n.ipynb")
    for page in (first, second):
        await no_dialog(page)


@pytest.mark.proves("ext:rtc", "fault:tab-lost")
async def test_a_browser_that_is_offline_for_a_while_loses_nothing(open_lab: OpenLab) -> None:
    lab = await open_lab(fresh=True)
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

        # Nothing was unsaved when it was lost, so that the file is written.
        await network.fails()
        await page.evaluate(WRITE, [1, " again"])
        await call(lab, "insert_cell", notebook="n.ipynb", source="d = 4")
        await call(lab, "edit_cell", notebook="n.ipynb", cell=2, old="3", new="4")
        network.works()
        expected = [SLOW, "b = 2  # typed offline again", "c = 4", "d = 4"]
        await page.wait_for_function(HAS, arg=expected)
        await saved(lab, "n.ipynb", expected)
        assert await page.get_by_text("File Changed").count() == 0


@pytest.mark.proves("ext:rtc", "fault:tab-lost", "fault:concurrent-edit")
async def test_with_collaboration_what_is_typed_offline_comes_together_with_what_was_done_meanwhile(
    open_lab: OpenLab,
) -> None:
    lab = await open_lab(collaboration=True, fresh=True)
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
        await page.evaluate(WRITE, [1, "  # offline"])
        await call(lab, "insert_cell", notebook="n.ipynb", source="c = 3")
        await running
        network.works()
        expected = [SLOW, "b = 2  # offline", "c = 3"]
        await page.wait_for_function(HAS, arg=expected)
        await page.wait_for_function(SHOWS, arg=[0, ALL])
        await reads(lab, "n.ipynb", "# offline")
        await saved(lab, "n.ipynb", expected)
        await page.evaluate(RAN, ["n.ipynb", 0, ALL, 1])


@pytest.mark.proves("ext:rtc", "fault:concurrent-edit")
async def test_with_collaboration_what_is_typed_just_before_the_page_closes_is_kept(
    open_lab: OpenLab,
) -> None:
    lab = await open_lab(collaboration=True)
    write_notebook(lab.server.root / "n.ipynb", "a = 1", "b = 2")
    page = await opened(lab, "n.ipynb")
    await page.evaluate(WRITE, [1, "  # typed"])
    await page.wait_for_function(CLOSE)
    await call(lab, "insert_cell", notebook="n.ipynb", source="c = 3")
    await page.evaluate(ON_DISK, ["n.ipynb", ["a = 1", "b = 2  # typed", "c = 3"]])


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
