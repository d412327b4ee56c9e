"""A new user connects a model in the panel, with the mouse alone, and gets a first answer."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.axe import violations
from tests.browser.conftest import OpenLab
from tests.browser.lab import Lab, write_notebook
from tests.browser.pictures import picture
from tests.support.scripted_model import KEY, Answer, ScriptedModel

DESCRIPTION = """
input => input.getAttribute('aria-describedby').split(' ')
  .map(id => document.getElementById(id).textContent).join(' ')
"""
"""What describes a field to a screen reader."""

WRONG = "sk-ant-canary-0123456789"


@pytest.mark.proves("connect:form", "threat:secrets")
async def test_a_new_user_takes_the_tour_connects_a_model_and_gets_an_answer_with_the_mouse_alone(
    open_lab: OpenLab, model: ScriptedModel
) -> None:
    lab = await open_lab(None, own=True)
    page = lab.page
    write_notebook(lab.server.root / "sales.ipynb", "sum([1, 2])")
    model.add(Answer.of("Ready."), Answer.of("It adds two numbers."), Answer.of("Ready."))
    await lab.open("sales.ipynb")
    await lab.show_panel()
    await takes_the_tour(lab)
    await lab.panel.get_by_role("button", name="New chat", exact=True).click()
    await lab.panel.get_by_role("button", name="Connect a model").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("ANTHROPIC_API_KEY")
    await dialog.get_by_text("Compatible endpoint").click()
    await picture(page, "connect", dialog.locator(".jp-Dialog-content"))

    await dialog.get_by_label("Base URL", exact=True).fill(model.url)
    await dialog.get_by_label("Key or token", exact=True).fill(WRONG)
    await dialog.get_by_role("button", name="Connect", exact=True).click()
    await expect(dialog.get_by_role("alert")).to_contain_text("refused the key (401)")
    key = dialog.get_by_label("Key or token", exact=True)
    await expect(key).to_be_focused()
    description = await key.evaluate(DESCRIPTION)
    assert "refused the key" in description
    assert await violations(page, ".jp-Dialog-content") == []

    await dialog.get_by_label("Key or token", exact=True).fill(KEY)
    await dialog.get_by_role("button", name="Connect", exact=True).click()
    await expect(dialog.get_by_role("status")).to_contain_text("Connected.")
    await expect(dialog).to_contain_text(model.url)
    assert KEY not in await page.content()
    assert await violations(page, ".jp-Dialog-content") == []
    await dialog.get_by_role("button", name="Close", exact=True).last.click()
    await lab.panel.get_by_role("button", name="Explain this notebook").click()
    await expect(lab.log.get_by_text("It adds two numbers.")).to_be_visible()
    assert {request.headers["X-Api-Key"] for request in model.requests} == {KEY}

    # The same by the keyboard: Enter presses a button and submits the form, and the key stays.
    await page.evaluate("() => void window.jupyterapp.commands.execute('tk-ai:connect')")
    await dialog.get_by_role("button", name="Replace").press("Enter")
    await expect(dialog.get_by_role("radio", name="Compatible endpoint")).to_be_focused()
    await dialog.get_by_label("Model (optional)").fill("claude-other")
    await dialog.get_by_label("Model (optional)").press("Enter")
    await expect(dialog.get_by_role("status")).to_contain_text("Connected.")
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await expect(lab.panel.get_by_label("Model", exact=True)).to_have_value("claude-other")
    assert model.requests[-1].body["model"] == "claude-other"
    assert model.requests[-1].headers["X-Api-Key"] == KEY


async def takes_the_tour(lab: Lab) -> None:
    """Without a model the tour answers: it leads to a plot, and is taken back."""
    before = [cell.source for cell in lab.notebook("sales.ipynb").cells]
    await lab.mode.select_option("auto")
    await lab.panel.get_by_role("button", name="Take the tour").click()
    await expect(lab.log.locator("img.tk-Picture").first).to_be_visible()
    await expect(lab.log.get_by_text("That was the tour.")).to_be_visible()
    assert len(lab.notebook("sales.ipynb").cells) > len(before) + 1

    changes = lab.panel.get_by_role("group", name="Changes")
    await changes.get_by_role("button", name="Undo", exact=True).click()
    await expect(changes).to_contain_text("undone")
    assert [cell.source for cell in lab.notebook("sales.ipynb").cells] == before
