"""What a person does with a turn: follow it, look at its one diff, and go back to before it."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.axe import panel_violations, violations
from tests.browser.lab import Lab, answer, pick, write_notebook
from tests.browser.pictures import picture
from tests.support.scripted_model import Answer, ScriptedModel, ToolUse


@pytest.mark.proves("ext:panel", "perm:agent-actions")
async def test_questions_are_answered_and_changes_of_cells_and_files_reviewed_and_undone(
    lab: Lab, model: ScriptedModel
) -> None:
    write_notebook(lab.server.root / "sales.ipynb", *(f"x{n} = {n}" for n in range(60)))
    await lab.open("sales.ipynb")
    await lab.show_panel()
    await answers_questions(lab, model)
    await restores(lab, model)
    await edits_a_file(lab, model)
    assert await panel_violations(lab) == []


async def answers_questions(lab: Lab, model: ScriptedModel) -> None:
    """Questions of Claude are answered by the keyboard in a narrow panel."""
    bars = {"label": "Bars", "description": "One for each month, with the mean as a line"}
    options = [bars, {"label": "<img src=x>", "description": "Over time"}]
    days = {"question": "Which days?", "header": "Days", "options": options, "multiSelect": True}
    plot = days | {"question": "Which plot?", "header": "Plot", "multiSelect": False}
    model.add(Answer.of("Hm.", ToolUse("AskUserQuestion", {"questions": [plot, days]})))
    model.add(Answer.of("Here it is."))
    await lab.panel.evaluate("node => { node.style.width = '260px'; }")
    await lab.say("Plot it.")
    form = lab.panel.get_by_role("group", name="The agent asks")
    await expect(form).to_be_visible()
    await expect(lab.message_box).to_be_focused()
    assert await panel_violations(lab) == []
    assert await form.evaluate("node => node.scrollWidth <= node.clientWidth")
    await picture(lab.page, "ask", lab.panel)
    await lab.message_box.press("ArrowUp")
    await expect(form).to_be_focused()
    for key in ("Tab", "ArrowDown"):
        await lab.page.keyboard.press(key)
    await expect(form.get_by_role("radio", name="<img src=x> Over time")).to_be_checked()
    for key in ("Tab", "Tab", "Space", "Tab", "Tab"):
        await lab.page.keyboard.press(key)
    await lab.page.keyboard.type("Pies")
    await lab.page.keyboard.press("Enter")
    await expect(lab.log.get_by_text("Here it is.")).to_be_visible()
    await expect(lab.message_box).to_be_focused()
    await expect(lab.log.get_by_role("definition")).to_have_text(["<img src=x>", "Bars, Pies"])
    result = model.requests[-1].tool_results[0].text
    assert '"Which plot?"="<img src=x>", "Which days?"="Bars, Pies"' in result
    await picture(lab.page, "answered", lab.panel)
    await lab.panel.evaluate("node => { node.style.width = ''; }")


async def restores(lab: Lab, model: ScriptedModel) -> None:
    """A turn is followed, reviewed as one diff and restored."""
    model.add(
        Answer.of(
            ToolUse("read_cell", {"cell": 55}),
            ToolUse("overwrite_cell", {"cell": 55, "source": "half = 1"}),
            ToolUse("overwrite_cell", {"cell": 55, "source": "whole = 2"}),
        ),
        Answer.of("It is changed."),
    )
    await lab.mode.select_option("auto")
    await lab.command("tk-ai:follow-agent")
    await lab.say("Change it.")
    cell = lab.page.locator(".jp-Notebook .jp-Cell", has_text="whole = 2")
    await expect(cell).to_be_in_viewport()
    await expect(lab.log.get_by_text("It is changed.")).to_be_visible()

    changes = lab.panel.get_by_role("group", name="Changes")
    await expect(changes.get_by_text("1 cell changed")).to_be_visible()
    await changes.locator("summary").click()
    diff = changes.locator(".cm-editor").first
    await expect(diff).to_be_visible()
    await expect(changes.get_by_text("x55 = 55")).to_be_visible()
    await expect(changes.get_by_text("half = 1")).to_have_count(0)
    assert await violations(lab.page, ".tk-Chat") == []
    more = changes.get_by_role("button", name="More", exact=True)
    await more.click()
    await expect(lab.page.get_by_role("menuitem", name="Run the changed cell")).to_be_visible()
    await lab.page.keyboard.press("Escape")
    await expect(more).to_be_focused()
    await pick(more, "Restore to before this message…")
    restore = lab.page.get_by_role("dialog").get_by_role("button", name="Restore")
    await expect(restore).to_be_focused()
    await restore.press("Enter")

    await expect(lab.panel.get_by_text("Restored to before this message.")).to_be_visible()
    await expect(lab.message_box).to_have_value("Change it.")
    await expect(cell).to_have_count(0)
    await expect(lab.panel.get_by_text("1 replaced message")).to_be_visible()


async def edits_a_file(lab: Lab, model: ScriptedModel) -> None:
    """An edit of a file is approved by its diff, shown and undone."""
    file = lab.server.root / "helpers.py"
    file.write_text("rate = 1\nname = 'a'\n")
    named = {"file_path": str(file)}
    model.add(
        Answer.of(ToolUse("Read", named)),
        Answer.of(ToolUse("Edit", named | {"old_string": "rate = 1", "new_string": "rate = 2"})),
        Answer.of("The rate is two."),
    )
    await lab.mode.select_option("ask")
    await lab.say("Change the rate.")
    question = lab.panel.locator(".tk-Question")
    await expect(question).to_contain_text("Edit helpers.py")
    await expect(question).to_contain_text("rate = 2")
    await answer(question, "Approve")
    await expect(lab.log.get_by_text("The rate is two.")).to_be_visible()
    await expect(lab.log.get_by_text("Changed helpers.py")).to_be_visible()

    changes = lab.panel.get_by_role("group", name="Changes")
    await expect(changes.get_by_text("1 change", exact=True)).to_be_visible()
    await changes.locator("summary", has_text="helpers.py").click()
    await expect(changes.get_by_text("rate = 1")).to_be_visible()
    await changes.get_by_role("button", name="Show", exact=True).click()
    await expect(lab.page.locator(".jp-FileEditor")).to_contain_text("rate = 2")
    await changes.get_by_role("button", name="Undo this file").click()
    await expect(changes.get_by_text("1 change undone.")).to_be_visible()
    assert file.read_text() == "rate = 1\nname = 'a'\n"
