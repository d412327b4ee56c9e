"""Jupyter Notebook 7: the same extension in another application, one notebook to a page."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from tests.browser.lab import Lab, write_notebook
from tests.browser.open_notebook import HAS, SHOWS, call, has_run, save, saved, types
from tests.browser.pictures import picture
from tests.support.scripted_model import Answer, Held, ScriptedModel, ToolUse

# It says that it has started before every plug-in has.
READY = "() => window.jupyterapp?.commands.hasCommand('tk-ai:show-panel') === true"

BOUND = """
() => window.jupyterapp.commands.keyBindings.some(each => each.command === 'tk-ai:show-panel')
"""


async def opened(lab: Lab, path: str) -> Page:
    """The notebook in its own page, as in Notebook 7."""
    page = lab.page
    await page.goto(f"{lab.server.url}notebooks/{path}?token={lab.server.token}")
    await page.wait_for_function(READY)
    await page.locator(".jp-Notebook .jp-Cell").first.wait_for()
    return page


@pytest.mark.proves("ext:notebook7")
async def test_the_chat_works_next_to_the_file_browser_and_in_the_open_notebook(
    lab: Lab, model: ScriptedModel
) -> None:
    await answers_about_files(lab, model)
    write_notebook(lab.server.root / "n.ipynb", "a = 1", "b = 2")
    await opened(lab, "n.ipynb")
    await works_in_the_notebook(lab, model)
    await reloads(lab, model)


async def answers_about_files(lab: Lab, model: ScriptedModel) -> None:
    """The chat is shown next to the file browser."""
    model.add(Answer.of("No files yet."))
    page = lab.page
    await page.goto(f"{lab.server.url}tree?token={lab.server.token}")
    await page.wait_for_function(READY)
    await page.evaluate("() => window.jupyterapp.started")
    # Shortcuts come with the settings, which are read last.
    await page.wait_for_function(BOUND)
    await page.keyboard.press("Control+Alt+c")
    await lab.say("Which files are there?")
    await expect(lab.log.get_by_text("No files yet.")).to_be_visible()


async def works_in_the_notebook(lab: Lab, model: ScriptedModel) -> None:
    """The chat is at the right, and works in the open notebook."""
    page, before = lab.page, len(model.requests)
    model.add(
        Answer.of(ToolUse("read_notebook")),
        Answer.of(ToolUse("insert_and_execute_cell", {"source": "print(6 * 7)", "index": 2})),
        Answer.of("It is **42**."),
    )
    await types(page, 0, "  # typed")
    await page.get_by_role("button", name="Chat with Claude about this notebook").click()
    await lab.message_box.wait_for()
    panel, notebook = (
        await lab.panel.bounding_box(),
        await page.locator(".jp-NotebookPanel").bounding_box(),
    )
    assert panel is not None
    assert notebook is not None
    assert panel["x"] >= notebook["x"] + notebook["width"] - 1
    await lab.mode.select_option("auto")
    await lab.say("What is six times seven?")

    await expect(lab.log.get_by_text("It is 42.")).to_be_visible()
    assert "# typed" in model.requests[before + 1].tool_results[0].text
    expected = ["a = 1  # typed", "b = 2", "print(6 * 7)"]
    await page.wait_for_function(HAS, arg=expected)
    await page.wait_for_function(SHOWS, arg=[2, "42\n"])
    mark = page.locator(".jp-Notebook .jp-Cell").nth(2)
    await expect(mark.get_by_role("button", name="Show what changed")).to_have_count(1)
    await saved(lab, "n.ipynb", expected)
    await has_run(lab, "n.ipynb", 2, "42\n", 1)
    await page.mouse.move(600, 600)
    await picture(page, "notebook-7")
    await (
        lab.panel.get_by_role("group", name="Changes")
        .get_by_role("button", name="Undo", exact=True)
        .click()
    )
    await page.wait_for_function(HAS, arg=expected[:2])


async def reloads(lab: Lab, model: ScriptedModel) -> None:
    """Kept changes, the draft and an answer in its middle survive a reload."""
    page = lab.page
    held = Held(Answer.of("One, two, three, four, five, six, seven, eight."), after=4)
    model.add(held)
    await call(lab, "read_notebook", notebook="n.ipynb")
    for cell in (0, 1):
        await call(lab, "overwrite_cell", notebook="n.ipynb", cell=cell, source=f"c = {cell}")
    marks = page.locator(".jp-Notebook .jp-Cell").get_by_role("button", name="Show what changed")
    await expect(marks).to_have_count(2)
    await marks.first.click()
    await (
        page.get_by_role("group", name="Changes to this cell")
        .get_by_role("button", name="Keep", exact=True)
        .click()
    )
    await expect(marks).to_have_count(1)
    await lab.say("Count.")
    await expect(lab.log.get_by_text("One,")).to_be_visible()
    await lab.message_box.fill("A draft")
    await save(lab)

    await page.reload()
    await page.wait_for_function(READY)
    await expect(marks).to_have_count(1)
    await lab.command("tk-ai:show-panel")
    await expect(lab.log.get_by_text("One,")).to_be_visible()
    await expect(lab.message_box).to_have_value("A draft")
    held.go_on.set()
    await expect(lab.log.get_by_text("eight.")).to_be_visible()
