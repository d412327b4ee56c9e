"""Long answers and long chats: what a person reads and selects stays, and the end is there at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.browser.conftest import OpenLab
from tests.browser.lab import Lab
from tests.support.scripted_model import MODEL, Answer, Held, ScriptedModel, Text
from tk_ai_extension.agent.events import Began, Done, Event, Sent, TextDelta
from tk_ai_extension.agent.transcripts import Transcripts
from tk_ai_extension.model.callers import owner
from tk_ai_extension.workspace.state_folder import state_folder

UPDATES = 200
MESSAGES = 500

ANSWER = "\n\n".join(
    f"Step {n}: for $x_{{{n}}}$ the *mean* is $\\bar x = \\frac{{1}}{{{n}}} \\sum_i x_i$.\n\n"
    f"```python\nmean_{n} = sum(values[:{n}]) / {n}\nprint(f'{{mean_{n}:.2f}}')\n```"
    for n in range(1, 31)
)

WATCH = """
markdown => {
  window.done = [...markdown.children].slice(0, -1);
  window.touched = [];
  const observer = new MutationObserver(records => {
    for (const { target } of records) {
      window.touched.push(...done.filter(block => block.contains(target)).map(block => block.outerHTML));
    }
  });
  observer.observe(markdown, { attributes: true, characterData: true, childList: true, subtree: true });
}
"""
"""Notes what changes in the blocks of an answer, but for the last of them."""


@pytest.mark.proves("ext:panel")
async def test_a_selection_is_kept_while_an_answer_grows_and_its_end_alone_changes(
    lab: Lab, model: ScriptedModel
) -> None:
    text = Text(ANSWER, -(-len(ANSWER) // UPDATES))
    held = Held(Answer((text,)), after=40)
    model.add(held)
    await lab.open()
    await lab.show_panel()
    await lab.say("Explain the means.")
    await held.held.wait()
    paragraph = lab.log.locator("p", has_text="Step 2:")
    await expect(paragraph).to_be_visible()
    await expect(lab.log.locator("pre", has_text="mean_4 =")).to_be_visible()
    await paragraph.select_text()
    selected = await lab.page.evaluate("() => getSelection().toString()")
    assert selected.startswith("Step 2: for")
    await lab.log.locator(".tk-Markdown").evaluate(WATCH)

    held.go_on.set()
    await expect(lab.panel.get_by_role("button", name="Copy the answer")).to_be_attached()
    await expect(lab.log.locator("pre", has_text="mean_30")).to_be_visible()
    assert await lab.page.evaluate("() => getSelection().toString()") == selected
    assert await lab.page.evaluate("() => [done.length > 5, touched]") == [True, []]
    assert await lab.page.evaluate("() => done.every(block => block.isConnected)")
    await expect(lab.log.locator("mjx-container")).to_have_count(60)


async def test_a_chat_of_500_messages_opens_at_its_end_and_shows_earlier_ones_when_asked(
    open_lab: OpenLab, model: ScriptedModel, tmp_path: Path
) -> None:
    lab = await open_lab(model, own=True)
    await write_chat(state_folder(tmp_path / "data", lab.server.root))
    await lab.open()
    await lab.show_panel()
    await lab.panel.get_by_role("button", name="History").click()
    await lab.panel.get_by_role("button", name="A long chat", exact=False).first.click()
    await expect(lab.log.get_by_text(f"Answer {MESSAGES}.")).to_be_in_viewport()
    turns = lab.log.get_by_role("group", name="Message")
    shown = await turns.count()
    assert shown < 50

    earlier = lab.log.get_by_role("button", name="earlier messages")
    await expect(earlier).to_have_text(f"Show {MESSAGES - shown} earlier messages")
    while await earlier.count():
        before = await turns.count()
        await earlier.click()
        await expect(turns.nth(before)).to_be_attached()
    await expect(turns).to_have_count(MESSAGES)
    await expect(turns.first).to_contain_text("Question 1?")


async def write_chat(state: Path) -> None:
    """A long chat of the user's, as the server keeps it."""
    transcripts = Transcripts(state / "chats.sqlite")
    chat = await transcripts.create(owner(), "long", "A long chat", None)
    events: list[Event] = []
    for turn in range(1, MESSAGES + 1):
        answer = f"**Answer {turn}.**"
        for what in (
            Sent(chat.id, f"Question {turn}?", None, "ask", MODEL),
            Began(),
            TextDelta(0, 0, answer),
            Done("done", answer),
        ):
            events.append(Event.of(len(events) + 1, f"turn-{turn}", 1.7e9 + turn, what))
    await transcripts.add(chat.id, events)
    await transcripts.close()
