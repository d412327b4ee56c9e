"""The chat in JupyterLab: messages, calls, questions and their outcomes."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.axe import violations
from tests.browser.lab import Lab, answer, armed, pick, write_notebook
from tests.browser.pictures import picture
from tests.support.scripted_model import (
    Answer,
    ScriptedModel,
    Thinking,
    ToolUse,
)

CODE = "numbers = [3, 4, 5]\ntotal = sum(numbers)\ntotal"
RUN = ToolUse("insert_and_execute_cell", {"source": CODE, "index": 1})


AT_ONCE = """
() => new MutationObserver(changes => {
  for (const node of changes.flatMap(({ addedNodes }) => [...addedNodes])) {
    node.querySelector?.('.tk-Question .tk-mod-accept')?.click();
  }
}).observe(document.body, { childList: true, subtree: true })
"""
"""Clicks on each question's Approve in the moment in which it is there."""


@pytest.mark.proves("ext:panel", "ui:cell-status", "ui:status-line", "perm:bound", "perm:approvals")
async def test_a_message_is_answered_with_what_was_done_and_axe_finds_nothing_wrong(
    lab: Lab, model: ScriptedModel
) -> None:
    write_notebook(lab.server.root / "sales.ipynb", "prices = [3, 4, 5]")
    model.add(
        Answer.of(
            Thinking("A sum."),
            "The mean is $\\bar x$, as [here](https://example.org), by `sum`:\n\n"
            "```python\nx = 'text'  # why\n```\n",
            ToolUse("list_cells"),
        ),
        Answer.of("It has **one** cell.", RUN),
        Answer.of("Done."),
    )
    await lab.open("sales.ipynb")
    await lab.show_panel()
    assert await violations(lab.page, ".tk-Chat") == []
    await picture(lab.page, "first-sight")
    await lab.say("What is in it?")

    await expect(lab.log.get_by_text("It has one cell.")).to_be_visible()
    await expect(lab.log.locator("strong", has_text="one")).to_be_visible()
    await expect(lab.log.locator("mjx-container").first).to_be_visible()
    await expect(lab.log.get_by_text("Thought")).to_be_visible()
    card = lab.panel.locator('[data-tool="list_cells"]')
    await expect(card.get_by_role("img", name="Done")).to_be_visible()
    seen = "\n".join(model.requests[0].prompts)
    assert "sales.ipynb" in seen
    assert "prices = [3, 4, 5]" in seen

    question = lab.panel.get_by_role("group", name="Run this in sales.ipynb?")
    await expect(question).to_be_visible()
    assert await violations(lab.page, ".tk-Chat") == []
    await picture(lab.page, "question", question=question)
    await answer(question, "Approve")
    await expect(lab.panel.get_by_role("group", name="Changes")).to_be_visible()
    await picture(lab.page, "answer", lab.panel)
    for summary in await lab.log.locator("summary").all():
        if await summary.is_visible():
            await summary.click()
    assert await violations(lab.page, ".tk-Chat") == []
    await lab.panel.get_by_role("button", name="History").click()
    await expect(lab.panel.get_by_role("region", name="History")).to_be_visible()
    await picture(lab.page, "history", lab.panel)
    assert await violations(lab.page, ".tk-Chat") == []
    await lab.page.keyboard.press("Escape")
    await quick_clicks(lab, model)


async def quick_clicks(lab: Lab, model: ScriptedModel) -> None:
    """Two quick clicks answer one question, and a denial may say why."""
    model.add(Answer.of(RUN), Answer.of(RUN), Answer.of("I see."))
    await lab.page.evaluate(AT_ONCE)
    await lab.say("Add them up, twice.")
    question = lab.panel.get_by_role("group", name="Run this in sales.ipynb?")
    approve = question.get_by_role("button", name="Approve", exact=True)
    await expect(approve).to_be_visible()
    lines = question.locator(".tk-Lines")
    assert await lines.evaluate("box => box.scrollWidth <= box.clientWidth")
    await armed(question)
    await approve.click()
    card = lab.panel.locator('[data-tool="insert_and_execute_cell"]')
    await expect(card).to_have_count(3)
    # The second one was clicked in the moment in which it was there.
    await armed(question)
    assert len(lab.notebook("sales.ipynb").cells) == 3

    await pick(question.get_by_role("button", name="More answers"), "Deny with a note…")
    note = question.get_by_role("textbox", name="Reason, or what to do instead")
    await expect(note).to_be_focused()
    await note.press_sequentially("Use the mean.")
    await note.press("Enter")
    await expect(lab.log.get_by_text("I see.")).to_be_visible()
    await expect(card.last).to_contain_text("Denied: add and run a cell")
    assert len(lab.notebook("sales.ipynb").cells) == 3
