"""The chat in JupyterLab: messages, calls, questions, and what becomes of them."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.browser.axe import panel_violations
from tests.browser.conftest import OpenLab
from tests.browser.lab import Lab, answer, armed, write_notebook
from tk_ai_extension.testing.scripted_model import (
    OVERLOADED,
    UNAUTHORIZED,
    Answer,
    Cut,
    Failure,
    Held,
    ScriptedModel,
    Thinking,
    ToolUse,
    rate_limited,
)

CODE = "numbers = [3, 4, 5]\ntotal = sum(numbers)\ntotal"
RUN = ToolUse("insert_and_execute_cell", {"source": CODE, "index": 1})


@pytest.mark.proves("ext:panel", "ui:cell-status", "ui:status-line")
async def test_a_message_is_answered_with_what_was_done(lab: Lab, model: ScriptedModel) -> None:
    write_notebook(lab.server.root / "sales.ipynb", "prices = [3, 4, 5]")
    model.add(
        Answer.of(
            Thinking("A sum."),
            "The mean is $\\bar x$:\n\n```python\nx = 1\n```\n",
            ToolUse("list_cells"),
        ),
        Answer.of("It has **one** cell."),
    )
    await lab.open("sales.ipynb")
    await lab.show_panel()
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


@pytest.mark.proves("ext:panel", "perm:ask", "ui:json-tree")
async def test_a_question_shows_the_code_and_allows_it_by_keyboard(
    lab: Lab, model: ScriptedModel
) -> None:
    write_notebook(lab.server.root / "sales.ipynb", "1")
    model.add(Answer.of(RUN), Answer.of("It is 12."))
    await lab.open("sales.ipynb")
    await lab.show_panel()
    await lab.say("Add them up.")

    question = lab.panel.get_by_role("group", name="Run this in sales.ipynb?")
    said = lab.panel.get_by_role("status").first
    await expect(said).to_have_text("Claude needs your approval.")
    await expect(question).to_contain_text("total = sum(numbers)")
    await expect(lab.message_box).to_be_focused()
    await lab.message_box.press("ArrowUp")
    await expect(question).to_be_focused()
    # Running a cell's keys approve nothing.
    await armed(question)
    await lab.page.keyboard.press("Shift+Enter")
    await lab.page.keyboard.press("Control+Enter")
    await expect(question).to_be_focused()
    await lab.page.keyboard.press("Enter")
    await expect(lab.message_box).to_be_focused()

    await expect(lab.log.get_by_text("It is 12.")).to_be_visible()
    card = lab.panel.locator('[data-tool="insert_and_execute_cell"]')
    await card.locator("summary").first.click()
    await card.locator("summary", has_text="Result").click()
    await expect(card.locator(".tk-Json[open] > *:not(summary)").first).to_be_visible()


@pytest.mark.proves("perm:approvals")
async def test_what_is_denied_is_not_done_and_what_is_allowed_for_the_chat_is_asked_once(
    lab: Lab, model: ScriptedModel
) -> None:
    write_notebook(lab.server.root / "sales.ipynb", "1")
    insert = ToolUse("insert_cell", {"source": "x = 1", "index": 1})
    model.add(Answer.of(insert), Answer.of("Not then."))
    model.add(Answer.of(insert), Answer.of(insert), Answer.of("Both."))
    await lab.open("sales.ipynb")
    await lab.show_panel()
    await lab.say("Add a cell.")
    question = lab.panel.get_by_role("group", name="Change sales.ipynb?")
    await answer(question, "Deny")
    await expect(lab.log.get_by_text("Not then.")).to_be_visible()
    card = lab.panel.locator('[data-tool="insert_cell"]')
    await expect(card.get_by_role("img", name="Denied")).to_be_visible()
    await expect(card).to_contain_text("Denied: add a cell")

    await lab.say("Do it, twice.")
    await answer(question, "Approve in this chat")
    await expect(lab.log.get_by_text("Both.")).to_be_visible()
    assert len(lab.notebook("sales.ipynb").cells) == 3


async def test_a_plan_is_approved_and_carried_out(lab: Lab, model: ScriptedModel) -> None:
    write_notebook(lab.server.root / "sales.ipynb", "1")
    model.add(Answer.of("I would add a cell."))
    model.add(Answer.of(ToolUse("insert_cell", {"source": "x = 1"})), Answer.of("Carried out."))
    await lab.open("sales.ipynb")
    await lab.show_panel()
    await lab.mode.select_option("plan")
    await lab.say("What would you do?")
    await lab.log.get_by_role("button", name="Approve", exact=True).click()
    await expect(lab.log.get_by_text("Carried out.")).to_be_visible()
    await expect(lab.mode).to_have_value("edit")


async def test_a_turn_is_taken_back_from_the_panel(lab: Lab, model: ScriptedModel) -> None:
    write_notebook(lab.server.root / "sales.ipynb", "1")
    model.add(Answer.of(ToolUse("insert_cell", {"source": "x = 1"})), Answer.of("Added."))
    await lab.open("sales.ipynb")
    await lab.show_panel()
    await lab.mode.select_option("auto")
    await lab.say("Add a cell.")
    changes = lab.panel.get_by_role("group", name="Changes")
    await expect(changes).to_contain_text("1 cell changed")
    await changes.get_by_role("button", name="Undo", exact=True).click()
    await expect(changes).to_contain_text("Undone")
    assert [cell.source for cell in lab.notebook("sales.ipynb").cells] == ["1"]


async def test_stop_ends_the_answer_and_keeps_what_was_said(lab: Lab, model: ScriptedModel) -> None:
    held = Held(Answer.of("One, two, three, four, five, six, seven, eight."), after=4)
    model.add(held)
    await lab.open()
    await lab.show_panel()
    await lab.say("Count.")
    await expect(lab.log.get_by_text("One,")).to_be_visible()
    await lab.message_box.press("Escape")
    await expect(lab.log.get_by_text("Stopped. What was done stays.")).to_be_visible()
    await expect(lab.log.get_by_text("One,")).to_be_visible()
    await expect(lab.panel.get_by_role("button", name="Send", exact=True)).to_be_visible()


async def test_a_message_waits_for_the_one_before_it(lab: Lab, model: ScriptedModel) -> None:
    held = Held(Answer.of("First answer."), after=2)
    model.add(held, Answer.of("Second answer."))
    await lab.open()
    await lab.show_panel()
    await lab.say("First?")
    await held.held.wait()
    await lab.say("Second?")
    await expect(lab.log.get_by_text("Waits for the message before it")).to_be_visible()
    held.go_on.set()
    await expect(lab.log.get_by_text("Second answer.")).to_be_visible()
    await expect(lab.log.get_by_text("First answer.")).to_be_visible()


async def test_a_reload_in_the_middle_of_an_answer_loses_nothing(
    lab: Lab, model: ScriptedModel
) -> None:
    held = Held(Answer.of("One, two, three, four, five, six, seven, eight."), after=4)
    model.add(held)
    await lab.open()
    await lab.show_panel()
    await lab.say("Count.")
    await expect(lab.log.get_by_text("One,")).to_be_visible()
    await lab.message_box.fill("A draft")
    await lab.page.reload()
    await lab.ready()
    # Not by its tab, which would close a panel that is being restored at this moment.
    await lab.command("tk-ai:show-panel")
    await expect(lab.log.get_by_text("One,")).to_be_visible()
    await expect(lab.message_box).to_have_value("A draft")
    held.go_on.set()
    await expect(lab.log.get_by_text("eight.")).to_be_visible()


async def test_a_cut_line_is_taken_up_again(lab: Lab, model: ScriptedModel) -> None:
    held = Held(Answer.of("One, two, three, four, five, six, seven, eight."), after=4)
    model.add(held)
    await lab.open()
    await lab.show_panel()
    await lab.say("Count.")
    await expect(lab.log.get_by_text("One,")).to_be_visible()
    await lab.page.context.set_offline(True)
    # An open stream outlives Chromium's offline mode: the next request is what fails.
    await lab.page.context.set_offline(False)
    held.go_on.set()
    await expect(lab.log.get_by_text("eight.")).to_be_visible()


@pytest.mark.proves("ui:error-block")
async def test_an_error_says_what_to_do(lab: Lab, model: ScriptedModel) -> None:
    await lab.open()
    await lab.show_panel()
    for failure, says, step in [
        (UNAUTHORIZED, "key", "Connect a model"),
        (OVERLOADED, "busy", "Retry"),
        (rate_limited(0), "429", "Retry"),
        (Failure(400, "invalid_request_error", "prompt is too long"), "too long", "Retry"),
    ]:
        model.add(*[failure] * 6)
        await lab.command("tk-ai:new-chat")
        await lab.say("Hello?")
        problem = lab.log.get_by_role("alert")
        await expect(problem).to_be_visible()
        await expect(problem).to_contain_text(re.compile(says, re.IGNORECASE))
        await expect(problem.get_by_role("button", name=step)).to_be_visible()
        model.clear()


async def test_an_answer_that_was_cut_comes_again_once(lab: Lab, model: ScriptedModel) -> None:
    answer = Answer.of("One, two, three.")
    model.add(Cut(answer, after=3), answer)
    await lab.open()
    await lab.show_panel()
    await lab.say("Count.")
    await expect(lab.log.get_by_text("One, two, three.")).to_have_count(1)


@pytest.mark.proves("ui:truncation")
async def test_a_long_output_is_cut_and_shown_whole_when_asked(
    lab: Lab, model: ScriptedModel
) -> None:
    write_notebook(lab.server.root / "sales.ipynb", "1")
    source = "for n in range(60):\n    print('line', n)"
    model.add(Answer.of(ToolUse("execute_ipython", {"code": source})), Answer.of("Printed."))
    await lab.open("sales.ipynb")
    await lab.show_panel()
    await lab.mode.select_option("auto")
    await lab.say("Print.")
    await expect(lab.log.get_by_text("Printed.")).to_be_visible()
    card = lab.panel.locator('[data-tool="execute_ipython"]')
    await card.locator("summary").first.click()
    output = card.locator(".tk-Output")
    shown = len((await output.inner_text()).splitlines())
    await card.get_by_role("button", name="Show all").click()
    assert len((await output.inner_text()).splitlines()) > shown


async def test_chats_are_found_renamed_and_deleted(lab: Lab, model: ScriptedModel) -> None:
    model.add(Answer.of("One."), Answer.of("Two."))
    await lab.open()
    await lab.show_panel()
    await lab.say("About apples")
    await expect(lab.log.get_by_text("One.")).to_be_visible()
    await lab.panel.get_by_role("button", name="New chat").click()
    await lab.say("About pears")
    await expect(lab.log.get_by_text("Two.")).to_be_visible()

    await lab.panel.get_by_role("button", name="History").click()
    history = lab.panel.get_by_role("region", name="History")
    await history.get_by_role("searchbox").fill("apples")
    entries = history.get_by_role("listitem")
    await expect(entries).to_have_count(1)
    await entries.get_by_role("button", name="Rename About apples").click()
    await history.get_by_label("Title").fill("Orchard")
    await history.get_by_label("Title").press("Enter")
    await history.get_by_role("searchbox").fill("orch")
    await entries.locator(".tk-Entry-open").click()
    await expect(lab.log.get_by_text("One.")).to_be_visible()

    await lab.panel.get_by_role("button", name="History").click()
    async with lab.page.expect_download() as download:
        await history.get_by_role("button", name="Export Orchard as Markdown").click()
    saved = await (await download.value).path()
    assert "About apples" in await asyncio.to_thread(Path(saved).read_text)
    await history.get_by_role("button", name="Delete Orchard").click()
    await lab.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(entries).to_have_count(1)
    await expect(entries).to_contain_text("About pears")


async def test_a_cell_is_named_with_an_at_sign(lab: Lab, model: ScriptedModel) -> None:
    write_notebook(lab.server.root / "sales.ipynb", "first = 1", "second = 2")
    model.add(Answer.of("Seen."))
    await lab.open("sales.ipynb")
    await lab.show_panel()
    await lab.message_box.press_sequentially("Look at @second")
    await expect(lab.panel.get_by_role("option", name="Cell 2")).to_be_visible()
    await lab.message_box.press("Enter")
    await expect(lab.message_box).to_have_value("Look at @2 ")
    await lab.message_box.press("Enter")
    await expect(lab.log.get_by_text("Seen.")).to_be_visible()
    assert "second = 2" in "\n".join(model.requests[0].prompts)


async def test_the_tour_leads_to_a_plot_and_is_taken_back(open_lab: OpenLab) -> None:
    lab = await open_lab(None)
    await lab.open()
    await lab.show_panel()
    await lab.mode.select_option("auto")
    await lab.panel.get_by_role("button", name="Take the tour").click()
    await expect(lab.log.locator("img.tk-Picture").first).to_be_visible()
    await expect(lab.log.get_by_text("That was the tour.")).to_be_visible()
    assert len(lab.notebook("tour.ipynb").cells) > 1

    changes = lab.panel.get_by_role("group", name="Changes")
    await changes.get_by_role("button", name="Undo", exact=True).click()
    await expect(changes).to_contain_text("Undone")
    assert [cell.source for cell in lab.notebook("tour.ipynb").cells if cell.source] == []


async def test_without_a_model_the_panel_says_how_to_connect_one(open_lab: OpenLab) -> None:
    lab = await open_lab(None)
    await lab.open()
    await lab.show_panel()
    await lab.panel.get_by_role("button", name="Connect a model").click()
    await expect(lab.page.get_by_role("dialog")).to_contain_text("ANTHROPIC_API_KEY")


async def test_axe_finds_nothing_wrong(lab: Lab, model: ScriptedModel) -> None:
    write_notebook(lab.server.root / "sales.ipynb", "1")
    model.add(
        Answer.of(
            Thinking("Hm."),
            "A [link](https://example.org), `code`:\n\n```python\nx = 'text'  # why\n```\n",
            ToolUse("list_cells"),
        ),
        Answer.of("Now a change.", RUN),
        Answer.of("Done."),
    )
    await lab.open("sales.ipynb")
    await lab.show_panel()
    assert await panel_violations(lab) == []
    await lab.say("Go.")
    question = lab.panel.get_by_role("group", name="Run this in sales.ipynb?")
    await expect(question).to_be_visible()
    assert await panel_violations(lab) == []
    await answer(question, "Approve")
    await expect(lab.panel.get_by_role("group", name="Changes")).to_be_visible()
    for summary in await lab.panel.locator("summary").all():
        await summary.click()
    assert await panel_violations(lab) == []
    await lab.panel.get_by_role("button", name="History").click()
    await expect(lab.panel.get_by_role("region", name="History")).to_be_visible()
    assert await panel_violations(lab) == []


AT_ONCE = """
() => new MutationObserver(changes => {
  for (const node of changes.flatMap(({ addedNodes }) => [...addedNodes])) {
    node.querySelector?.('.tk-Question .tk-mod-accept')?.click();
  }
}).observe(document.body, { childList: true, subtree: true })
"""
"""Clicks on each question's Approve in the moment in which it is there."""


@pytest.mark.proves("ui:question-seen", "ui:deny-words", "ui:whole-change")
async def test_two_quick_clicks_answer_one_question_and_a_denial_may_say_why(
    lab: Lab, model: ScriptedModel
) -> None:
    write_notebook(lab.server.root / "sales.ipynb", "1")
    model.add(Answer.of(RUN), Answer.of(RUN), Answer.of("I see."))
    await lab.open("sales.ipynb")
    await lab.show_panel()
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
    await expect(card).to_have_count(2)
    # The second one was clicked in the moment in which it was there.
    await armed(question)
    assert len(lab.notebook("sales.ipynb").cells) == 2

    await question.get_by_role("button", name="Deny with a note…").click()
    note = question.get_by_role("textbox")
    await expect(note).to_be_focused()
    await note.press_sequentially("Use the mean.")
    await note.press("Enter")
    await expect(lab.log.get_by_text("I see.")).to_be_visible()
    await expect(card.nth(1)).to_contain_text("Denied: add and run a cell")
    assert len(lab.notebook("sales.ipynb").cells) == 2
