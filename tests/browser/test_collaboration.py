"""A person and Claude in one notebook, with jupyter-collaboration and without."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.agents import NOTEBOOK, Open, gate, write_cells
from tests.browser.conftest import OpenLab
from tests.browser.lab import DIALOG, Lab
from tests.browser.open_notebook import (
    BOTH,
    HAS,
    SOURCES,
    has_run,
    saved,
    shown,
    types,
)
from tests.support.scripted_model import Answer, ScriptedModel, ToolUse


async def begin(lab: Lab, url: str = "", **cells: str) -> Open:
    """The notebook with its kernel, and the panel in the mode `auto`."""
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
    await has_run(lab, NOTEBOOK, 1, "new\n", 2)
    await has_run(lab, NOTEBOOK, 2, "running\n", 1)
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


@pytest.mark.proves("ext:rtc", "ext:panel", "fault:tab-lost")
async def test_a_reload_in_the_middle_of_a_turn_and_of_its_cell_loses_nothing(
    open_lab: OpenLab, model: ScriptedModel
) -> None:
    lab = await open_lab(model)
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
    await has_run(lab, NOTEBOOK, 1, "running\n", 1)
    assert len(model.requests) == 3
    await expect(page.locator(DIALOG)).to_have_count(0)
