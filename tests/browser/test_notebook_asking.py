"""What a person asks Claude about a cell, from the notebook that they have open."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from playwright.async_api import expect

from tests.browser.agents import NOTEBOOK, Agent, Open, write_cells
from tests.browser.axe import violations
from tests.browser.conftest import OpenLab
from tests.browser.lab import DEADLINE, Lab
from tk_ai_extension.testing.scripted_model import Answer, ScriptedModel

CELLS = {"fails000": "1 / 0", "sums0000": "sum(range(9))"}


@pytest.fixture
async def lab(open_lab: OpenLab, model: ScriptedModel) -> Lab:
    """JupyterLab with a notebook open, of which the first cell fails when it is run."""
    model.add(Answer.of("Gladly."))
    lab = await open_lab(model)
    write_cells(lab.server.root, **CELLS)
    await lab.open(NOTEBOOK)
    await Open(lab).cells.nth(1).wait_for()
    expect.set_options(timeout=DEADLINE)
    return lab


async def asked(lab: Lab) -> dict[str, Any]:
    """The first message of the chat, as the server has it."""
    await expect(lab.log).to_contain_text("Gladly.")
    async with httpx2.AsyncClient(headers=lab.server.headers, timeout=60) as http:
        address = f"{lab.server.url}api/tk-ai/chats"
        [chat] = (await http.get(address)).json()["chats"]
        events = (await http.get(f"{address}/{chat['id']}")).json()["events"]
    return next(event for event in events if event["kind"] == "message")


@pytest.mark.parametrize("wish", ["Fix", "Explain"])
async def test_a_cell_that_failed_offers_help_below_its_traceback(
    lab: Lab, model: ScriptedModel, wish: str
) -> None:
    seen = Open(lab)
    await expect(seen.cells.get_by_role("button", name=wish)).to_have_count(0)
    await seen.run(0)
    button = seen.cells.nth(0).get_by_role("button", name=wish)
    await button.click()
    message = await asked(lab)
    assert message["text"] == f"{wish} the ZeroDivisionError in this cell."
    assert message["notebook"] == NOTEBOOK
    assert "division by zero" in "\n".join(model.requests[0].prompts)

    await seen.cells.nth(0).locator(".cm-content").click()
    await lab.page.keyboard.press("Control+A")
    await lab.page.keyboard.type("1 / 1")
    await seen.run(0)
    await expect(seen.cells.get_by_role("button", name=wish)).to_have_count(0)


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ("Explain", "Explain this cell."),
        ("Fix", "Fix this cell."),
        ("Document", "Document this cell: docstrings, and comments where they say why."),
        ("Optimise", "Optimise this cell: faster or leaner, with the same results."),
    ],
)
async def test_a_cells_menu_asks_about_it(lab: Lab, item: str, said: str) -> None:
    page = lab.page
    await Open(lab).cells.nth(1).locator(".cm-content").click(button="right")
    await page.locator(".lm-Menu-item", has_text="Claude").hover()
    await page.locator(".lm-Menu-item", has_text=item).last.click()
    message = await asked(lab)
    assert (message["text"], message["notebook"]) == (said, NOTEBOOK)


async def test_several_selected_cells_are_asked_about_together(lab: Lab) -> None:
    await Open(lab).cells.nth(0).locator(".jp-InputPrompt").click()
    await lab.page.keyboard.press("Shift+ArrowDown")
    await lab.command("tk-ai:explain-cell")
    assert (await asked(lab))["text"] == "Explain these cells."


async def test_the_toolbar_opens_the_chat_about_the_notebook(lab: Lab) -> None:
    seen = Open(lab)
    button = seen.toolbar.get_by_role("button", name="Chat with Claude about this notebook")
    await button.click()
    await lab.message_box.wait_for()
    await expect(lab.message_box).to_be_focused()
    await expect(lab.panel).to_contain_text(NOTEBOOK)


async def test_what_is_shown_in_a_notebook_has_no_fault_that_axe_finds(lab: Lab) -> None:
    seen, page = Open(lab), lab.page
    await Agent(lab).changes("sums0000", "sum(range(10))")
    await seen.run(0)
    await seen.cells.nth(0).get_by_role("button", name="Fix").wait_for()
    await seen.mark(1).click()
    await seen.review(1).wait_for()
    for part in (".tk-Mark", ".tk-Review", ".tk-Failed", ".tk-ReviewItem", ".tk-RunningItem"):
        assert await violations(page, part) == []
