"""A test finds nothing of the tests before in the server and the page that it shares with them."""

from __future__ import annotations

from playwright.async_api import Browser, expect

from tests.browser.agents import NOTEBOOK, Agent, Open, write_cells
from tests.browser.lab import Lab
from tests.browser.pool import Pool
from tk_ai_extension.testing.scripted_model import Answer, ScriptedModel


async def test_nothing_of_a_test_is_left_for_the_next_one(
    lab_pool: Pool, browser: Browser, model: ScriptedModel
) -> None:
    pooled = await lab_pool.get(collaboration=False, config="")
    lab = await pooled.lab(browser, model, fresh=False)
    requests: list[str] = []
    lab.page.on("request", lambda request: requests.append(request.url))
    await works(lab, model)
    await lab_pool.give_back(pooled, is_sound=True)

    requests.clear()
    assert list(lab.server.root.iterdir()) == []
    lab = await pooled.lab(browser, model, fresh=False)
    write_cells(lab.server.root, sums0000="6 * 7")
    await lab.open(NOTEBOOK)
    seen = Open(lab)
    await expect(seen.cells).to_have_count(1)
    await expect(seen.cells.locator(".jp-InputPrompt")).to_have_text("[ ]:")
    # What an agent does now is the first that is known of this notebook.
    await Agent(lab)("insert_cell", source="x = 1", index=1)
    await expect(seen.marks).to_have_count(1)
    await seen.mark(1).wait_for()
    await lab.show_panel()
    await expect(lab.mode).to_have_value("ask")
    await expect(lab.message_box).to_have_value("")
    await expect(lab.log.get_by_role("group", name="Message")).to_have_count(0)
    await lab.panel.get_by_role("button", name="History").click()
    history = lab.panel.get_by_role("region", name="History")
    await expect(history).to_be_visible()
    await expect(history.get_by_role("listitem")).to_have_count(0)
    assert requests == []
    await lab_pool.give_back(pooled, is_sound=True)


async def works(lab: Lab, model: ScriptedModel) -> None:
    """Leaves a notebook with a change and a kernel, a chat, a draft and a mode."""
    write_cells(lab.server.root, sums0000="6 * 7")
    model.add(Answer.of("Here."))
    await lab.open(NOTEBOOK)
    await lab.show_panel()
    await lab.mode.select_option("auto")
    await lab.say("Where are you?")
    await expect(lab.log.get_by_text("Here.")).to_be_visible()
    await lab.message_box.fill("A draft")
    agent, seen = Agent(lab), Open(lab)
    await agent.changes("sums0000", "6 * 8")
    await agent("execute_cell", cell="sums0000")
    await expect(seen.marks).to_have_count(1)


async def test_a_page_that_does_not_look_as_it_did_serves_no_other_test(
    lab_pool: Pool, browser: Browser, model: ScriptedModel
) -> None:
    pooled = await lab_pool.get(collaboration=False, config="")
    lab = await pooled.lab(browser, model, fresh=False)
    await lab.theme("JupyterLab Dark")
    await lab_pool.give_back(pooled, is_sound=True)
    assert lab.page.url == f"{lab.server.url}api"
    lab = await pooled.lab(browser, model, fresh=False)
    theme = await lab.page.evaluate("() => document.body.dataset.jpThemeName")
    assert theme == "JupyterLab Light"
    await lab_pool.give_back(pooled, is_sound=True)
