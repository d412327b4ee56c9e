"""The chat in JupyterLab: how a person changes their mind, and what the panel remembers of it."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Locator, expect

from tests.browser.agents import Open
from tests.browser.axe import violations
from tests.browser.conftest import shared
from tests.browser.lab import Lab, write_notebook
from tk_ai_extension.testing.scripted_model import (
    OVERLOADED,
    Answer,
    Held,
    ScriptedModel,
    ToolUse,
)

Seen = tuple[Locator, Open]

READS = re.compile(r"/api/tk-ai/chats/\w+(\?|$)")
"""The requests for all that happened in a chat."""

SELECT = """
(node, [from, to]) => {
  const texts = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  const text = texts.nextNode();
  getSelection().setBaseAndExtent(text, from, text, to);
}
"""

DROP = """
(node, type) => {
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File(['bytes'], 'dropped', { type }));
  node.dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }));
}
"""
SHRINK_AND_GROW = """async log => {
  const frames = async () => {
    for (let n = 0; n < 3; n++) await new Promise(requestAnimationFrame);
  };
  const content = log.firstElementChild;
  const add = (text, height) => {
    const node = document.createElement('div');
    node.append(document.createElement('span'));
    node.firstChild.append(text);
    node.style.cssText = `display: flex; align-items: end; height: ${height}px`;
    content.append(node);
    return node;
  };
  const first = add('', 500);
  await frames();
  const shrunk = new Promise(resolve => {
    const height = content.clientHeight;
    new ResizeObserver((_, observer) => {
      if (content.clientHeight < height) {
        observer.disconnect();
        resolve();
      }
    }).observe(content);
  });
  first.remove();
  await shrunk;  // The browser has moved the view up, and says so with the next frame.
  add('what came last', 800);
  await frames();
}"""


@pytest.mark.proves("perm:plan-approval")
async def test_a_plan_is_changed_by_words_and_then_carried_out(
    lab: Lab, model: ScriptedModel
) -> None:
    write_notebook(lab.server.root / "sales.ipynb", "1")
    model.add(Answer.of("I would add a cell."), Answer.of("I would add two cells."))
    model.add(Answer.of(ToolUse("insert_cell", {"source": "x = 1"})), Answer.of("Carried out."))
    await lab.open("sales.ipynb")
    await lab.show_panel()
    await lab.mode.select_option("plan")
    await lab.say("What would you do?")
    change = lab.log.get_by_role("button", name="Change the plan…")
    await change.click()
    await expect(lab.message_box).to_be_focused()
    goes = lab.panel.get_by_role("group", name="Goes with the message")
    await expect(goes).to_contain_text("Changes to the plan")
    assert await violations(lab.page, ".tk-Chat") == []
    await lab.page.keyboard.type("Two cells.")
    await lab.page.keyboard.press("Enter")

    await expect(lab.log.get_by_text("I would add two cells.")).to_be_visible()
    assert "Two cells." in "\n".join(model.requests[1].prompts)
    # The first plan is settled, and the message after it an ordinary one.
    await expect(change).to_have_count(1)
    await expect(goes).not_to_contain_text("Changes to the plan")
    await lab.log.get_by_role("button", name="Approve", exact=True).click()
    await expect(lab.log.get_by_text("Carried out.")).to_be_visible()
    assert len(lab.notebook("sales.ipynb").cells) == 2


async def test_who_leaves_the_plan_alone_writes_an_ordinary_message(
    lab: Lab, model: ScriptedModel
) -> None:
    model.add(Answer.of("I would add a cell."), Answer.of("Noted."))
    await lab.open()
    await lab.show_panel()
    await lab.mode.select_option("plan")
    await lab.say("What would you do?")
    await lab.log.get_by_role("button", name="Change the plan…").click()
    await lab.panel.get_by_role("button", name="Remove Changes to the plan").click()
    await lab.mode.select_option("ask")
    await lab.say("Never mind.")
    await expect(lab.log.get_by_text("Noted.")).to_be_visible()
    await expect(lab.log.get_by_role("button", name="Approve", exact=True)).to_have_count(0)


async def test_an_edited_message_takes_the_place_of_the_first(
    lab: Lab, model: ScriptedModel
) -> None:
    model.add(Answer.of("Hello, Ada."), Answer.of("A plum."), Answer.of("Purple."))
    model.add(Answer.of("A pear."))
    await lab.open()
    await lab.show_panel()
    for message, answer in (("I am Ada.", "Hello"), ("A fruit?", "plum"), ("Colour?", "Purple")):
        await lab.say(message)
        await expect(lab.log.get_by_text(answer)).to_be_visible()
    asked = lab.log.get_by_role("group", name="Message").filter(has_text="A fruit?")
    await asked.get_by_role("button", name="Edit and send again").click()
    await expect(lab.message_box).to_have_value("A fruit?")
    goes = lab.panel.get_by_role("group", name="Goes with the message")
    await expect(goes).to_contain_text("Instead of “A fruit?”")
    await lab.say("A green fruit?")

    await expect(lab.log.get_by_text("A pear.")).to_be_visible()
    assert "Hello, Ada." in str(model.requests[-1].body["messages"])
    assert "plum" not in str(model.requests[-1].body["messages"])
    # It is still there for the person, out of the way.
    await expect(lab.log.get_by_text("A plum.")).to_be_hidden()
    await lab.log.get_by_text("2 replaced messages").click()
    await expect(lab.log.get_by_text("A plum.")).to_be_visible()
    assert await violations(lab.page, ".tk-Chat") == []
    await expect(goes).not_to_contain_text("Instead of")


async def test_a_message_that_waits_is_removed_or_taken_back_into_the_box(
    lab: Lab, model: ScriptedModel
) -> None:
    held = Held(Answer.of("One, two, three, four."), after=3)
    model.add(held, Answer.of("Sent after all."))
    await lab.open()
    await lab.show_panel()
    await lab.say("Count.")
    await held.held.wait()
    for message in ("First?", "Second?"):
        await lab.say(message)
    waiting = lab.log.get_by_role("group", name="Message").filter(
        has_text="Waits for the message before it"
    )
    await expect(waiting).to_have_count(2)
    assert await violations(lab.page, ".tk-Chat") == []
    await waiting.last.get_by_role("button", name="Edit and send again").click()
    await expect(lab.message_box).to_have_value("Second?")
    await expect(waiting).to_have_count(1)
    await waiting.get_by_role("button", name="Remove").click()
    await expect(waiting).to_have_count(0)
    held.go_on.set()
    await expect(lab.log.get_by_text("four.")).to_be_visible()
    assert len(model.requests) == 1
    await lab.log.get_by_role("button", name="Send", exact=True).first.click()
    await expect(lab.log.get_by_text("Sent after all.")).to_be_visible()


async def test_the_box_is_as_high_as_what_stands_in_it(lab: Lab) -> None:
    await lab.open()
    await lab.show_panel()
    for width in (260, 800):
        await lab.message_box.fill("")
        await widen(lab, width)
        one = await heights(lab)
        assert one["box"] >= one["text"]
        await lab.message_box.fill("\n".join("abcd"))
        four = await heights(lab)
        assert four["box"] >= four["text"] > one["text"]
        await lab.message_box.fill("\n" * 30)
        most = await heights(lab)
        assert most["box"] < most["text"]


async def heights(lab: Lab) -> dict[str, float]:
    """Pixels of the box that show text, and pixels that its text takes."""
    script = "box => ({ box: box.clientHeight, text: box.scrollHeight })"
    found: dict[str, float] = await lab.message_box.evaluate(script)
    return found


async def widen(lab: Lab, width: int) -> None:
    """Draws the edge of the sidebar until the panel is so wide."""
    edge = lab.page.locator("#jp-main-split-panel > .lm-SplitPanel-handle:not(.lm-mod-hidden)")
    at, panel = await edge.last.bounding_box(), await lab.panel.bounding_box()
    assert at is not None
    assert panel is not None
    y = at["y"] + at["height"] / 2
    await lab.page.mouse.move(at["x"] + at["width"] / 2, y)
    await lab.page.mouse.down()
    await lab.page.mouse.move(at["x"] + at["width"] / 2 - (width - panel["width"]), y, steps=4)
    await lab.page.mouse.up()
    wide = "([node, width]) => Math.abs(node.clientWidth - width) < 12"
    node = await lab.panel.element_handle()
    await lab.page.wait_for_function(wide, arg=[node, width])


@shared
async def changed(lab: Lab, model: ScriptedModel) -> Seen:
    """A notebook in which a turn of the chat has changed two cells, with the panel beside it."""
    write_notebook(lab.server.root / "plan.ipynb", "a = 1", "b = 1")
    model.add(
        Answer.of(ToolUse("read_notebook")),
        Answer.of(
            ToolUse("overwrite_cell", {"cell": 0, "source": "a = 2"}),
            ToolUse("overwrite_cell", {"cell": 1, "source": "b = 2"}),
        ),
        Answer.of("Both are changed."),
    )
    await lab.open("plan.ipynb")
    await lab.show_panel()
    await lab.mode.select_option("auto")
    await lab.say("Change both.")
    changes = lab.panel.get_by_role("group", name="Changes", exact=True)
    await expect(changes).to_contain_text("2 cells changed")
    seen = Open(lab)
    await expect(seen.marks).to_have_count(2)
    return changes, seen


@pytest.mark.proves("ext:panel")
async def test_what_is_kept_in_the_panel_is_marked_no_more_and_the_other_way_round(
    lab: Lab, changed: Seen
) -> None:
    changes, seen = changed
    await seen.mark(0).click()
    await seen.review(0).get_by_role("button", name="Keep").click()
    await expect(changes).to_contain_text("1 cell changed")
    await expect(seen.marks).to_have_count(1)
    await changes.get_by_role("button", name="Keep", exact=True).click()
    await expect(changes).to_contain_text("Kept")
    await expect(seen.marks).to_have_count(0)


@pytest.mark.proves("ui:bulk-undo")
async def test_undo_in_the_panel_leaves_what_was_kept_at_its_cell(lab: Lab, changed: Seen) -> None:
    changes, seen = changed
    await seen.mark(0).click()
    await seen.review(0).get_by_role("button", name="Keep").click()
    await expect(changes).to_contain_text("1 cell changed")
    await changes.get_by_role("button", name="Undo", exact=True).click()
    await expect(changes).to_contain_text("1 kept, 1 undone")
    await expect(seen.marks).to_have_count(0)
    sources = [cell.source for cell in lab.notebook("plan.ipynb").cells]
    assert (sources[0] != "a = 1", sources[1]) == (True, "b = 1")


@pytest.mark.proves("ext:panel")
async def test_what_is_taken_back_in_the_notebook_is_so_in_the_panel_also_after_a_reload(
    lab: Lab, changed: Seen
) -> None:
    changes, seen = changed
    await seen.mark(0).click()
    await seen.review(0).get_by_role("button", name="Undo").click()
    await expect(changes).to_contain_text("1 cell changed")
    await changes.get_by_role("button", name="Undo", exact=True).click()
    await expect(changes).to_contain_text("Undone")
    await expect(seen.marks).to_have_count(0)
    assert [cell.source for cell in lab.notebook("plan.ipynb").cells] == ["a = 1", "b = 1"]

    await lab.page.reload()
    await lab.ready()
    await lab.command("tk-ai:show-panel")
    await expect(changes).to_contain_text("Undone")
    await expect(changes.get_by_role("button", name="Undo")).to_have_count(0)


async def test_files_and_cells_are_dragged_into_the_message(lab: Lab, model: ScriptedModel) -> None:
    root = lab.server.root
    write_notebook(root / "sales.ipynb", "first = 1", "second = 2")
    (root / "prices.csv").write_text("day,price\n1,3\n", encoding="utf-8")
    (root / "paper.pdf").write_bytes(b"%PDF-1.4")
    model.add(Answer.of("Seen."))
    await lab.open("sales.ipynb")
    await lab.show_panel()
    goes = lab.panel.get_by_role("group", name="Goes with the message")

    entry = lab.page.locator(".jp-DirListing-item", has_text="prices.csv")
    await drag(lab, entry, lab.message_box)
    await expect(goes).to_contain_text("prices.csv")
    prompt = lab.page.locator(".jp-Notebook .jp-Cell").nth(1).locator(".jp-InputPrompt")
    await drag(lab, prompt, lab.log)
    await expect(goes.get_by_role("button", name="Remove Cell 2")).to_have_count(2)
    await drag(lab, lab.page.locator(".jp-DirListing-item", has_text="paper.pdf"), lab.log)
    await expect(lab.panel.get_by_role("status").get_by_text("paper.pdf")).to_be_visible()
    assert await violations(lab.page, ".tk-Chat") == []
    # What was dragged is where it was.
    assert len(lab.notebook("sales.ipynb").cells) == 2
    assert (root / "prices.csv").is_file()

    await lab.say("Look at these.")
    await expect(lab.log.get_by_text("Seen.")).to_be_visible()
    seen = "\n".join(model.requests[0].prompts)
    assert "Attached file prices.csv:\nday,price" in seen
    assert "Attached cell:" in seen
    assert "paper.pdf" not in seen
    await expect(lab.panel.get_by_role("status").get_by_text("paper.pdf")).to_have_count(0)


async def test_a_file_from_the_desktop_is_attached_or_said_to_be_none(lab: Lab) -> None:
    await lab.open()
    await lab.show_panel()
    goes = lab.panel.get_by_role("group", name="Goes with the message")
    refused = lab.panel.get_by_role("status").get_by_text("no picture")
    await lab.log.evaluate(DROP, "application/pdf")
    await expect(refused).to_be_visible()
    await expect(goes).not_to_contain_text("dropped")
    await lab.panel.get_by_role("button", name="Dismiss").click()
    await expect(refused).to_have_count(0)
    await lab.log.evaluate(DROP, "image/png")
    await expect(goes).to_contain_text("dropped")


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


@pytest.mark.proves("ui:json-tree", "ui:truncation")
async def test_outputs_are_trees_and_long_ones_are_shown_whole_when_asked(
    lab: Lab, model: ScriptedModel
) -> None:
    write_notebook(lab.server.root / "sales.ipynb", "1")
    value = '{"shop": "north", "prices": [3, 4, {"deep": True}]}'
    tree = ToolUse("execute_ipython", {"code": f"from IPython.display import JSON\nJSON({value})"})
    long = ToolUse("execute_ipython", {"code": "for n in range(4210): print('line', n)"})
    model.add(Answer.of(tree), Answer.of(long), Answer.of("Ran both."))
    await lab.open("sales.ipynb")
    await lab.show_panel()
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


async def test_what_is_open_and_what_is_selected_survive_the_answer_that_goes_on(
    lab: Lab, model: ScriptedModel
) -> None:
    write_notebook(lab.server.root / "sales.ipynb", "1")
    held = Held(Answer.of("Then one two three four five six seven eight."), after=3)
    model.add(Answer.of("First a look.", ToolUse("list_cells")), held)
    await lab.open("sales.ipynb")
    await lab.show_panel()
    await lab.say("Count.")
    card = lab.panel.locator('[data-tool="list_cells"]')
    await card.locator("summary").first.click()
    await expect(lab.log.get_by_text("Then one")).to_be_visible()
    await held.held.wait()
    await expect(lab.log.get_by_text("eight.")).to_have_count(0)
    await lab.log.get_by_text("Then one").evaluate(SELECT, [5, 8])
    held.go_on.set()
    await expect(lab.log.get_by_text("eight.")).to_be_visible()
    await expect(lab.log.get_by_role("button", name="Copy the answer")).to_have_count(1)
    assert await lab.page.evaluate("String(getSelection())") == "one"
    await expect(card.locator(".tk-Output").first).to_be_visible()


async def test_a_beginning_is_offered_that_fits_the_notebook(
    lab: Lab, model: ScriptedModel
) -> None:
    write_notebook(lab.server.root / "plan.ipynb", "x = 1", "import pandas as pd", "1 / 0")
    await lab.open("plan.ipynb")
    await lab.show_panel()
    await expect(lab.log.get_by_role("button", name="Run all cells")).to_be_visible()
    await Open(lab).run(2)
    fix = lab.log.get_by_role("button", name="Fix the failing cell 3")
    await expect(fix).to_be_visible()
    await lab.page.locator(".jp-Notebook .jp-Cell").nth(0).locator(".cm-content").click()
    model.add(Answer.of("Divided by one."))
    await fix.click()
    await expect(lab.log.get_by_text("Divided by one.")).to_be_visible()
    # The cell goes with it, whichever one the person is in.
    assert "Active cell:\n@" in (prompt := "\n".join(model.requests[0].prompts))
    assert "1 / 0" in prompt


async def test_an_answer_that_ended_with_an_error_is_gone_on_with(
    lab: Lab, model: ScriptedModel
) -> None:
    # It is asked again once.
    model.add(Answer.of("First a look.", ToolUse("list_cells")), OVERLOADED, OVERLOADED)
    model.add(Answer.of("Went on."))
    write_notebook(lab.server.root / "sales.ipynb", "1")
    await lab.open("sales.ipynb")
    await lab.show_panel()
    await lab.say("Look.")
    problem = lab.log.get_by_role("alert")
    await problem.get_by_role("button", name="Continue").click()
    await expect(lab.log.get_by_text("Went on.")).to_be_visible()
    assert "First a look." in str(model.requests[-1].body["messages"])


async def test_a_chat_that_could_not_be_read_is_read_when_asked_again(
    lab: Lab, model: ScriptedModel
) -> None:
    model.add(Answer.of("Hello."))
    await lab.open()
    await lab.show_panel()
    await lab.say("Are you there?")
    await expect(lab.log.get_by_text("Hello.")).to_be_visible()
    await lab.page.reload()
    await lab.page.route(READS, lambda route: route.abort())
    await lab.ready()
    await lab.command("tk-ai:show-panel")
    reconnect = lab.log.get_by_role("alert").get_by_role("button", name="Reconnect")
    await reconnect.wait_for()
    await lab.page.unroute(READS)
    await reconnect.click()
    await expect(lab.log.get_by_text("Hello.")).to_be_visible()
    await expect(reconnect).to_have_count(0)


async def test_who_reads_above_is_told_of_what_is_new_below(lab: Lab, model: ScriptedModel) -> None:
    long = "\n\n".join(f"Paragraph {number}." for number in range(60))
    held = Held(Answer.of(f"{long}\n\nThe end."), after=40)
    model.add(held)
    await lab.open()
    await lab.show_panel()
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
    await lab.panel.get_by_role("button", name="↓ New").click()
    await expect(end).to_be_in_viewport()
    await expect(lab.panel.get_by_role("button", name="↓ New")).to_have_count(0)
    # Content that shrinks takes the view up with it, and what comes then is followed all the same.
    await lab.log.evaluate(SHRINK_AND_GROW)
    await expect(lab.panel.get_by_text("what came last")).to_be_in_viewport()


async def test_a_cell_that_was_run_is_shown_with_its_code_and_found_by_a_click(
    lab: Lab, model: ScriptedModel
) -> None:
    cells = [f"x{number} = {number}" for number in range(40)]
    write_notebook(lab.server.root / "long.ipynb", *cells)
    model.add(Answer.of(ToolUse("execute_cell", {"cell": 39})), Answer.of("Ran the last one."))
    await lab.open("long.ipynb")
    await lab.show_panel()
    await lab.mode.select_option("auto")
    await lab.say("Run the last one.")
    await expect(lab.log.get_by_text("Ran the last one.").last).to_be_visible()
    card = lab.panel.locator('[data-tool="execute_cell"]')
    await card.locator("summary").first.click()
    await expect(card.locator("pre code")).to_have_text("x39 = 39")
    last = lab.page.locator('.jp-Notebook .jp-Cell[data-windowed-list-index="39"]')
    await expect(last).not_to_be_in_viewport()
    await card.get_by_role("button", name="Show the cell in long.ipynb").click()
    await expect(last).to_be_in_viewport()
