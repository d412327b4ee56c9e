"""The panel's controls: plans, edited messages, the message box, dragging, outputs, errors."""

from __future__ import annotations

import pytest
from playwright.async_api import Locator, expect

from tests.browser.agents import Open
from tests.browser.axe import violations
from tests.browser.lab import Lab, armed, write_notebook
from tests.browser.open_notebook import shown
from tests.browser.pictures import picture
from tests.support.scripted_model import (
    OVERLOADED,
    Answer,
    Held,
    ScriptedModel,
    ToolUse,
)

PLAN = """I would add a cell.

1. Read `sales.csv` with the right separator.
2. Add a cell with the total of each region.
3. Plot the totals, and run both cells.
"""


@pytest.mark.proves("ext:panel", "rest:restore")
async def test_messages_are_planned_edited_and_queued_and_changes_are_kept_and_undone(
    lab: Lab, model: ScriptedModel
) -> None:
    await lab.open()
    await lab.show_panel()
    await planned_edited_and_queued(lab, model)
    write_notebook(lab.server.root / "plan.ipynb", "a = 1", "b = 1")
    await lab.command("docmanager:open", path="plan.ipynb")
    await shown(lab.page, "plan.ipynb")
    await kept_and_undone(lab, model)


async def planned_edited_and_queued(lab: Lab, model: ScriptedModel) -> None:
    """Axe finds nothing wrong in a plan, an edited and a waiting message."""
    held = Held(Answer.of("One, two, three, four."), after=3)
    model.add(Answer.of(PLAN), Answer.of("Noted."), held, Answer.of("Next."))
    goes = lab.panel.get_by_role("group", name="Included in the message")
    await lab.mode.select_option("plan")
    await lab.say("What would you do?")
    await expect(lab.log.get_by_role("button", name="Change the plan…")).to_be_visible()
    await picture(lab.page, "plan", lab.panel)
    await lab.log.get_by_role("button", name="Change the plan…").click()
    await expect(goes).to_contain_text("Changes to the plan")
    assert await violations(lab.page, ".tk-Chat") == []
    await lab.panel.get_by_role("button", name="Remove Changes to the plan").click()

    await lab.mode.select_option("ask")
    await lab.log.get_by_role("button", name="Edit and send again").click()
    await expect(goes).to_contain_text("Instead of “What would you do?”")
    await lab.say("What is it?")
    await expect(lab.log.get_by_text("Noted.")).to_be_visible()
    await expect(lab.log.get_by_text("I would add a cell.")).to_be_hidden()
    await lab.log.get_by_text("1 replaced message").click()
    await expect(lab.log.get_by_text("I would add a cell.")).to_be_visible()
    assert await violations(lab.page, ".tk-Chat") == []

    await lab.say("Count.")
    await held.held.wait()
    await lab.say("And next?")
    await expect(lab.log.get_by_text("Queued")).to_be_visible()
    assert await violations(lab.page, ".tk-Chat") == []
    held.go_on.set()
    await expect(lab.log.get_by_text("Next.")).to_be_visible()


async def changed(lab: Lab, model: ScriptedModel, number: int) -> Locator:
    """What the panel shows of a turn that has changed both cells to this number."""
    model.add(
        Answer.of(ToolUse("read_notebook")),
        Answer.of(
            ToolUse("overwrite_cell", {"cell": 0, "source": f"a = {number}"}),
            ToolUse("overwrite_cell", {"cell": 1, "source": f"b = {number}"}),
        ),
        Answer.of("Both are changed."),
    )
    await lab.say("Change both.")
    changes = lab.panel.get_by_role("group", name="Changes", exact=True).last
    await expect(changes).to_contain_text("2 cells changed")
    await expect(Open(lab).marks).to_have_count(2)
    return changes


async def kept_and_undone(lab: Lab, model: ScriptedModel) -> None:
    """Keep and Undo are in step between panel and notebook."""
    await lab.mode.select_option("auto")
    seen = Open(lab)

    def sources() -> list[str]:
        return [cell.source for cell in lab.notebook("plan.ipynb").cells]

    changes = await changed(lab, model, 2)
    await seen.mark(0).click()
    await seen.review(0).get_by_role("button", name="Keep", exact=True).click()
    await expect(changes).to_contain_text("1 cell changed")
    await expect(seen.marks).to_have_count(1)
    await changes.get_by_role("button", name="Keep", exact=True).click()
    await expect(changes).to_contain_text("Kept")
    await expect(seen.marks).to_have_count(0)

    # Undo in the panel leaves what was kept at its cell.
    changes = await changed(lab, model, 3)
    await seen.mark(0).click()
    await seen.review(0).get_by_role("button", name="Keep", exact=True).click()
    await expect(changes).to_contain_text("1 cell changed")
    await changes.get_by_role("button", name="Undo", exact=True).click()
    await expect(changes).to_contain_text("1 cell undone.")
    await expect(seen.marks).to_have_count(0)
    assert sources() == ["a = 3", "b = 2"]

    await lab.page.reload()
    await lab.ready()
    await lab.command("tk-ai:show-panel")
    await expect(changes).to_contain_text("Kept")
    await expect(changes.get_by_role("button", name="Undo", exact=True)).to_have_count(0)


@pytest.mark.proves("ui:json-tree", "ui:truncation", "ui:error-block")
async def test_messages_take_what_is_dragged_and_outputs_errors_and_long_answers_can_be_read(
    lab: Lab, model: ScriptedModel
) -> None:
    root = lab.server.root
    write_notebook(root / "sales.ipynb", "first = 1", "second = 2")
    (root / "prices.csv").write_text("day,price\n1,3\n", encoding="utf-8")
    await lab.open("sales.ipynb")
    await lab.show_panel()
    await shown_below(lab, model)
    await dragged(lab, model)
    await failed(lab, model)
    await shown_whole(lab, model)


async def dragged(lab: Lab, model: ScriptedModel) -> None:
    """Files and cells are dragged into the message."""
    model.add(Answer.of("Seen."))
    goes = lab.panel.get_by_role("group", name="Included in the message")

    entry = lab.page.locator(".jp-DirListing-item", has_text="prices.csv")
    await drag(lab, entry, lab.message_box)
    await expect(goes).to_contain_text("prices.csv")
    prompt = lab.page.locator(".jp-Notebook .jp-Cell").nth(1).locator(".jp-InputPrompt")
    await drag(lab, prompt, lab.log)
    await expect(goes.get_by_role("button", name="Remove Cell 2")).to_have_count(2)
    assert await violations(lab.page, ".tk-Chat") == []
    # What was dragged is where it was.
    assert len(lab.notebook("sales.ipynb").cells) == 2
    assert (lab.server.root / "prices.csv").is_file()

    await lab.say("Look at these.")
    await expect(lab.log.get_by_text("Seen.")).to_be_visible()
    seen = "\n".join(model.requests[-1].prompts)
    assert "Attached file prices.csv:\nday,price" in seen
    assert "Attached cell:" in seen


async def drag(lab: Lab, source: Locator, target: Locator) -> None:
    """Draws something to somewhere else, as a person does."""
    mouse = lab.page.mouse
    await source.hover()
    await mouse.down()
    box = await target.bounding_box()
    assert box is not None
    await mouse.move(box["x"] + 20, box["y"] + 8, steps=8)
    await expect(lab.page.locator(".tk-Panel.tk-mod-dropping")).to_be_visible()
    await mouse.up()
    await expect(lab.page.locator(".tk-mod-dropping")).to_have_count(0)


async def failed(lab: Lab, model: ScriptedModel) -> None:
    """An error says what to do, and Claude goes on from there."""
    # It is asked again twice.
    model.add(Answer.of("First a look.", ToolUse("list_cells")), *[OVERLOADED] * 3)
    model.add(Answer.of("Went on."))
    await lab.say("Look.")
    problem = lab.log.get_by_role("alert")
    await expect(problem).to_contain_text("busy")
    await expect(problem.get_by_role("button", name="Retry")).to_be_visible()
    turn = lab.log.get_by_role("group", name="Message").filter(has=lab.page.get_by_role("alert"))
    await expect(turn).to_contain_text("sales.ipynb")
    await problem.get_by_role("button", name="Continue").click()
    await expect(lab.log.get_by_text("Went on.")).to_be_visible()
    assert "First a look." in str(model.requests[-1].body["messages"])


async def shown_below(lab: Lab, model: ScriptedModel) -> None:
    """A reader above is notified of new text below."""
    long = "\n\n".join(f"Paragraph {number}." for number in range(60))
    held = Held(Answer.of(f"{long}\n\nThe end."), after=40)
    model.add(held)
    await lab.say("Write.")
    await expect(lab.log.get_by_text("Paragraph 20.")).to_be_visible()
    await held.held.wait()
    await lab.log.hover()
    await lab.page.mouse.wheel(0, -3000)
    first = lab.log.get_by_text("Paragraph 0.")
    await expect(first).to_be_in_viewport()
    held.go_on.set()
    end = lab.log.get_by_text("The end.")
    await expect(end).to_be_attached()
    await expect(first).to_be_in_viewport()
    latest = lab.panel.get_by_role("button", name="↓ Latest")
    await latest.click()
    await expect(end).to_be_in_viewport()
    await expect(latest).to_have_count(0)

    # A request changes the view's height several times, while its code is drawn.
    steps = [
        {"action": "overwrite", "cell": 0, "source": "y = 2\n" * 9},
        {"action": "insert", "source": "x = 1\nx", "index": 0},
    ]
    model.add(
        Answer.of("A look.", ToolUse("read_cell", {"cell": 0})),
        Answer.of("I would change it.", ToolUse("edit_cells", {"operations": steps})),
    )
    await lab.say("Change it.")
    await armed(lab.panel.get_by_role("group", name="Change sales.ipynb?"))
    await expect(lab.log.get_by_text("Waiting for your approval")).to_be_in_viewport()
    await expect(latest).to_have_count(0)
    await lab.panel.get_by_role("button", name="Stop", exact=True).click()
    await expect(lab.log.get_by_text("Stopped. Changes made so far were kept.")).to_be_visible()


async def shown_whole(lab: Lab, model: ScriptedModel) -> None:
    """Outputs are trees, and long ones are shown whole on request."""
    value = '{"shop": "north", "prices": [3, 4, {"deep": True}]}'
    tree = ToolUse("execute_ipython", {"code": f"from IPython.display import JSON\nJSON({value})"})
    long = ToolUse("execute_ipython", {"code": "for n in range(4210): print('line', n)"})
    model.add(Answer.of(tree), Answer.of(long), Answer.of("Ran both."))
    await lab.mode.select_option("auto")
    await lab.say("Run both.")
    await expect(lab.log.get_by_text("Ran both.")).to_be_visible()
    first = lab.panel.locator('[data-tool="execute_ipython"]').first
    # What nobody has opened is not even rendered.
    await expect(first.locator(".tk-Call-details")).to_have_count(0)
    await first.locator("summary").first.click()
    await expect(first.get_by_text("shop: ").first).to_be_visible()
    prices = first.locator("summary", has_text="prices").first
    await prices.click()
    await expect(first.get_by_text("2: ").first).to_be_visible()
    await expect(first.get_by_text("deep: ")).to_have_count(0)

    second = lab.panel.locator('[data-tool="execute_ipython"]').last
    await second.locator("summary").first.click()
    output = second.locator(".tk-Output")
    await expect(output).not_to_contain_text("line 2000")
    await second.get_by_role("button", name="Show all 4,210 lines").click()
    await expect(output).to_contain_text("line 2000")
    await expect(output).to_be_focused()
    assert await violations(lab.page, ".tk-Chat") == []
