"""One notebook in two browsers, of two people or of one: what both see, and who counts."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import OpenLab
from tests.browser.lab import Lab, no_dialog, write_notebook
from tests.browser.open_notebook import (
    BOTH,
    HAS,
    SHOWS,
    SOURCES,
    WRITE,
    another,
    call,
    changed_twice,
    in_file,
    opened,
    reads,
    saved,
    shown,
    types,
)
from tests.support.scripted_model import Answer, Held, ScriptedModel, ToolUse

OPEN = """
async path => {
  const { commands, shell } = window.jupyterapp;
  const others = [...shell.widgets('main')];
  await commands.execute('docmanager:open', { path });
  // Where nothing else is open, the launcher would come to the front.
  others.forEach(widget => widget.dispose());
}
"""
DIRTY = "() => window.jupyterapp.shell.currentWidget.content.model.dirty"
TRUSTED = "place => window.jupyterapp.shell.currentWidget.content.widgets[place].model.trusted"


async def opens(page: Page, path: str) -> None:
    """Open a notebook in a page instead of the open one."""
    await page.evaluate(OPEN, path)
    await shown(page, path)


@BOTH
@pytest.mark.proves("ext:rtc", "fault:concurrent-edit")
async def test_both_see_what_an_agent_does_and_nobody_loses_what_they_type(
    open_lab: OpenLab, collaboration: bool
) -> None:
    lab = await open_lab(collaboration=collaboration)
    write_notebook(lab.server.root / "n.ipynb", "a = 1", "b = 2")
    first = await opened(lab, "n.ipynb")
    second = await another(lab, "n.ipynb")
    await one_types(lab, first, second)
    # The rest may leave different notebooks in the two pages.
    await both_type(lab, first, second, collaboration=collaboration)


async def one_types(lab: Lab, first: Page, second: Page) -> None:
    """One person types; both see that and what an agent does."""
    await types(first, 0, "  # typed")
    await reads(lab, "n.ipynb", "# typed")
    await call(lab, "overwrite_cell", notebook="n.ipynb", cell=1, source="b = 3")
    ran = await call(
        lab, "insert_and_execute_cell", notebook="n.ipynb", source="print(6 * 7)", index=2
    )
    assert ran["status"] == "ok"
    expected = ["a = 1  # typed", "b = 3", "print(6 * 7)"]
    for page in (first, second):
        await page.wait_for_function(HAS, arg=expected)
        await page.wait_for_function(SHOWS, arg=[2, "42\n"])
        assert await page.evaluate(TRUSTED, 2) is False
        await no_dialog(page)
    await saved(lab, "n.ipynb", expected)


async def both_type(lab: Lab, first: Page, second: Page, *, collaboration: bool) -> None:
    """Two people who type are merged, or the agent gets an error."""
    write_notebook(lab.server.root / "both.ipynb", "a = 1", "b = 2")
    for page in (first, second):
        await opens(page, "both.ipynb")
    await types(first, 0, "  # one")
    await types(second, 1, "  # two")
    both = ["a = 1  # one", "b = 2  # two"]
    if collaboration:
        await reads(lab, "both.ipynb", "# one")
        await reads(lab, "both.ipynb", "# two")
        await call(lab, "insert_cell", notebook="both.ipynb", source="c = 3", index=2)
        for page in (first, second):
            await page.wait_for_function(HAS, arg=[*both, "c = 3"])
    else:
        await second.wait_for_function(DIRTY)
        await changed_twice(lab, "both.ipynb")
        refused = await call(
            lab, "insert_cell", status=409, notebook="both.ipynb", source="c = 3", index=2
        )
        assert refused["error"]["code"] == "open_twice"
        assert await first.evaluate(SOURCES) == [both[0], "b = 2"]
        assert await second.evaluate(SOURCES) == ["a = 1", both[1]]
    for page in (first, second):
        await no_dialog(page)


@BOTH
@pytest.mark.proves("ext:rtc", "ext:panel")
async def test_a_request_about_one_notebook_changes_that_one_while_another_is_in_front(
    open_lab: OpenLab, model: ScriptedModel, collaboration: bool
) -> None:
    lab = await open_lab(model, collaboration=collaboration)
    for path, source in (("asked.ipynb", "a = 1"), ("other.ipynb", "o = 1")):
        write_notebook(lab.server.root / path, source)
    held = Held(Answer.of(ToolUse("insert_cell", {"source": "done = 1", "index": 1})), after=1)
    model.add(held, Answer.of("Added."))
    page = await opened(lab, "other.ipynb")
    await lab.command("docmanager:open", path="asked.ipynb")
    await page.wait_for_function("() => window.jupyterapp.shell.currentWidget.context?.isReady")
    await lab.show_panel()
    await lab.mode.select_option("auto")
    await lab.say("Add a cell.")
    await asyncio.wait_for(held.held.wait(), 60)
    await lab.command("docmanager:open", path="other.ipynb")
    held.go_on.set()
    await expect(lab.log.get_by_text("Added.")).to_be_visible()
    assert await page.evaluate(SOURCES) == ["o = 1"]
    await lab.command("docmanager:open", path="asked.ipynb")
    await page.wait_for_function(HAS, arg=["a = 1", "done = 1"])
    await saved(lab, "asked.ipynb", ["a = 1", "done = 1"])
    assert [cell.source for cell in lab.notebook("other.ipynb").cells] == ["o = 1"]


SOAK = 600
"""Seconds."""


@pytest.mark.soak
@pytest.mark.timeout(SOAK + 300)
@pytest.mark.proves("ext:rtc", "fault:concurrent-edit")
async def test_ten_minutes_of_two_people_and_an_agent_lose_and_double_nothing(
    open_lab: OpenLab,
) -> None:
    """Edits, runs, undo, reloads, a page that is closed and one that is frozen, in random order."""
    lab = await open_lab(collaboration=True)
    write_notebook(lab.server.root / "n.ipynb", "# one:", "# two:", "# agent: 0")
    pages = [await opened(lab, "n.ipynb"), await another(lab, "n.ipynb")]
    sources, outputs = ["# one:", "# two:", "# agent: 0"], dict[str, str]()
    done = Counter[str]()
    chance, clock = random.Random(7), asyncio.get_running_loop().time
    end = clock() + SOAK
    while clock() < end:
        number = sum(done.values())
        action = chance.choice(
            ("one", "two", "one", "two", "edit", "run", "run", "undo", "reload", "close", "freeze")
        )
        done[action] += 1
        if action in ("one", "two"):
            place = ("one", "two").index(action)
            await pages[place].evaluate(WRITE, [place, f" {number}"])
            sources[place] += f" {number}"
            await reads(lab, "n.ipynb", sources[place])
        elif action == "edit":
            sources[2] = f"# agent: {number}"
            await call(lab, "overwrite_cell", notebook="n.ipynb", cell=2, source=sources[2])
        elif action == "run":
            await _runs(lab, number, sources, outputs)
        elif action == "undo":
            await call(lab, "insert_cell", notebook="n.ipynb", source="gone", index=len(sources))
            await call(lab, "undo", notebook="n.ipynb")
        elif action == "reload":
            await pages[1].reload()
            await shown(pages[1], "n.ipynb")
        elif action == "close":
            await pages[1].context.close()
            await _runs(lab, number, sources, outputs)
            pages[1] = await another(lab, "n.ipynb")
        else:
            session = await pages[1].context.new_cdp_session(pages[1])
            await session.send("Page.setWebLifecycleState", {"state": "frozen"})
            await _runs(lab, number, sources, outputs)
            await session.send("Page.setWebLifecycleState", {"state": "active"})
            await session.detach()
        for page in pages:
            await page.wait_for_function(HAS, arg=sources)
    await saved(lab, "n.ipynb", sources)
    expected = [(source, [text]) for source, text in outputs.items()]

    def check(cells: list[Any]) -> bool:
        found = [(cell.source, [output.text for output in cell.outputs]) for cell in cells[3:]]
        return found == expected and len({cell.id for cell in cells}) == len(cells)

    # The outputs of the last run are saved within a second.
    await in_file(lab, "n.ipynb", check)


async def _runs(lab: Lab, number: int, sources: list[str], outputs: dict[str, str]) -> None:
    """An agent adds a cell at the end and runs it."""
    source = f"print({number})"
    place = len(sources)
    ran = await call(lab, "insert_and_execute_cell", notebook="n.ipynb", source=source, index=place)
    assert ran["status"] == "ok", ran
    sources.append(source)
    outputs[source] = f"{number}\n"
