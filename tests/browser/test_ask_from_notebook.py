"""What a person asks Claude about a cell, from the notebook that they have open."""

from __future__ import annotations

from typing import Any

import httpx2
from playwright.async_api import expect

from tests.browser.agents import NOTEBOOK, Agent, Open, write_cells
from tests.browser.axe import violations
from tests.browser.conftest import OpenLab
from tests.browser.lab import Lab
from tests.support.scripted_model import Answer, ScriptedModel

CELLS = {"fails000": "1 / 0", "sums0000": "sum(range(9))"}


async def asked(lab: Lab, count: int) -> dict[str, Any]:
    """The last of so many messages of the chat, as the server has it."""
    await expect(lab.log.get_by_text("Gladly.")).to_have_count(count)
    async with httpx2.AsyncClient(headers=lab.server.headers, timeout=60) as http:
        address = f"{lab.server.url}api/tk-ai/chats"
        [chat] = (await http.get(address)).json()["chats"]
        events = (await http.get(f"{address}/{chat['id']}")).json()["events"]
    return [event for event in events if event["kind"] == "message"][count - 1]


async def test_claude_is_asked_from_a_cell_about_a_failure_by_its_menu_and_by_a_command(
    open_lab: OpenLab, model: ScriptedModel
) -> None:
    model.add(*[Answer.of("Gladly.")] * 7)
    lab = await open_lab(model)
    write_cells(lab.server.root, **CELLS)
    await lab.open(NOTEBOOK)
    seen, page = Open(lab), lab.page
    await seen.cells.nth(1).wait_for()
    # The toolbar opens the chat.
    await seen.toolbar.get_by_role("button", name="Chat with Claude about this notebook").click()
    await lab.message_box.wait_for()
    await expect(lab.message_box).to_be_focused()
    await expect(lab.panel).to_contain_text(NOTEBOOK)
    await page.get_by_role("tab", name="Claude").click()
    await expect(lab.message_box).to_be_hidden()

    # A cell that fails has buttons, and axe finds no fault in what is shown.
    labels = ["Fix", "Explain"]
    for label in labels:
        await expect(seen.cells.get_by_role("button", name=label)).to_have_count(0)
    await Agent(lab).changes("sums0000", "sum(range(10))")
    await seen.run(0)
    await seen.cells.nth(0).get_by_role("button", name="Fix").wait_for()
    await seen.mark(1).click()
    await seen.review(1).wait_for()
    for part in (".tk-Mark", ".tk-Review", ".tk-Failed", ".tk-ReviewItem", ".tk-RunningItem"):
        assert await violations(page, part) == []
    await seen.decide("Keep all")

    # Each asks Claude about the failure.
    for count, label in enumerate(labels, 1):
        await seen.cells.nth(0).get_by_role("button", name=label).click()
        message = await asked(lab, count)
        assert message["text"] == f"{label} the ZeroDivisionError in this cell."
        assert message["notebook"] == NOTEBOOK
        assert "division by zero" in "\n".join(model.requests[-1].prompts)
    await seen.cells.nth(0).locator(".cm-content").click()
    await page.keyboard.press("Control+A")
    await page.keyboard.type("1 / 1")
    await seen.run(0)
    for label in labels:
        await expect(seen.cells.get_by_role("button", name=label)).to_have_count(0)

    # So do the menu of any cell, and a command for the cells that are selected.
    await seen.cells.nth(1).locator(".cm-content").click(button="right")
    await page.locator(".lm-Menu-item", has_text="Claude").hover()
    await page.locator(".lm-Menu-item", has_text="Explain").last.click()
    assert (await asked(lab, 3))["text"] == "Explain this cell."
    await seen.cells.nth(0).locator(".jp-InputPrompt").click()
    await page.keyboard.press("Shift+ArrowDown")
    await lab.command("tk-ai:explain-cell")
    assert (await asked(lab, 4))["text"] == "Explain these cells."
