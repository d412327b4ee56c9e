"""The chat in JupyterLab with several chats, panels and notebooks open."""

from __future__ import annotations

from typing import Any

import httpx2
from playwright.async_api import Locator, expect

from tests.browser.agents import NOTEBOOK, Open, write_cells
from tests.browser.lab import Lab, armed, write_notebook
from tests.support.scripted_model import Answer, Held, ScriptedModel, ToolUse

ASKS = ToolUse("insert_cell", {"source": "x = 1"})


async def messages(lab: Lab) -> list[dict[str, Any]]:
    """The messages of all chats as the server has them, the newest chat first."""
    async with httpx2.AsyncClient(headers=lab.server.headers, timeout=60) as http:
        address = f"{lab.server.url}api/tk-ai/chats"
        chats = (await http.get(address)).json()["chats"]
        pages = [(await http.get(f"{address}/{chat['id']}")).json() for chat in chats]
    return [event for chat in pages for event in chat["events"] if event["kind"] == "message"]


def tabs(lab: Lab) -> Locator:
    """The tabs with a chat in the main area."""
    return lab.page.locator(".lm-DockPanel-tabBar .lm-TabBar-tab").filter(has_text="Claude")


def in_tab(lab: Lab) -> Locator:
    """The chat in the main area that is in sight."""
    return lab.page.locator(".jp-MainAreaWidget .tk-Chat:visible")


def at_the_side(lab: Lab) -> Locator:
    """The chat in the sidebar."""
    return lab.page.locator("#tk-ai-chat .tk-Chat")


def box_of(panel: Locator) -> Locator:
    """Where a person writes in a panel."""
    return panel.get_by_role("textbox", name="Message", exact=True)


async def test_a_question_of_a_chat_that_is_not_on_screen_is_notified_and_found(
    lab: Lab, model: ScriptedModel
) -> None:
    write_notebook(lab.server.root / "sales.ipynb", "1")
    asking = Held(Answer.of(ASKS), after=3)
    model.add(asking, Answer.of("Not then."))
    await lab.open("sales.ipynb")
    await lab.show_panel()
    await lab.say("Add a cell.")
    await asking.held.wait()
    await lab.panel.get_by_title("New chat", exact=True).click()
    await lab.message_box.fill("Meanwhile")
    asking.go_on.set()

    notification = lab.page.get_by_role("alert").filter(has_text="Claude needs your approval.")
    await expect(notification).to_have_count(1)
    question = lab.log.get_by_role("group", name="Change sales.ipynb?")
    await notification.get_by_role("button", name="Show").click()
    await expect(question).to_be_visible()

    await lab.panel.get_by_title("New chat", exact=True).click()
    await expect(lab.message_box).to_have_value("Meanwhile")
    await lab.panel.get_by_role("button", name="History").click()
    await lab.command("tk-ai:question")
    await expect(question).to_be_focused()
    await armed(question)
    await lab.page.keyboard.press("Escape")
    await expect(lab.log.get_by_text("Not then.")).to_be_visible()


async def test_a_question_about_a_cell_names_the_cell_whatever_the_box_contains(
    lab: Lab, model: ScriptedModel
) -> None:
    write_cells(lab.server.root, first000="a = 1", fails000="1 / 0")
    (lab.server.root / "b.csv").write_text("1,2\n")
    model.add(Answer.of("Gladly."))
    await lab.open(NOTEBOOK)
    await lab.show_panel()
    await Open(lab).run(1)
    button = Open(lab).cells.nth(1).get_by_role("button", name="Explain")
    await button.wait_for()
    await lab.panel.get_by_role("button", name=f"Remove {NOTEBOOK}").click()
    await expect(lab.message_box).to_be_focused()
    await lab.page.keyboard.type("Look at @b.c")
    await expect(lab.panel.get_by_role("option", name="b.csv")).to_be_visible()
    await lab.page.keyboard.press("Enter")
    await Open(lab).cells.nth(0).locator(".jp-InputPrompt").click()
    await button.click()

    await expect(lab.log).to_contain_text("Gladly.")
    [message] = await messages(lab)
    assert (message["notebook"], message["active_cell"]) == (NOTEBOOK, "fails000")
    assert message["attachments"] == []
    assert "division by zero" in "\n".join(model.requests[0].prompts)
    await expect(lab.message_box).to_have_value("Look at @b.csv ")
    goes = lab.panel.get_by_role("group", name="Included in the message")
    await expect(goes).to_contain_text("b.csv")


async def test_each_tab_is_there_again_with_its_chat_and_the_sidebar_with_its_own(
    lab: Lab, model: ScriptedModel
) -> None:
    model.add(Answer.of("In the first."), Answer.of("In the third."))
    await lab.open()
    await lab.show_panel()
    for _ in range(3):
        await lab.command("tk-ai:open-in-main", isLauncher=True)
    await expect(tabs(lab)).to_have_count(3)
    await tabs(lab).nth(1).locator(".lm-TabBar-tabCloseIcon").click()
    await expect(tabs(lab)).to_have_count(2)
    for place, word in enumerate(("first", "third")):
        await tabs(lab).nth(place).click()
        await box_of(in_tab(lab)).fill(f"Which? {word}")
        await box_of(in_tab(lab)).press("Enter")
        await expect(in_tab(lab).get_by_text(f"In the {word}.")).to_be_visible()
    # JupyterLab keeps its layout when it has been still for a moment.
    async with lab.page.expect_response(lambda answer: "/api/workspaces" in answer.url):
        pass

    await lab.page.reload()
    await lab.ready()
    await expect(tabs(lab)).to_have_count(2)
    for place, word in enumerate(("first", "third")):
        await tabs(lab).nth(place).click()
        await expect(in_tab(lab).get_by_text(f"In the {word}.")).to_be_visible()
    await expect(at_the_side(lab).get_by_role("button", name="New chat")).to_have_count(2)


async def test_commands_act_on_the_panel_that_the_person_is_in(
    lab: Lab, model: ScriptedModel
) -> None:
    held = Held(Answer.of("One, two, three, four."), after=3)
    model.add(Answer.of("At the side."), held)
    await lab.open()
    await lab.show_panel()
    await lab.say("Where?")
    side = at_the_side(lab)
    await expect(side.get_by_text("At the side.")).to_be_visible()
    await lab.command("tk-ai:open-in-main", isLauncher=True)
    tab = in_tab(lab)
    await box_of(tab).fill("Count.")
    await box_of(tab).press("Enter")
    await held.held.wait()

    await box_of(side).focus()
    await lab.command("tk-ai:stop")
    await lab.command("tk-ai:new-chat")
    await expect(side.get_by_text("At the side.")).to_have_count(0)
    await expect(tab.get_by_text("Count.", exact=True).first).to_be_visible()
    await expect(tab.get_by_role("button", name="Stop", exact=True)).to_be_visible()
    await box_of(tab).press_sequentially("/stop")
    await tab.get_by_role("option", name="/stop").wait_for()
    await box_of(tab).press("Enter")
    await expect(tab.get_by_text("Stopped.")).to_be_visible()
    await box_of(tab).press_sequentially("/new")
    await tab.get_by_role("option", name="/new").wait_for()
    await box_of(tab).press("Enter")
    await expect(tab.get_by_text("Count.")).to_have_count(0)
