"""A person and Claude in one notebook, with jupyter-collaboration and without."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import expect

from tests.browser.agents import NOTEBOOK, Open, gate, write_cells
from tests.browser.conftest import OpenLab
from tests.browser.lab import DIALOG, Lab, write_notebook
from tests.browser.open_notebook import (
    BOTH,
    HAS,
    SOURCES,
    has_run,
    opened,
    saved,
    shown,
    types,
)
from tests.support.scripted_model import Answer, Held, ScriptedModel, ToolUse


@BOTH
@pytest.mark.proves("ext:rtc", "ext:panel", "fault:concurrent-edit", "fault:tab-lost")
async def test_a_person_and_claude_work_in_one_notebook_and_each_undoes_their_own(
    open_lab: OpenLab, model: ScriptedModel, collaboration: bool
) -> None:
    lab = await open_lab(model, collaboration=collaboration)
    write_cells(lab.server.root, mine0000="a = 1", edited00="print('old')")
    await opened(lab, NOTEBOOK)
    await lab.show_panel()
    await lab.mode.select_option("auto")
    with gate(lab.server.root) as code:
        await begins(lab, model, code)
    mine = await ends(lab, model, code)
    if not collaboration:
        sources = await reloads(lab, model, mine)
        await opens_another(lab, model, sources)
    await expect(lab.page.locator(DIALOG)).to_have_count(0)


async def begins(lab: Lab, model: ScriptedModel, code: str) -> None:
    """A person types on while Claude inserts a cell and runs it."""
    model.add(
        Answer.of(ToolUse("read_notebook")),
        Answer.of(ToolUse("insert_and_execute_cell", {"source": code, "index": 2})),
        Answer.of(
            ToolUse("edit_cell", {"cell": "edited00", "old": "old", "new": "new"}),
            ToolUse("execute_cell", {"cell": "edited00"}),
        ),
        Answer.of("Done."),
    )
    await types(lab.page, 0, "  # typed")
    await lab.say("Go.")
    seen = Open(lab)
    await seen.toolbar.get_by_role("button", name="Claude is running a cell").wait_for()
    # Claude saw it: what was typed and is not saved.
    await types(lab.page, 0, ", and typed on")


async def ends(lab: Lab, model: ScriptedModel, code: str) -> str:
    """Claude's turn ends, and each undoes their own changes; what is left of the person's cell."""
    page = lab.page
    await expect(lab.log.get_by_text("Done.")).to_be_visible()
    await page.keyboard.type("!")
    expected = ["a = 1  # typed, and typed on!", "print('new')", code]
    await page.wait_for_function(HAS, arg=expected)
    await expect(Open(lab).cells.nth(0).locator(".cm-content")).to_be_focused()
    await saved(lab, NOTEBOOK, expected)
    await has_run(lab, NOTEBOOK, 1, "new\n", 2)
    await has_run(lab, NOTEBOOK, 2, "running\n", 1)
    [read] = [each for each in model.requests[1].tool_results if "a = 1" in each.text]
    assert "# typed" in read.text

    await page.keyboard.press("Control+z")
    mine: str
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
    return mine


async def reloads(lab: Lab, model: ScriptedModel, mine: str) -> list[str]:
    """A reload in the middle of a turn and of its cell loses nothing; the sources afterwards."""
    page, seen, before = lab.page, Open(lab), len(model.requests)
    with gate(lab.server.root) as code:
        model.add(
            Answer.of(ToolUse("overwrite_cell", {"cell": "edited00", "source": code})),
            Answer.of(ToolUse("execute_cell", {"cell": "edited00"})),
            Answer.of(ToolUse("insert_cell", {"source": "after = 1", "index": 2})),
            Answer.of("All is run."),
        )
        await lab.say("Go on.")
        await expect(seen.cells.nth(1).locator(".jp-OutputArea")).to_contain_text("running")
        await saved(lab, NOTEBOOK, [mine, code])
        page.on("dialog", lambda dialog: dialog.accept())
        await page.reload()
        await lab.ready()
        await lab.command("tk-ai:show-panel")
        card = lab.panel.locator('[data-tool="execute_cell"]').last
        await expect(card.get_by_role("img", name="Running")).to_be_visible()
        await expect(seen.cells.nth(1).locator(".jp-OutputArea")).to_contain_text("running")
        await expect(seen.cells.nth(1).locator(".jp-InputPrompt")).to_have_text("[*]:")
        await types(page, 0, "  # after")
    await expect(lab.log.get_by_text("All is run.")).to_have_count(1)
    await expect(card.get_by_role("img", name="Done")).to_be_visible()
    expected = [f"{mine}  # after", code, "after = 1"]
    await page.wait_for_function(HAS, arg=expected)
    await saved(lab, NOTEBOOK, expected)
    await has_run(lab, NOTEBOOK, 1, "running\n", 3)
    assert len(model.requests) == before + 4
    return expected


async def opens_another(lab: Lab, model: ScriptedModel, sources: list[str]) -> None:
    """A request about one notebook changes that one while another is in front."""
    write_notebook(lab.server.root / "other.ipynb", "o = 1")
    held = Held(Answer.of(ToolUse("insert_cell", {"source": "done = 1", "index": 3})), after=1)
    model.add(held, Answer.of("Added."))
    await lab.say("Add a cell.")
    await asyncio.wait_for(held.held.wait(), 60)
    await lab.command("docmanager:open", path="other.ipynb")
    await shown(lab.page, "other.ipynb")
    held.go_on.set()
    await expect(lab.log.get_by_text("Added.")).to_be_visible()
    assert await lab.page.evaluate(SOURCES) == ["o = 1"]
    await lab.command("docmanager:open", path=NOTEBOOK)
    expected = [*sources, "done = 1"]
    await lab.page.wait_for_function(HAS, arg=expected)
    await saved(lab, NOTEBOOK, expected)
    assert [cell.source for cell in lab.notebook("other.ipynb").cells] == ["o = 1"]
