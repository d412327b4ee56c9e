"""A person and Claude in one notebook, with jupyter-collaboration and without."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from tests.browser.agents import NOTEBOOK, Agent, Open, gate, write_cells
from tests.browser.conftest import OpenLab
from tests.browser.lab import DEADLINE, DIALOG, Lab
from tests.browser.open_notebook import (
    ALONE_FIRST,
    BEGINS,
    BOTH,
    CLOSE,
    HAS,
    ON_DISK,
    RAN,
    SOURCES,
    Network,
    opened,
    saved,
    shown,
    types,
)
from tests.browser.test_two_browsers import another
from tests.support.scripted_model import Answer, ScriptedModel, ToolUse


async def begin(lab: Lab, url: str = "", **cells: str) -> Open:
    """The notebook with its kernel and the panel, in which Claude may do what it wants."""
    write_cells(lab.server.root, **cells)
    if url:
        await lab.page.goto(f"{url}lab/tree/{NOTEBOOK}?token={lab.server.token}")
        await lab.ready()
    else:
        await lab.open(NOTEBOOK)
    await shown(lab.page, NOTEBOOK)
    await lab.show_panel()
    await lab.mode.select_option("auto")
    return Open(lab)


@BOTH
@pytest.mark.proves("ext:rtc", "ext:panel", "fault:concurrent-edit")
async def test_a_person_types_on_while_claude_inserts_edits_and_runs_and_each_undoes_their_own(
    open_lab: OpenLab, model: ScriptedModel, collaboration: bool
) -> None:
    lab = await open_lab(model, collaboration=collaboration)
    page = lab.page
    with gate(lab.server.root) as code:
        seen = await begin(lab, mine0000="a = 1", edited00="print('old')")
        model.add(
            Answer.of(ToolUse("read_notebook")),
            Answer.of(ToolUse("insert_and_execute_cell", {"source": code, "index": 2})),
            Answer.of(
                ToolUse("edit_cell", {"cell": "edited00", "old": "old", "new": "new"}),
                ToolUse("execute_cell", {"cell": "edited00"}),
            ),
            Answer.of("Done."),
        )
        await types(page, 0, "  # typed")
        await lab.say("Go.")
        await seen.toolbar.get_by_role("button", name="Claude is running a cell").wait_for()
        # Claude saw it: what was typed and is not saved.
        await types(page, 0, ", and typed on")
    await expect(lab.log.get_by_text("Done.")).to_be_visible()
    await page.keyboard.type("!")
    expected = ["a = 1  # typed, and typed on!", "print('new')", code]
    await page.wait_for_function(HAS, arg=expected)
    await expect(seen.cells.nth(0).locator(".cm-content")).to_be_focused()
    await saved(lab, NOTEBOOK, expected)
    await page.evaluate(RAN, [NOTEBOOK, 1, "new\n", 2])
    await page.evaluate(RAN, [NOTEBOOK, 2, "running\n", 1])
    [read] = [each for each in model.requests[1].tool_results if "a = 1" in each.text]
    assert "# typed" in read.text

    await page.keyboard.press("Control+z")
    [mine, *theirs] = await page.evaluate(SOURCES)
    assert theirs == expected[1:]
    assert mine != expected[0]
    assert expected[0].startswith(mine)
    changes = lab.panel.get_by_role("group", name="Changes")
    await changes.get_by_role("button", name="Undo", exact=True).click()
    await expect(changes).to_contain_text("undone")
    after = [mine, "print('old')"]
    await page.wait_for_function(HAS, arg=after)
    await saved(lab, NOTEBOOK, after)
    await expect(page.locator(DIALOG)).to_have_count(0)


@ALONE_FIRST
@pytest.mark.proves("ext:rtc", "ext:panel", "fault:tab-lost")
async def test_a_reload_in_the_middle_of_a_turn_and_of_its_cell_loses_nothing(
    open_lab: OpenLab, model: ScriptedModel, collaboration: bool
) -> None:
    lab = await open_lab(model, collaboration=collaboration)
    page = lab.page
    with gate(lab.server.root) as code:
        seen = await begin(lab, mine0000="a = 1", waits000=code)
        model.add(
            Answer.of(ToolUse("execute_cell", {"cell": "waits000"})),
            Answer.of(ToolUse("insert_cell", {"source": "after = 1", "index": 2})),
            Answer.of("Done."),
        )
        await lab.say("Go.")
        await expect(seen.cells.nth(1).locator(".jp-OutputArea")).to_contain_text("running")
        await saved(lab, NOTEBOOK, ["a = 1", code])
        page.on("dialog", lambda dialog: dialog.accept())
        await page.reload()
        await lab.ready()
        await lab.command("tk-ai:show-panel")
        card = lab.panel.locator('[data-tool="execute_cell"]')
        await expect(card.get_by_role("img", name="Running")).to_be_visible()
        await expect(seen.cells.nth(1).locator(".jp-OutputArea")).to_contain_text("running")
        await expect(seen.cells.nth(1).locator(".jp-InputPrompt")).to_have_text("[*]:")
        await types(page, 0, "  # typed")
    await expect(lab.log.get_by_text("Done.")).to_have_count(1)
    await expect(card.get_by_role("img", name="Done")).to_be_visible()
    expected = ["a = 1  # typed", code, "after = 1"]
    await page.wait_for_function(HAS, arg=expected)
    await saved(lab, NOTEBOOK, expected)
    await page.evaluate(RAN, [NOTEBOOK, 1, "running\n", 1])
    assert len(model.requests) == 3
    await expect(page.locator(DIALOG)).to_have_count(0)


@ALONE_FIRST
@pytest.mark.proves("ext:rtc", "ext:panel", "fault:tab-lost")
async def test_a_browser_that_is_offline_in_a_turn_shows_all_of_it_when_it_is_back(
    open_lab: OpenLab, model: ScriptedModel, collaboration: bool
) -> None:
    lab = await open_lab(model, collaboration=collaboration, fresh=True)
    page = lab.page
    async with Network.to(lab.server.url) as network:
        with gate(lab.server.root) as code:
            seen = await begin(lab, network.url, mine0000="a = 1", waits000=code)
            model.add(
                Answer.of(ToolUse("execute_cell", {"cell": "waits000"})),
                Answer.of(ToolUse("insert_cell", {"source": "after = 1", "index": 2})),
                Answer.of("Done."),
            )
            await lab.say("Go.")
            await expect(seen.cells.nth(1).locator(".jp-OutputArea")).to_contain_text("running")
            await saved(lab, NOTEBOOK, ["a = 1", code])
            await network.fails()
        # Claude goes on meanwhile, and is done before the browser is back.
        await asyncio.wait_for(model.requested(3), DEADLINE / 1000)
        network.works()
        await expect(lab.log.get_by_text("Done.")).to_have_count(1)
        expected = ["a = 1", code, "after = 1"]
        await page.wait_for_function(HAS, arg=expected)
        await expect(seen.cells.nth(1).locator(".jp-OutputArea")).to_have_text("running")
        await expect(seen.cells.nth(1).locator(".jp-InputPrompt")).to_have_text("[1]:")
        await saved(lab, NOTEBOOK, expected)
        await page.evaluate(RAN, [NOTEBOOK, 1, "running\n", 1])


COUNTS = "import time\nfor number in range({lines}):\n    print(number, flush=True)\n    time.sleep(0.05)"

PRINTED = """
([place, text]) => {
  const { cells } = window.jupyterapp.shell.currentWidget.content.model.sharedModel;
  const outputs = cells[place].toJSON().outputs;
  return outputs.map(({ text }) => (Array.isArray(text) ? text.join('') : text)).join('') === text;
}
"""


def printed(lab: Lab, place: int) -> str:
    """What a cell has printed, in the file."""
    return "".join(output.text for output in lab.notebook(NOTEBOOK).cells[place].outputs)


async def begun(page: Page, run: asyncio.Task[Any]) -> None:
    """Waits until the second cell has printed; fails as the run does."""
    prints = asyncio.ensure_future(page.wait_for_function(BEGINS, arg=[1, "0"]))
    await asyncio.wait([prints, run], return_when="FIRST_COMPLETED")
    if run.done():
        await run
    await prints


async def renderers(browser: Browser) -> set[int]:
    """The processes of a browser's pages."""
    session = await browser.new_browser_cdp_session()
    answer = await session.send("SystemInfo.getProcessInfo")
    return {each["id"] for each in answer["processInfo"] if each["type"] == "renderer"}


@pytest.mark.proves("ext:rtc", "fault:tab-lost")
@pytest.mark.parametrize("goes", ["closed", "stopped", "none"])
async def test_a_run_and_edits_go_on_when_the_page_that_answers_goes(
    open_lab: OpenLab, browser: Browser, goes: str
) -> None:
    """Nothing is lost or doubled in the other browser and in the file."""
    lab = await open_lab(collaboration=True)
    code = COUNTS.format(lines=100)
    write_cells(lab.server.root, mine0000="a = 1", counts00=code)
    first = await opened(lab, NOTEBOOK)
    before = await renderers(browser)
    second = await another(lab, NOTEBOOK)
    pages = await renderers(browser) - before
    await types(first, 0, "  # one")
    await second.wait_for_function(HAS, arg=["a = 1  # one", code])
    # The page that was used last answers.
    await types(second, 0, ", two")
    agent = Agent(lab)
    run = asyncio.create_task(agent("execute_cell", cell="counts00"))
    await begun(first, run)
    try:
        if goes == "closed":
            await second.close()
        elif goes == "stopped":
            for page in pages:
                os.kill(page, signal.SIGSTOP)
        await agent("insert_cell", source="b = 2", index=0)
        assert lab.notebook(NOTEBOOK).cells[0].source == "b = 2"
        assert (await run)["status"] == "ok"
    finally:
        if goes == "stopped":
            for page in pages:
                os.kill(page, signal.SIGCONT)
    sources = ["b = 2", "a = 1  # one, two", code]
    text = "".join(f"{number}\n" for number in range(100))
    for page in [first] if goes == "closed" else [first, second]:
        await page.wait_for_function(HAS, arg=sources)
        await page.wait_for_function(PRINTED, arg=[2, text])
    await first.evaluate(RAN, [NOTEBOOK, 2, text, 1])
    await first.evaluate(ON_DISK, [NOTEBOOK, sources])
    await agent("undo")
    for page in [first] if goes == "closed" else [first, second]:
        await page.wait_for_function(HAS, arg=sources[1:])
    assert printed(lab, 1) == text


@pytest.mark.proves("ext:rtc", "fault:tab-lost")
async def test_what_was_edited_and_run_while_nobody_had_it_open_is_there_when_it_is_opened(
    open_lab: OpenLab,
) -> None:
    """The notebook's room lives on for a minute, and reads the file that was edited underneath."""
    lab = await open_lab(collaboration=True)
    code = COUNTS.format(lines=100)
    write_cells(lab.server.root, mine0000="a = 1", counts00=code)
    page = await opened(lab, NOTEBOOK)
    await types(page, 0, "  # one")
    agent = Agent(lab)
    run = asyncio.create_task(agent("execute_cell", cell="counts00"))
    await begun(page, run)
    await page.evaluate(CLOSE)
    await agent("insert_cell", source="stored = 1", index=0)
    await lab.command("docmanager:open", path=NOTEBOOK)
    await shown(page, NOTEBOOK)
    await agent("insert_cell", source="live = 1", index=1)
    sources = ["stored = 1", "live = 1", "a = 1  # one", code]
    assert [cell.source for cell in lab.notebook(NOTEBOOK).cells] == sources
    assert (await run)["status"] == "ok"
    text = "".join(f"{number}\n" for number in range(100))
    await page.wait_for_function(HAS, arg=sources)
    await page.wait_for_function(PRINTED, arg=[3, text])
    await page.evaluate(RAN, [NOTEBOOK, 3, text, 1])
    await page.evaluate(ON_DISK, [NOTEBOOK, sources])
