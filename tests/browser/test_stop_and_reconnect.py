"""Stop, and a lost connection: what was done stays, and nothing is missing or doubled."""

from __future__ import annotations

import asyncio
import json
import re

import httpx2
import pytest
from playwright.async_api import expect

from tests.browser.agents import NOTEBOOK, Open, write_cells
from tests.browser.conftest import OpenLab
from tests.browser.lab import Lab
from tests.browser.open_notebook import Network, call, shown
from tests.support.scripted_model import Answer, Held, ScriptedModel, ToolUse

WORDS = " ".join(f"word{number}" for number in range(40))
ENDLESS = "import time\nprint('begun', flush=True)\nwhile True:\n    time.sleep(0.05)"
STOPPED = "Stopped. Changes made so far were kept."


async def ended(lab: Lab) -> None:
    """Waits until the turn of the one chat has ended, as the server reports it."""
    async with httpx2.AsyncClient(headers=lab.server.headers, timeout=60) as http:
        address = f"{lab.server.url}api/tk-ai/chats"
        [chat] = (await http.get(address)).json()["chats"]
        async with http.stream("GET", f"{address}/{chat['id']}/events") as events:
            async for line in events.aiter_lines():
                if line.startswith("data:") and json.loads(line[5:])["kind"] == "done":
                    return


@pytest.mark.proves("ext:panel", "exec:cancel", "perm:modes", "rest:chat")
async def test_an_answer_survives_its_connection_and_stop_ends_a_cell_or_a_question(
    open_lab: OpenLab, model: ScriptedModel
) -> None:
    lab = await open_lab(model)
    async with Network.to(lab.server.url) as network:
        await lab.page.goto(f"{network.url}lab?token={lab.server.token}")
        await lab.ready()
        await lab.show_panel()
        await cut_off(lab, model, network)
        write_cells(lab.server.root, waits000=ENDLESS, next0000="6 * 7", sums0000="6 * 7")
        await lab.command("docmanager:open", path=NOTEBOOK)
        await shown(lab.page, NOTEBOOK)
        await stopped_in_a_cell(lab, model)
        await stopped_at_a_question(lab, model)


async def cut_off(lab: Lab, model: ScriptedModel, network: Network) -> None:
    """An answer is complete, and shown once, after its connection was lost."""
    held, second = Held(Answer.of(WORDS), after=6), Held(Answer.of("The end."), after=1)
    model.add(held, second)
    await lab.say("Count.")
    await expect(lab.log).to_contain_text("word0")
    assert "word39" not in await lab.log.inner_text()
    await network.fails()
    # The events are sent while nobody can receive them.
    held.go_on.set()
    async with asyncio.timeout(30):
        await ended(lab)
    assert "word39" not in await lab.log.inner_text()
    network.works()
    await expect(lab.log).to_contain_text("word39")
    text = await lab.log.inner_text()
    assert re.findall(r"word\d+", text) == WORDS.split()
    await expect(lab.log.get_by_text("Count.", exact=True)).to_have_count(1)
    second.go_on.set()
    await lab.say("And?")
    await expect(lab.log.get_by_text("The end.")).to_have_count(1)


async def stopped_in_a_cell(lab: Lab, model: ScriptedModel) -> None:
    """Stop interrupts a cell, and keeps what it has printed."""
    cell, before = Open(lab).cells.nth(0), len(model.requests)
    model.add(Answer.of(ToolUse("execute_cell", {"cell": "waits000"})))
    await lab.mode.select_option("auto")
    await lab.say("Run it.")
    await expect(cell.locator(".jp-OutputArea")).to_contain_text("begun")
    await lab.panel.get_by_role("button", name="Stop", exact=True).click()

    await expect(lab.log.get_by_text(STOPPED)).to_be_visible()
    card = lab.panel.locator('[data-tool="execute_cell"]')
    await expect(card.get_by_role("img", name="Running")).to_have_count(0)
    await expect(card).to_contain_text("Stopped:")
    await expect(cell.locator(".jp-InputPrompt")).not_to_contain_text("*")
    await expect(cell.locator(".jp-OutputArea")).to_contain_text("begun")
    await expect(cell.locator(".jp-OutputArea")).to_contain_text("KeyboardInterrupt")
    # The kernel is free for the next one.
    ran = await call(lab, "execute_cell", notebook=NOTEBOOK, cell="next0000")
    assert ran["status"] == "ok"
    assert len(model.requests) == before + 1


async def stopped_at_a_question(lab: Lab, model: ScriptedModel) -> None:
    """Stop takes a question away, and nothing has run."""
    before = len(model.requests)
    model.add(Answer.of(ToolUse("execute_cell", {"cell": "sums0000"})))
    await lab.mode.select_option("ask")
    await lab.say("Run the sum.")
    question = lab.panel.get_by_role("group", name=re.compile("^Run "))
    await expect(question).to_be_visible()
    await lab.panel.get_by_role("button", name="Stop", exact=True).click()
    await expect(question).to_have_count(0)
    await expect(lab.log.get_by_text(STOPPED)).to_have_count(2)
    cell = lab.notebook(NOTEBOOK).cells[2]
    assert (cell.outputs, cell.execution_count) == ([], None)
    # And the chat goes on.
    model.add(Answer.of("Here again."))
    await lab.say("Are you there?")
    await expect(lab.log.get_by_text("Here again.")).to_be_visible()
    assert len(model.requests) == before + 2
