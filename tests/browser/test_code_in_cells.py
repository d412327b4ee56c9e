"""Code as a person types, and a prompt in a cell: by the keyboard alone, in the page and at the model."""

from __future__ import annotations

import pytest
from playwright.async_api import Locator, expect

from tests.browser.axe import violations
from tests.browser.conftest import OpenLab
from tests.browser.lab import Lab, write_notebook
from tests.browser.open_notebook import FOCUSED, HAS, SOURCES, WRITE, opened, types
from tests.browser.pictures import picture
from tests.support.scripted_model import (
    UNAUTHORIZED,
    Answer,
    Hang,
    MessagesRequest,
    ScriptedModel,
)

NOTEBOOK = "sales.ipynb"
LOADED = "import pandas as pd\n\nsales = pd.read_csv('sales.csv')"
CELLS = ".jp-Notebook .jp-WindowedPanel-viewport"
REPLACE = """
([cell, text]) => {
  window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells[cell].setSource(text);
}
"""
THEMES = ("JupyterLab Dark High Contrast", "JupyterLab Dark", "JupyterLab Light")


def said(request: MessagesRequest) -> str:
    """The last message of a request."""
    return str(request.messages[-1]["content"])


@pytest.mark.proves("code:completion")
async def test_code_is_completed_and_edited_by_the_keyboard_alone(
    open_lab: OpenLab, model: ScriptedModel
) -> None:
    lab = await open_lab(model)
    write_notebook(lab.server.root / NOTEBOOK, LOADED, "")
    await opened(lab, NOTEBOOK)
    await completed(lab, model)
    await edited_by_a_prompt(lab, model)
    await changed_since(lab, model)


async def completed(lab: Lab, model: ScriptedModel) -> None:
    """Ghost text comes on request and is taken with Tab."""
    page, keys = lab.page, lab.page.keyboard
    ghost = page.locator(".jp-GhostText")
    await types(page, 1, "monthly = sales.gro")
    model.add(Answer.of("<tk-insert>upby('month').sum()"))
    await keys.press("Alt+Backslash")
    await expect(ghost).to_have_text("upby('month').sum()")
    # Typing alone has asked for nothing: that is a setting, since it costs money.
    (request,) = model.requests
    assert "monthly = sales.gro<tk-cursor/>" in said(request)
    assert LOADED in said(request)
    await picture(page, "ghost-text", page.locator(CELLS))
    await keys.press("Tab")
    await page.wait_for_function(HAS, arg=[LOADED, "monthly = sales.groupby('month').sum()"])

    # A request ends with the next key.
    hang = Hang()
    model.add(hang)
    await keys.type("\nmonthly.pl")
    await keys.press("Alt+Backslash")
    await model.requested(2)
    await keys.type("o")
    await hang.gone.wait()
    await expect(ghost).to_have_count(0)

    # What cannot be completed is said, as the person has asked.
    model.add(UNAUTHORIZED)
    await keys.press("Alt+Backslash")
    alert = page.locator(".Toastify__toast")
    await expect(alert).to_contain_text("No completion: The provider refused the key (401)")
    await alert.get_by_title("Hide notification").click()
    await expect(alert).to_have_count(0)


def prompt_of(lab: Lab) -> Locator:
    """The open prompt of a cell."""
    return lab.page.get_by_role("group", name="Edit this cell with a prompt", exact=True)


async def edited_by_a_prompt(lab: Lab, model: ScriptedModel) -> None:
    """A cell is edited by a prompt, and taken back in one step."""
    page, keys = lab.page, lab.page.keyboard
    before = "monthly = sales.sum()\nmonthly.plot()"
    await page.evaluate(REPLACE, [1, before])
    prompt = prompt_of(lab)
    await types(page, 1, "")
    # Keys go to the prompt also while it is loaded.
    await keys.press("Control+k")
    await keys.type("Another day")
    box = prompt.get_by_role("textbox", name="Describe a change to this cell")
    await expect(box).to_have_value("Another day")
    await keys.press("Escape")
    await expect(prompt).to_have_count(0)
    assert (await page.evaluate(SOURCES))[1] == before
    assert await page.evaluate(FOCUSED)

    model.add(Answer.of("<tk-source>\nmonthly = sales.groupby('month').sum()\nmonthly.plot()\n"))
    await keys.press("Control+k")
    await expect(box).to_be_focused()
    await keys.type("Group by month")
    await keys.press("Enter")
    await expect(prompt.get_by_role("status")).to_contain_text("Nothing is changed yet")
    await expect(prompt.locator(".tk-Review-merge")).to_contain_text("groupby")
    assert (await page.evaluate(SOURCES))[1] == before
    request = model.requests[-1]
    assert "Group by month" in said(request)
    assert LOADED in said(request)
    for theme in THEMES:
        await lab.theme(theme)
        assert await violations(page, ".tk-Review") == []
    await picture(page, "cell-prompt", page.locator(CELLS))

    grouped = "monthly = sales.groupby('month', sort=False).sum()\nmonthly.plot()"
    model.add(Answer.of(f"<tk-source>\n{grouped}\n"))
    await prompt.get_by_role("textbox", name="Refine the change").focus()
    await keys.type("Keep the order")
    await keys.press("Enter")
    await expect(prompt.locator(".tk-Review-merge")).to_contain_text("sort=False")
    assert [message["role"] for message in model.requests[-1].messages][1] == "assistant"
    await keys.press("Control+Enter")
    await page.wait_for_function(HAS, arg=[LOADED, grouped])
    await expect(prompt).to_have_count(0)
    # The person goes on in the cell, and takes it back in one step.
    assert await page.evaluate(FOCUSED)
    await keys.press("Control+z")
    await page.wait_for_function(HAS, arg=[LOADED, before])


async def changed_since(lab: Lab, model: ScriptedModel) -> None:
    """What changed since a proposal stays."""
    page, keys = lab.page, lab.page.keyboard
    await page.evaluate(REPLACE, [1, "sales"])
    prompt = prompt_of(lab)
    model.add(Answer.of("<tk-source>\npass\n"))
    await types(page, 1, "")
    await keys.press("Escape")
    await keys.press("Control+k")
    await keys.type("Empty it")
    await expect(prompt.get_by_role("textbox")).to_have_value("Empty it")
    await keys.press("Enter")
    await expect(prompt.get_by_role("status")).to_contain_text("Nothing is changed yet")
    await page.evaluate(WRITE, [1, ".head()"])
    await keys.press("Control+Enter")
    await expect(prompt.get_by_role("alert")).to_contain_text("Nothing was written")
    assert (await page.evaluate(SOURCES))[1] == "sales.head()"
    await keys.press("Escape")
    # It began in command mode, and ends there.
    await expect(page.locator(".jp-Notebook .jp-Cell").nth(1)).to_be_focused()
