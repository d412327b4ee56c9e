"""What a person sees of agents in the notebook that they have open, and what they do about it."""

from __future__ import annotations

import asyncio
import re

import httpx2
import pytest
from playwright.async_api import expect

from tests.browser.agents import NOTEBOOK, Agent, Open, gate, write_cells
from tests.browser.conftest import OpenLab
from tests.browser.lab import Lab
from tests.browser.open_notebook import reopened
from tests.browser.pictures import picture
from tests.support.scripted_model import Answer, ScriptedModel, ToolUse

CELLS = {
    "loads000": "data = [1, 2, 3]",
    "fails000": "1 / 0",
    "sums0000": "total = sum(data)\ntotal",
}

RUNNING = re.compile(r"\btk-mod-running\b")


async def begin(open_lab: OpenLab, model: ScriptedModel | None = None, **options: bool) -> Lab:
    lab = await open_lab(model, **options)
    write_cells(lab.server.root, **CELLS)
    await lab.open(NOTEBOOK)
    await Open(lab).cells.nth(len(CELLS) - 1).wait_for()
    return lab


async def test_a_person_reviews_changes_and_undoes_a_hunk_a_cell_or_all(open_lab: OpenLab) -> None:
    lab = await begin(open_lab)
    await marked(lab)
    await undone(lab)
    await rejected_by_keys(lab)
    await focused(lab)


async def marked(lab: Lab) -> None:
    """A changed cell is marked with who and when, and shows the diff."""
    seen, agent = Open(lab), Agent(lab)
    await agent.changes("sums0000", "total = sum(data)\nprint(total)")
    await seen.mark(2).wait_for()
    await expect(seen.marks).to_have_count(1)
    await expect(seen.mark(2)).to_have_accessible_name("Changed by root, now. Show what changed.")
    await expect(seen.all_changes).to_contain_text("1 cell changed")
    await seen.mark(2).hover()
    await expect(seen.mark(2)).to_contain_text("root · now")
    await seen.mark(2).click()
    review = seen.review(2)
    # Side by side or one below the other, as there is room.
    removed = review.locator(".cm-deletedLine")
    await expect(removed).to_have_count(1)
    await expect(removed).to_have_text("total")
    await expect(review.locator(".cm-changedLine").last).to_have_text("print(total)")
    await seen.decide("Undo all")
    await expect(seen.marks).to_have_count(0)


async def undone(lab: Lab) -> None:
    """One cell is taken back, and then all the others."""
    seen, agent = Open(lab), Agent(lab)
    review = seen.review(2)
    await agent.changes("loads000", "data = [4]")
    await agent.changes("sums0000", "total = 4")
    await agent.changes("sums0000", "total = 5")
    await agent("insert_cell", source="more\n" * 60, index=3)
    await expect(seen.marks).to_have_count(3)
    await seen.mark(2).click()
    await expect(review).to_contain_text("total = 5")
    await review.get_by_role("button", name="Undo", exact=True).click()
    await expect(seen.marks).to_have_count(2)
    await expect(seen.cells.nth(2)).to_contain_text("total = sum(data)")
    assert await seen.source(0) == "data = [4]"
    # JupyterLab scrolls past the end, where nothing is left to see of a notebook without its last cell.
    to_end = "cell => cell.closest('.jp-WindowedPanel-outer').scrollTo(0, 1e6)"
    await seen.cells.last.evaluate(to_end)
    await seen.decide("Undo all")
    await expect(seen.marks).to_have_count(0)
    await expect(seen.cells).to_have_count(len(CELLS))
    await expect(seen.cells.last).to_be_in_viewport()
    assert [await seen.source(place) for place in range(3)] == list(CELLS.values())


async def rejected_by_keys(lab: Lab) -> None:
    """One hunk is rejected by keys."""
    seen, agent, page = Open(lab), Agent(lab), lab.page
    review = seen.review(2)
    lines = [f"x{number} = {number}" for number in range(20)]
    await agent.changes("sums0000", "\n".join(lines))
    await seen.mark(2).wait_for()
    await seen.decide("Keep all")
    await expect(seen.marks).to_have_count(0)
    await agent.changes("sums0000", "\n".join(["y = 0", *lines[1:-1], "z = 19"]))
    await page.set_viewport_size({"width": 800, "height": 800})
    await seen.mark(2).click()
    reject = review.get_by_role("button", name="Undo this hunk")
    await expect(reject).to_have_count(2)
    await reject.first.focus()
    await page.keyboard.press("Enter")
    await expect(reject).to_have_count(1)
    assert await seen.source(2) == "\n".join([*lines[:-1], "z = 19"])
    # An edit made at the same time is shown, and is kept when another hunk is rejected.
    await page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.content.widgets[2].model.sharedModel"
        ".updateSource(0, 0, '# A note.\\n')"
    )
    await expect(reject).to_have_count(2)
    # A wide window has the versions side by side.
    await page.set_viewport_size({"width": 1280, "height": 800})
    await expect(review.locator(".cm-mergeView")).to_be_visible()
    await reject.last.press("Enter")
    await expect(reject).to_have_count(1)
    assert await seen.source(2) == "\n".join(["# A note.", *lines])


async def focused(lab: Lab) -> None:
    """The focus returns to the notebook after all changes are kept or undone."""
    seen, agent = Open(lab), Agent(lab)
    await seen.cells.nth(1).locator(".cm-content").click()
    for name in ("Keep", "Undo"):
        await agent.changes("loads000", f"data = [4]  # {name}")
        await seen.mark(0).wait_for()
        await seen.decide(f"{name} all")
        await expect(seen.all_changes).to_have_count(0)
        await expect(seen.cells.nth(1)).to_be_focused()


@pytest.mark.proves("ext:rtc")
async def test_changes_and_runs_of_agents_are_shown_and_leave_the_person_where_they_are(
    open_lab: OpenLab, model: ScriptedModel
) -> None:
    lab = await begin(open_lab, model, collaboration=True)
    await made_in_a_chat(lab, model)
    await reviewed(lab)
    await edited_later(lab)
    await kept(lab)
    await run_below(lab)


async def made_in_a_chat(lab: Lab, model: ScriptedModel) -> None:
    """Changes from a chat are shown under Claude's name."""
    seen, page = Open(lab), lab.page
    source = "total = sum(data)\nmean = total / len(data)\ntotal, mean"
    model.add(
        Answer.of(ToolUse("read_cell", {"cell": "sums0000"})),
        Answer.of(ToolUse("overwrite_cell", {"cell": "sums0000", "source": source})),
    )
    with gate(lab.server.root) as code:
        model.add(
            Answer.of(ToolUse("insert_and_execute_cell", {"source": code, "index": 3})),
            Answer.of("Done."),
        )
        answering = asyncio.create_task(chat(lab, "Show the mean, too."))
        await seen.mark(2).click()
        await seen.toolbar.get_by_role("button", name="Claude is running a cell").wait_for()
        await expect(seen.cells.nth(3)).to_have_class(RUNNING)
        await expect(seen.all_changes).to_contain_text("2 cells changed")
        await expect(seen.review(2)).to_contain_text("Claude · now")
        await page.mouse.move(700, 600)
        await picture(page, "changed-cell")
    await answering
    await expect(seen.cells.nth(3)).not_to_have_class(RUNNING)
    await seen.decide("Keep all")
    await expect(seen.marks).to_have_count(0)


async def reviewed(lab: Lab) -> None:
    """The focus stays in a review while more changes arrive."""
    seen, agent, page = Open(lab), Agent(lab), lab.page
    await agent.changes("sums0000", "total = 4")
    await seen.mark(2).click()
    keep = seen.review(2).get_by_role("button", name="Keep", exact=True)
    await keep.focus()
    # The text is there before its mark is, and Keep keeps what the mark has.
    async with page.expect_response(lambda answer: "/changes?" in answer.url) as read:
        await agent.changes("sums0000", "total = 'admin\u202e'")
    await (await read.value).finished()
    await expect(seen.review(2)).to_contain_text("total = 'admin•'")
    await expect(keep).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(seen.marks).to_have_count(0)


async def edited_later(lab: Lab) -> None:
    """A cell that the person works on is not taken back, and they are notified."""
    seen, agent, page = Open(lab), Agent(lab), lab.page
    await agent.changes("sums0000", "total = 5")
    await seen.mark(2).wait_for()
    await seen.cells.nth(2).locator(".cm-content").click()
    await page.keyboard.press("Control+End")
    await page.keyboard.type("  # mine")
    await agent("read_cell", cell="sums0000")
    await seen.mark(2).click()
    await seen.review(2).get_by_role("button", name="Undo", exact=True).click()
    await expect(seen.review(2).get_by_role("alert")).to_contain_text("edited later")
    assert await seen.source(2) == "total = 5  # mine"
    await expect(seen.marks).to_have_count(1)


async def kept(lab: Lab) -> None:
    """What was kept, by itself or with all, is not marked again until the cell changes again."""
    seen, agent = Open(lab), Agent(lab)
    await agent.changes("loads000", "data = [4]")
    await expect(seen.marks).to_have_count(2)
    await seen.mark(0).click()
    await seen.review(0).get_by_role("button", name="Keep", exact=True).click()
    await expect(seen.marks).to_have_count(1)
    await seen.decide("Keep all")
    await expect(seen.marks).to_have_count(0)
    await expect(seen.all_changes).to_have_count(0)
    await agent.changes("fails000", "1 / 1")
    await seen.mark(1).wait_for()
    await reopened(lab, NOTEBOOK)
    await seen.mark(1).wait_for()
    await expect(seen.marks).to_have_count(1)
    await agent.changes("sums0000", "total = 6")
    await seen.mark(2).wait_for()
    await expect(seen.marks).to_have_count(2)


async def run_below(lab: Lab) -> None:
    """A run moves neither the focus nor the scroll position."""
    seen, agent, page = Open(lab), Agent(lab), lab.page
    far = "# far\n" * 20
    await agent("edit_cells", operations=[{"action": "insert", "source": far, "index": 4}] * 3)
    await seen.marks.nth(4).wait_for(state="attached")
    await seen.decide("Keep all")
    await seen.cells.nth(0).locator(".cm-content").click()
    await page.keyboard.type("# ")
    with gate(lab.server.root) as code:
        running = asyncio.create_task(agent("insert_and_execute_cell", source=code))
        button = seen.toolbar.get_by_role("button", name="root is running a cell")
        await button.wait_for()
        await page.keyboard.type("mine ")
        last = seen.cells.nth(7)
        await expect(last).to_contain_text("running")
        await expect(last.locator(".jp-InputPrompt")).to_have_text("[*]:")
        await expect(last).to_have_class(RUNNING)
        await expect(last).not_to_be_in_viewport()
        await expect(seen.cells.nth(0).locator(".cm-content")).to_be_focused()
        assert "# mine " in await seen.source(0)
        await button.click()
        await expect(last).to_be_in_viewport()
    await running
    await expect(button).to_have_count(0)
    await expect(last.locator(".jp-InputPrompt")).to_have_text("[2]:")


async def chat(lab: Lab, message: str) -> None:
    """Sends Claude a message about the notebook, and waits for the end of the turn."""
    body = {"message": message, "notebook": NOTEBOOK, "mode": "auto"}
    async with httpx2.AsyncClient(headers=lab.server.headers, timeout=120) as http:
        answer = await http.post(f"{lab.server.url}api/tk-ai/mcp/chat", json=body)
    assert answer.status_code == 200, answer.text
