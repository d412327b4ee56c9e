"""What a person asks from the notebook that they have open: of Claude about cells, and a check of all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import nbformat
import pytest
from playwright.async_api import expect

from tests.browser.agents import NOTEBOOK, Agent, Open, write_cells
from tests.browser.axe import violations
from tests.browser.conftest import OpenLab
from tests.browser.lab import Lab
from tests.support.scripted_model import Answer, ScriptedModel

CELLS = {"sums0000": "sum(range(9))", "fails000": "1 / 0"}
LABELS = ("Fix", "Explain")
FAILS = f"{NOTEBOOK} fails at cell 2"


def write(root: Path) -> None:
    """Writes the notebook; the first cell has an output."""
    write_cells(root, **CELLS)
    document: Any = nbformat.read(root / NOTEBOOK, as_version=4)
    document.cells[0].outputs = [
        nbformat.v4.new_output("execute_result", {"text/plain": "36"}, execution_count=1)
    ]
    nbformat.write(document, root / NOTEBOOK)


@pytest.mark.proves("verify:run")
async def test_claude_is_asked_about_cells_and_the_notebook_is_verified(
    open_lab: OpenLab, model: ScriptedModel
) -> None:
    lab = await open_lab(model)
    write(lab.server.root)
    await lab.open(NOTEBOOK)
    await Open(lab).cells.nth(1).wait_for()
    await chat_is_opened(lab)
    await verified(lab)
    await failure_is_shown(lab)
    await claude_is_asked(lab, model)


async def chat_is_opened(lab: Lab) -> None:
    """The toolbar opens the chat."""
    toolbar = Open(lab).toolbar
    await toolbar.get_by_role("button", name="Chat with Claude about this notebook").click()
    await lab.message_box.wait_for()
    await expect(lab.message_box).to_be_focused()
    await expect(lab.panel).to_contain_text(NOTEBOOK)
    await lab.page.get_by_role("tab", name="Claude").click()
    await expect(lab.message_box).to_be_hidden()


async def verified(lab: Lab) -> None:
    """What is on the screen is verified, and the cells are a click away."""
    seen, page = Open(lab), lab.page
    # A change that may not be saved yet counts, too.
    await seen.cells.nth(0).locator(".cm-content").click()
    await page.keyboard.press("Control+a")
    await page.keyboard.type("sum(range(11))")
    await seen.toolbar.get_by_role("button", name="Check: run from the top").click()
    # The result does not take the focus while the person types.
    note = page.get_by_role("alert").filter(has_text=FAILS)
    await note.wait_for()
    await expect(seen.cells.nth(0).locator(".cm-content")).to_be_focused()
    await note.get_by_role("button", name="Show").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text(FAILS)
    await expect(dialog.get_by_role("button", name="Cell 1 has other outputs")).to_be_visible()
    await expect(dialog.get_by_role("deletion").first).to_have_text("36")
    await expect(dialog.get_by_role("insertion").first).to_have_text("55")
    failed = dialog.get_by_role("button", name="Cell 2 failed")
    await expect(failed).to_contain_text("ZeroDivisionError: division by zero")
    await failed.click()
    await expect(dialog).to_have_count(0)
    await expect(seen.cells.nth(1)).to_contain_class("jp-mod-active")

    await seen.cells.nth(0).locator(".cm-content").click()
    await page.keyboard.press("Control+a")
    await page.keyboard.type("import time; time.sleep(600)")
    await page.keyboard.press("Control+Alt+V")
    await page.get_by_role("button", name="Stop", exact=True).click()
    stopped = page.get_by_text(f"The run of {NOTEBOOK} from the top was stopped.")
    await expect(stopped).to_be_visible()


async def failure_is_shown(lab: Lab) -> None:
    """A cell that fails has buttons, and axe finds no fault in what is shown."""
    seen = Open(lab)
    for label in LABELS:
        await expect(seen.cells.get_by_role("button", name=label)).to_have_count(0)
    await Agent(lab).changes("sums0000", "sum(range(10))")
    await seen.run(1)
    await seen.cells.nth(1).get_by_role("button", name="Fix").wait_for()
    await seen.mark(0).click()
    await seen.review(0).wait_for()
    for part in (".tk-Mark", ".tk-Review", ".tk-Failed", ".tk-ReviewItem", ".tk-RunningItem"):
        assert await violations(lab.page, part) == []
    await seen.decide("Keep all")
    await expect(seen.review(0)).to_have_count(0)


async def claude_is_asked(lab: Lab, model: ScriptedModel) -> None:
    """Claude is asked about a failure in its cell, and about cells in the menu and by a command."""
    model.add(*[Answer.of("Gladly.")] * 7)
    seen, page = Open(lab), lab.page
    for count, label in enumerate(LABELS, 1):
        await seen.cells.nth(1).get_by_role("button", name=label).click()
        message = await asked(lab, count)
        assert message["text"] == f"{label} the ZeroDivisionError in this cell."
        assert message["notebook"] == NOTEBOOK
        assert "division by zero" in "\n".join(model.requests[-1].prompts)
    await seen.cells.nth(1).locator(".cm-content").click()
    await page.keyboard.press("Control+A")
    await page.keyboard.type("1 / 1")
    await seen.run(1)
    for label in LABELS:
        await expect(seen.cells.get_by_role("button", name=label)).to_have_count(0)

    await seen.cells.nth(0).locator(".cm-content").click(button="right")
    await page.locator(".lm-Menu-item", has_text="Claude").hover()
    await page.locator(".lm-Menu-item", has_text="Explain").last.click()
    assert (await asked(lab, 3))["text"] == "Explain this cell."
    await seen.cells.nth(0).locator(".jp-InputPrompt").click()
    await page.keyboard.press("Shift+ArrowDown")
    await lab.command("tk-ai:explain-cell")
    assert (await asked(lab, 4))["text"] == "Explain these cells."


async def asked(lab: Lab, count: int) -> dict[str, Any]:
    """The last of so many messages of the chat, as the server has it."""
    await expect(lab.log.get_by_text("Gladly.")).to_have_count(count)
    async with httpx2.AsyncClient(headers=lab.server.headers, timeout=60) as http:
        address = f"{lab.server.url}api/tk-ai/chats"
        [chat] = (await http.get(address)).json()["chats"]
        events = (await http.get(f"{address}/{chat['id']}")).json()["events"]
    return [event for event in events if event["kind"] == "message"][count - 1]
