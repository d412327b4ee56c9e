"""All that a person does in the panel and at the marks in the notebook, by the keyboard alone."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest
from playwright.async_api import Locator, Page, expect

from tests.browser.agents import Open
from tests.browser.conftest import OpenLab
from tests.browser.lab import Lab, armed, write_notebook
from tests.proofs import ROOT
from tests.support.scripted_model import Answer, Held, ScriptedModel, ToolUse

OTHER_MODEL = "claude-scripted-2"
AGENT = (sys.executable, str(ROOT / "tests" / "support" / "acp_agent.py"))
"""The command of an agent that repeats what it is sent."""
CONFIG = f"""
c.TkAIExtensionApp.chat_models = [{OTHER_MODEL!r}]
c.TkAIExtensionApp.acp_agents = {{"example": {{"command": {AGENT!r}, "title": "Example Agent"}}}}
"""
FAR = 120
"""How many presses of Tab lead around the page at most."""

LONG = "for n in range(60):\n    print('line', n)"
CODE = "Use this:\n\n```python\ntotal = 12\n```\n"


@dataclass(frozen=True)
class Keys:
    """Hands on a keyboard; there is no mouse."""

    page: Page

    async def press(self, *keys: str) -> None:
        """Presses keys, one after the other."""
        for key in keys:
            await self.page.keyboard.press(key)

    async def type(self, text: str) -> None:
        """Types a text where the focus is."""
        await self.page.keyboard.type(text)

    async def go(self, to: Locator, key: str = "Tab") -> None:
        """Moves the focus by Tab, or Shift+Tab, until it is there."""
        await to.wait_for()
        for _ in range(FAR):
            if await to.evaluate("node => node === document.activeElement"):
                return
            await self.press(key)
        raise AssertionError(f"{key} does not lead to {to}")

    async def back(self, to: Locator) -> None:
        """Moves the focus backwards until it is there."""
        await self.go(to, "Shift+Tab")

    async def command(self, label: str) -> None:
        """Runs a command by the palette."""
        await self.press("Control+Shift+C")
        await expect(self.page.locator(".lm-CommandPalette-input")).to_be_focused()
        await self.type(label)
        await expect(self.page.locator(".lm-CommandPalette-item.lm-mod-active")).to_contain_text(
            label
        )
        await self.press("Enter")


@pytest.mark.proves("ext:panel")
async def test_everything_is_done_by_the_keyboard_alone(
    open_lab: OpenLab, model: ScriptedModel
) -> None:
    lab = await open_lab(
        model,
        own=True,
        config=CONFIG,
        permissions=["clipboard-read", "clipboard-write"],
    )
    write_notebook(lab.server.root / "sales.ipynb", "first = 1", "second = 2", "1 / 0")
    await lab.open("sales.ipynb")
    keys = Keys(lab.page)
    await writes(lab, keys, model)
    await reads(lab, keys)
    await answers(lab, keys, model)
    await reviews(lab, keys, model)
    await edits(lab, keys, model)
    await finds(lab, keys)
    await marks(lab, keys, model)
    await asks(lab, keys, model)
    await asks_another_agent(lab, keys)


async def writes(lab: Lab, keys: Keys, model: ScriptedModel) -> None:
    """Opens the panel, chooses who answers and what goes with the message, and sends it."""
    await keys.press("Control+Alt+C")
    await expect(lab.message_box).to_be_focused()
    await keys.go(lab.mode)
    await keys.press("ArrowDown", "ArrowDown")
    await expect(lab.mode).to_have_value("auto")
    answerer = lab.panel.get_by_label("Model", exact=True)
    await keys.go(answerer)
    await keys.press("ArrowDown")
    await expect(answerer).to_have_value(OTHER_MODEL)

    chips = lab.panel.get_by_role("group", name="Included in the message")
    await keys.back(chips.get_by_role("button", name="Attach a file"))
    await keys.press("Enter")
    dialog = lab.page.get_by_role("dialog")
    # The file is the last of what Tab reaches before the buttons.
    await keys.back(dialog.get_by_role("button", name="sales.ipynb").first)
    await keys.press("ArrowDown", "Enter")
    await expect(dialog).to_have_count(0)
    await expect(chips.get_by_text("sales.ipynb")).to_have_count(2)
    await expect(lab.message_box).to_be_focused()

    await keys.type("/fi")
    await expect(lab.panel.get_by_role("option", name="/fix")).to_be_visible()
    await keys.press("Enter")
    await expect(lab.message_box).to_have_value("This cell fails. Fix it, then run it.")
    await keys.press("Control+A", "Delete")
    await keys.type("Look at @second")
    await expect(lab.panel.get_by_role("option", name="Cell 2")).to_be_visible()
    await keys.press("Enter")
    await expect(lab.message_box).to_have_value("Look at @2 ")
    await keys.go(chips.get_by_role("button", name="Remove Cell 2"), "Shift+Tab")
    await keys.press("Enter")
    await keys.go(lab.message_box)

    model.add(Answer.of(ToolUse("execute_ipython", {"code": LONG})), Answer.of("Printed."))
    await keys.press("Enter")
    await expect(lab.log.get_by_text("Printed.")).to_be_visible()
    await expect(lab.message_box).to_be_focused()


async def reads(lab: Lab, keys: Keys) -> None:
    """Opens the card of a call, sees all that it printed, and copies the answer."""
    card = lab.panel.locator('[data-tool="execute_ipython"]')
    await keys.back(card.locator("summary").first)
    await keys.press("Enter")
    await keys.go(card.get_by_role("button", name="Show all"))
    await keys.press("Enter")
    await expect(card.locator(".tk-Output")).to_contain_text("line 59")
    await expect(card.locator(".tk-Output")).to_be_focused()
    await keys.back(lab.log.get_by_role("button", name="More", exact=True))
    await keys.press("Enter", "ArrowDown", "Enter")
    assert await lab.page.evaluate("() => navigator.clipboard.readText()") == "Printed."


async def answers(lab: Lab, keys: Keys, model: ScriptedModel) -> None:
    """Answers permission requests, and stops."""
    await keys.go(lab.mode)
    await keys.press("ArrowUp", "ArrowUp")
    await expect(lab.mode).to_have_value("ask")
    await keys.back(lab.message_box)
    insert = ToolUse("insert_cell", {"source": "x = 1", "index": 1})
    model.add(Answer.of(insert), Answer.of("Not then."))
    question = lab.panel.get_by_role("group", name="Change sales.ipynb?")
    await keys.type("Add a cell.")
    await keys.press("Enter")
    await expect(question).to_be_visible()
    await keys.press("ArrowUp")
    await expect(question).to_be_focused()
    await armed(question)
    await keys.press("Escape")
    await expect(lab.log.get_by_text("Not then.")).to_be_visible()
    await expect(lab.message_box).to_be_focused()

    model.add(Answer.of(insert), Answer.of("Added."))
    await keys.type("Add it all the same.")
    await keys.press("Enter")
    await expect(question).to_be_visible()
    await keys.press("Control+Alt+Q")
    await expect(question).to_be_focused()
    await armed(question)
    await keys.go(question.get_by_role("button", name="More answers"))
    await keys.press("Enter", "ArrowDown", "Enter")
    await expect(lab.log.get_by_text("Added.")).to_be_visible()
    await expect(lab.message_box).to_be_focused()

    model.add(Held(Answer.of("One, two, three, four, five, six, seven, eight."), after=4))
    await keys.type("Count.")
    await keys.press("Enter")
    await expect(lab.log.get_by_text("One,")).to_be_visible()
    await keys.press("Escape")
    await expect(lab.log.get_by_text("Stopped. Changes made so far were kept.")).to_be_visible()
    await expect(lab.message_box).to_be_focused()

    model.add(Answer.of("I would count."), Answer.of("Counted."))
    await keys.go(lab.mode)
    await keys.press("Home")
    await keys.back(lab.message_box)
    await keys.type("How would you count?")
    await keys.press("Enter")
    await keys.back(lab.log.get_by_role("button", name="Approve", exact=True))
    await keys.press("Enter")
    await expect(lab.log.get_by_text("Counted.")).to_be_visible()
    await expect(lab.message_box).to_be_focused()


async def reviews(lab: Lab, keys: Keys, model: ScriptedModel) -> None:
    """Looks at what a turn changed, takes a cell of it back, and keeps the rest."""
    changes = lab.panel.get_by_role("group", name="Changes")
    await keys.back(changes.locator("summary").first)
    await keys.press("Enter")
    await keys.go(changes.get_by_role("button", name="Undo this cell"))
    await keys.press("Enter")
    await expect(changes).to_contain_text("undone")
    await expect(changes).to_be_focused()

    two = [ToolUse("insert_cell", {"source": f"x = {n}", "index": 1}) for n in (2, 3)]
    model.add(Answer.of(*two), Answer.of("Two cells."))
    await keys.go(lab.message_box)
    await keys.type("Add two.")
    await keys.press("Enter")
    await expect(lab.log.get_by_text("Two cells.")).to_be_visible()
    await keys.back(changes.last.get_by_role("button", name="Keep", exact=True))
    await keys.press("Enter")
    await expect(changes.last).to_contain_text("Kept")
    await expect(changes.last).to_be_focused()


async def edits(lab: Lab, keys: Keys, model: ScriptedModel) -> None:
    """Edits a message and sends it again; puts code of the answer into the notebook."""
    model.add(Answer.of(CODE))
    await keys.go(lab.message_box)
    await keys.back(lab.panel.get_by_role("button", name="Edit and send again").last)
    await keys.press("Enter")
    await expect(lab.message_box).to_be_focused()
    await expect(lab.message_box).to_have_value("Add two.")
    await keys.press("Control+A")
    await keys.type("Show me code.")
    await keys.press("Enter")
    code = lab.log.get_by_role("group", name="Code")
    cells = len(lab.notebook("sales.ipynb").cells)
    await keys.back(code.get_by_role("button", name="Replace the active cell"))
    await keys.press("Enter")
    await keys.back(code.get_by_role("button", name="Insert as a cell"))
    await keys.press("Enter")
    await keys.back(code.get_by_role("button", name="Copy", exact=True))
    await keys.press("Enter")
    assert await lab.page.evaluate("() => navigator.clipboard.readText()") == "total = 12"
    seen = Open(lab)
    await expect(seen.cells).to_have_count(cells + 1)
    await expect(seen.cells.filter(has_text="total = 12")).to_have_count(2)


async def finds(lab: Lab, keys: Keys) -> None:
    """Begins a chat; finds one in the history, renames, exports and deletes it."""
    await keys.press("Control+Alt+N")
    await expect(lab.message_box).to_be_focused()
    await expect(lab.log.get_by_role("group", name="Message")).to_have_count(0)
    await keys.press("Control+Alt+H")
    history = lab.panel.get_by_role("region", name="History")
    await expect(history.get_by_role("searchbox")).to_be_focused()
    await keys.type("look")
    entry = history.get_by_role("listitem")
    await expect(entry).to_have_count(1)
    more = entry.get_by_role("button", name="More about")
    await keys.go(more)
    await keys.press("Enter", "ArrowDown", "Enter")
    await expect(lab.page.get_by_role("dialog").get_by_label("Title")).to_be_focused()
    await keys.type("Lookout")
    await keys.press("Enter")
    await expect(entry).to_contain_text("Lookout")
    await expect(more).to_be_focused()
    async with lab.page.expect_download():
        await keys.press("Enter", "ArrowDown", "ArrowDown", "Enter")
    await keys.back(entry.locator(".tk-Entry-open"))
    await keys.press("Enter")
    await expect(lab.log.get_by_text("Stopped. Changes made so far were kept.")).to_be_visible()
    await expect(lab.message_box).to_be_focused()
    await keys.press("Control+Alt+H")
    await keys.go(more)
    await keys.press("Enter", "ArrowUp", "Enter")
    await expect(lab.page.get_by_role("dialog")).to_be_visible()
    await keys.press("Enter")
    await expect(entry).to_have_count(0)
    await expect(history.get_by_role("searchbox")).to_be_focused()
    await keys.press("Escape")
    await expect(lab.message_box).to_be_focused()


async def marks(lab: Lab, keys: Keys, model: ScriptedModel) -> None:
    """Goes to the notebook: looks at what was changed there, keeps it, takes it back."""
    seen = Open(lab)
    insert = [ToolUse("insert_cell", {"source": f"y = {n}", "index": 0}) for n in (1, 2)]
    model.add(Answer.of(*insert), Answer.of("There they are."))
    await keys.go(lab.mode)
    await keys.press("End")
    await keys.back(lab.message_box)
    await keys.type("Add two more.")
    await keys.press("Enter")
    await expect(lab.log.get_by_text("There they are.")).to_be_visible()
    changes = lab.panel.get_by_role("group", name="Changes")
    await keys.back(changes.locator("summary").first)
    await keys.press("Enter")
    await keys.go(changes.get_by_role("button", name="Show", exact=True))
    await keys.press("Enter")
    await expect(seen.cells.nth(1)).to_be_in_viewport()
    await expect(seen.cells.nth(1)).to_be_focused()
    await keys.go(seen.mark(1))
    await keys.press("Enter")
    await expect(seen.review(1)).to_contain_text("Added this cell.")
    await keys.go(seen.review(1).get_by_role("button", name="Undo", exact=True), "Shift+Tab")
    await keys.press("Enter")
    await expect(seen.cells.filter(has_text="y = 1")).to_have_count(0)
    # A toolbar is one stop of Tab; arrows lead along it.
    await keys.back(seen.toolbar.locator("[tabindex='0']").first)
    await keys.go(seen.all_changes.get_by_role("button", name="1 cell changed"), "ArrowRight")
    await keys.press("Enter")
    await expect(seen.cells.nth(0)).to_be_focused()
    await keys.go(seen.mark(0))
    await keys.press("Enter")
    await keys.back(seen.review(0).get_by_role("button", name="Keep", exact=True))
    await keys.press("Enter")
    await expect(seen.marks).to_have_count(0)
    await expect(seen.cells.nth(0)).to_be_focused()


async def asks(lab: Lab, keys: Keys, model: ScriptedModel) -> None:
    """Asks about a cell: below its traceback, and by the palette."""
    seen = Open(lab)
    last = await seen.cells.count() - 1
    await keys.press(*["ArrowDown"] * last)
    await expect(seen.cells.nth(last)).to_be_focused()
    await keys.press("Control+Enter")
    failed = seen.cells.nth(last).get_by_role("group", name="Ask Claude about this error")
    model.add(Answer.of("By zero."), Answer.of("Fixed."), Answer.of("A cell."))
    await keys.go(failed.get_by_role("button", name="Explain"))
    await keys.press("Enter")
    await expect(lab.log.get_by_text("By zero.")).to_be_visible()
    await expect(lab.message_box).to_be_focused()
    await keys.back(failed.get_by_role("button", name="Fix"))
    await keys.press("Enter")
    await expect(lab.log.get_by_text("Fixed.")).to_be_visible()
    await keys.command("Explain Cells with Claude")
    await expect(lab.log.get_by_text("A cell.")).to_be_visible()
    await expect(lab.message_box).to_be_focused()


async def asks_another_agent(lab: Lab, keys: Keys) -> None:
    """Chooses an agent of the Agent Client Protocol for a new chat, and gets its answer."""
    await keys.press("Control+Alt+N")
    await expect(lab.message_box).to_be_focused()
    answerer = lab.panel.get_by_label("Model", exact=True)
    await keys.go(answerer)
    await keys.type("Example Agent")
    await expect(answerer).to_have_value("example")
    await keys.back(lab.message_box)
    await keys.type("Are you there?")
    await keys.press("Enter")
    answer = lab.log.get_by_role("group", name="Message").last
    await expect(answer.locator(".tk-Answer")).to_contain_text("Example Agent")
    await expect(answer.locator(".tk-Answer")).to_contain_text("Are you there?")
    await expect(lab.message_box).to_be_focused()
    # What it does in its own process is not asked about as if the kernel ran it.
    await keys.type('own execute {"command": "rm -rf data"}')
    await keys.press("Enter")
    question = lab.panel.get_by_role("group", name="Let Example Agent run this on the server?")
    await keys.back(question)
    await armed(question)
    await keys.press("Escape")
    await expect(question).to_have_count(0)
