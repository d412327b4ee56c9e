"""People and an agent edit one notebook at once, through closed pages, a second browser and lost networks."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import pytest
from playwright.async_api import Page

from tests.browser.conftest import OpenLab
from tests.browser.lab import DEADLINE, DIALOG, Lab, nothing_asked, write_notebook
from tests.browser.open_notebook import (
    BEGINS,
    CLEAN,
    CLOSE,
    HAS,
    SHOWS,
    SOURCES,
    WRITE,
    Frames,
    Network,
    another,
    answered,
    call,
    changed_twice,
    close,
    has_run,
    in_file,
    on_disk,
    opened,
    reads,
    save,
    saved,
    shown,
    types,
)

PATH = "n.ipynb"
SLOW = "import time\nfor i in range(8):\n    print(i, flush=True)\n    time.sleep(0.5)"
# Closes also what its room has not saved yet.
CLOSE_AT_ONCE = CLOSE.replace("!model.dirty", "true")
ALL = "".join(f"{i}\n" for i in range(8))
WAIT = 55
"""Seconds for which a call waits for the cell's end: a busy machine may take long."""

PRINTS = r"""
import sys, time
from IPython.display import clear_output, display, update_display
def show(text, name, function=display):
    function({"text/plain": text}, raw=True, display_id=name)
    time.sleep(0.05)
print("cleared")
clear_output()
print(1, flush=True)
print(2, file=sys.stderr, flush=True)
for done in (10, 50, 99):
    print(f"\r{done:3}%", end="", flush=True)
    time.sleep(0.05)
show("first", "a")
show("second", "b")
print(3, flush=True)
show("now first", "a", update_display)
print(4, file=sys.stderr, flush=True)
show("now second", "b", update_display)
print(5, flush=True)
"""
OUTPUTS = [
    ["stdout", "1\n"],
    ["stderr", "2\n"],
    ["stdout", " 99%"],
    ["display", "now first"],
    ["display", "now second"],
    ["stdout", "3\n"],
    ["stderr", "4\n"],
    ["stdout", "5\n"],
]
# What JupyterLab has of the outputs, what it shows, and what is in the shared document.
HAS_OUTPUTS = """
([place, wanted]) => {
  const of = outputs => JSON.stringify(outputs.map(output =>
    [output.name ?? 'display', [output.text ?? output.data['text/plain']].flat().join('')]));
  const { content } = window.jupyterapp.shell.currentWidget;
  const { outputs, sharedModel } = content.model.cells.get(place);
  const shown = content.widgets[place].node.querySelectorAll('.jp-OutputArea-output');
  const texts = JSON.stringify([...shown].map(output => output.textContent.trimEnd()));
  return of(outputs.toJSON()) === wanted && of(sharedModel.getOutputs()) === wanted
    && texts === JSON.stringify(JSON.parse(wanted).map(([, text]) => text.trimEnd()));
}
"""
DIRTY = "() => window.jupyterapp.shell.currentWidget.content.model.dirty"
TRUSTED = "place => window.jupyterapp.shell.currentWidget.content.widgets[place].model.trusted"


def runs(lab: Lab, source: str, index: int) -> Coroutine[Any, Any, Any]:
    """An agent adds a cell and runs it."""
    return call(
        lab, "insert_and_execute_cell", notebook=PATH, source=source, index=index, wait=WAIT
    )


async def both_see(lab: Lab, pages: list[Page], others: list[str]) -> list[str]:
    """Both pages show what one person types and what an agent does, each output once and in its place.

    Args:
        lab: The lab of the first page.
        pages: The pages.
        others: The sources of the cells in the notebook.

    Returns:
        The sources afterwards, with two more at the beginning.
    """
    await call(lab, "insert_cell", notebook=PATH, source="a = 1", index=0)
    await pages[0].wait_for_function(HAS, arg=["a = 1", *others])
    await types(pages[0], 0, "  # typed")
    await reads(lab, PATH, "# typed")
    assert (await runs(lab, PRINTS, 1))["status"] == "ok"
    sources = ["a = 1  # typed", PRINTS, *others]
    wanted = json.dumps(OUTPUTS, separators=(",", ":"))
    for page in pages:
        await page.wait_for_function(HAS, arg=sources)
        await page.wait_for_function(HAS_OUTPUTS, arg=[1, wanted])
        assert await page.evaluate(TRUSTED, 1) is False
        await nothing_asked(page)
    await saved(lab, PATH, sources)

    def are_stored(cells: list[Any]) -> bool:
        return [
            [output.get("name", "display"), output.get("text") or output.data["text/plain"]]
            for output in cells[1].outputs
        ] == OUTPUTS

    await in_file(lab, PATH, are_stored)
    return sources


@pytest.mark.proves("ext:rtc", "fault:concurrent-edit", "fault:tab-lost", "doc:untouched-bytes")
async def test_a_person_and_an_agent_lose_nothing_in_one_file(open_lab: OpenLab) -> None:
    lab = await open_lab()
    async with Network.to(lab.server.url) as network:
        page, frames = lab.page, Frames()
        page.on("websocket", frames.follow)
        sources = await edits_one_cell(lab, network)
        await closes_and_opens(lab, sources)
        second = await another(lab, PATH)
        sources = await both_see(lab, [page, second], sources)
        await both_type(lab, [page, second], sources)
        sources = await changes_the_same(lab, sources)
        await goes_offline(lab, network, frames, sources)


async def edits_one_cell(lab: Lab, network: Network) -> list[str]:
    """An agent changes one cell of a file, and the person goes on; the sources afterwards."""
    file, page = lab.server.root / PATH, lab.page
    write_notebook(file, "a = 1", "b = 2", "print(3)", SLOW)
    file.write_text(json.dumps(json.loads(file.read_text()), indent=7))
    await page.goto(f"{network.url}lab/tree/{PATH}?token={lab.server.token}")
    await shown(page, PATH)
    before = file.read_text()
    await call(lab, "read_notebook", notebook=PATH)
    await call(lab, "edit_cell", notebook=PATH, cell=1, old="2", new="3")
    assert file.read_text() == before.replace("b = 2", "b = 3")
    await page.wait_for_function(HAS, arg=["a = 1", "b = 3", "print(3)", SLOW])
    await page.wait_for_function(CLEAN)
    await call(lab, "execute_cell", notebook=PATH, cell=2, wait=WAIT)
    await has_run(lab, PATH, 2, "3\n", 1)
    assert '\n       "cells"' in file.read_text()
    await types(page, 1, "  # typed")
    await call(lab, "edit_cell", notebook=PATH, cell=0, old="1", new="2")
    await saved(lab, PATH, ["a = 2", "b = 3  # typed", "print(3)", SLOW])
    await types(page, 1, "!")
    sources = ["a = 2", "b = 3  # typed!", "print(3)", SLOW]
    await saved(lab, PATH, sources)
    return sources


async def closes_and_opens(lab: Lab, sources: list[str]) -> None:
    """The notebook is closed and opened again in the middle of its last cell."""
    page, last = lab.page, len(sources) - 1
    running = asyncio.create_task(call(lab, "execute_cell", notebook=PATH, cell=last, wait=WAIT))
    await page.wait_for_function(BEGINS, arg=[last, "0\n1\n"])
    await saved(lab, PATH, sources)
    await close(page)
    assert (await running)["status"] == "ok"
    await lab.command("docmanager:open", path=PATH)
    await shown(page, PATH)
    await page.wait_for_function(SHOWS, arg=[last, ALL])
    await has_run(lab, PATH, last, ALL, 2)


async def both_type(lab: Lab, pages: list[Page], sources: list[str]) -> None:
    """Where two pages have unsaved changes of one file, an agent gets an error."""
    for place, page in enumerate(pages):
        await types(page, place * 2, ", mine")
    await pages[1].wait_for_function(DIRTY)
    await changed_twice(lab, PATH)
    refused = await call(lab, "insert_cell", 409, notebook=PATH, source="c = 3")
    assert refused["error"]["code"] == "open_twice"
    assert await pages[0].evaluate(SOURCES) == [f"{sources[0]}, mine", *sources[1:]]
    theirs = [*sources[:2], f"{sources[2]}, mine", *sources[3:]]
    assert await pages[1].evaluate(SOURCES) == theirs
    for page in pages:
        await nothing_asked(page)
    await pages[1].context.close()
    # The server notices a moment later that the page has gone.
    async with asyncio.timeout(DEADLINE / 1000):
        while (await answered(lab, "read_notebook", notebook=PATH))[0] == 409:
            pass


async def changes_the_same(lab: Lab, sources: list[str]) -> list[str]:
    """Where a person and a program changed the first cell, an agent gets an error and the person is asked."""
    file, page = lab.server.root / PATH, lab.page
    file.write_text(file.read_text().replace("a = 1  # typed", "a = 9"))
    refused = await call(lab, "insert_cell", 500, notebook=PATH, source="c = 3")
    assert refused["error"]["code"] == "save_failed"
    await page.keyboard.press("Control+s")
    dialog = page.locator(DIALOG, has_text="File Changed")
    await dialog.wait_for()
    # However long that stands, nobody waits for it.
    assert ", mine" in (await call(lab, "read_notebook", notebook=PATH))["text"]
    await call(lab, "insert_cell", 500, notebook=PATH, source="c = 3")
    await dialog.get_by_role("button", name="Revert").click()
    await page.wait_for_function(HAS, arg=["a = 9", *sources[1:]])
    await call(lab, "insert_cell", notebook=PATH, source="c = 3", index=0)
    after = ["c = 3", "a = 9", *sources[1:]]
    await page.wait_for_function(HAS, arg=after)
    assert [cell.source for cell in lab.notebook(PATH).cells] == after
    return after


async def goes_offline(lab: Lab, network: Network, frames: Frames, sources: list[str]) -> None:
    """A browser is offline for a while, in the middle of a cell and with unsaved text."""
    page = lab.page
    running = asyncio.create_task(runs(lab, SLOW, 0))
    await page.wait_for_function(BEGINS, arg=[0, "0\n"])
    await network.fails()
    await running
    network.works()
    await page.wait_for_function(SHOWS, arg=[0, ALL])
    await save(lab)
    is_dirty = page.evaluate(WRITE, [1, "  # typed"])
    await frames.next(lambda frame: '"dirty":true' in frame, is_dirty)
    await network.fails()
    await page.evaluate(WRITE, [1, " offline"])
    # The file counts, and the page merges it with what is unsaved.
    await call(lab, "insert_cell", notebook=PATH, source="d = 4", index=2)
    network.works()
    await frames.next(lambda frame: '"listed"' in frame)
    expected = [SLOW, f"{sources[0]}  # typed offline", "d = 4", *sources[1:]]
    await page.wait_for_function(HAS, arg=expected)
    await frames.next(lambda frame: '"dirty":false' in frame, save(lab))
    stored = lab.notebook(PATH).cells
    assert [cell.source for cell in stored] == expected
    assert stored[0].outputs[0].text == ALL
    assert await page.get_by_text("File Changed").count() == 0


@pytest.mark.proves("ext:rtc", "fault:concurrent-edit", "fault:tab-lost")
async def test_people_and_an_agent_lose_nothing_in_a_shared_document(open_lab: OpenLab) -> None:
    lab = await open_lab(collaboration=True)
    write_notebook(lab.server.root / PATH, "b = 2")
    async with Network.to(lab.server.url) as network:
        first = lab.page
        await first.goto(f"{network.url}lab/tree/{PATH}?token={lab.server.token}")
        await shown(first, PATH)
        second = await another(lab, PATH)

        # Both see what one person types and what an agent does.
        [mine, *others] = await both_see(lab, [first, second], ["b = 2"])

        # What both have typed is merged, and an agent goes on.
        await types(first, 0, "  # one")
        mine += "  # one"
        await second.wait_for_function(HAS, arg=[mine, *others])
        # The page that was used last answers.
        await types(second, 0, ", two")
        mine += ", two"
        await reads(lab, PATH, ", two")
        await nothing_asked(first)
        await nothing_asked(second)

        # The page that answers is closed in the middle of a cell.
        running = asyncio.create_task(runs(lab, SLOW, 0))
        await first.wait_for_function(BEGINS, arg=[0, "0"])
        await second.close()
        await call(lab, "insert_cell", notebook=PATH, source="c = 3", index=0)
        assert lab.notebook(PATH).cells[0].source == "c = 3"
        assert (await running)["status"] == "ok"
        sources = ["c = 3", SLOW, mine, *others]
        await first.wait_for_function(HAS, arg=sources)
        await first.wait_for_function(SHOWS, arg=[1, ALL])
        await has_run(lab, PATH, 1, ALL, 2)
        await on_disk(lab, PATH, sources)
        await call(lab, "undo", notebook=PATH)
        sources = sources[1:]
        await first.wait_for_function(HAS, arg=sources)

        # What is typed offline, in the middle of a cell, is merged with what an agent does.
        running = asyncio.create_task(runs(lab, SLOW, 0))
        await first.wait_for_function(BEGINS, arg=[0, "0\n"])
        await first.wait_for_function(HAS, arg=[SLOW, *sources])
        await network.fails()
        await first.evaluate(WRITE, [0, "  # offline too"])
        await first.evaluate(WRITE, [2, "  # offline"])
        await call(lab, "insert_cell", notebook=PATH, source="d = 4", index=0)
        await running
        network.works()
        sources = ["d = 4", f"{SLOW}  # offline too", SLOW, f"{mine}  # offline", *others]
        await first.wait_for_function(HAS, arg=sources)
        await first.wait_for_function(SHOWS, arg=[1, ALL])
        await reads(lab, PATH, "# offline")
        await saved(lab, PATH, sources)
        await has_run(lab, PATH, 1, ALL, 3)

        # Text that was typed just before the page closes is kept.
        await first.evaluate(WRITE, [0, "  # last"])
        await first.wait_for_function(CLOSE_AT_ONCE)
        await call(lab, "insert_cell", notebook=PATH, source="e = 5", index=0)
        await on_disk(lab, PATH, ["e = 5", "d = 4  # last", *sources[1:]])


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
