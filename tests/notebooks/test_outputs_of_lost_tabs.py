"""A cell's outputs are whole at whichever message its tab is lost: in the tab, or in the file."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import chain
from typing import Any

import pytest

from tests.notebooks.tabs import PATH, TabHarness
from tests.support.document_bench import DEADLINE, stream
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.operations import Replace
from tk_ai_extension.model.outputs import Append, StreamEdit
from tk_ai_extension.notebooks.stored import NotebookFile


class Loss:
    """Loses a page at one of the messages about outputs.

    Args:
        at: The number of the message, from 0; -1 for the one that ends the run.
        was_made: Whether the page did what the message asks before.
        how: What becomes of the page.
    """

    def __init__(self, harness: TabHarness, at: int, *, was_made: bool, how: str) -> None:
        self.is_over = asyncio.Event()
        self._happens = False
        self._harness = harness
        self._at = at
        self._was_made = was_made
        self._how = how
        self._asked = 0

    async def before(self, question: Json) -> None:
        if question["method"] != "outputs" or self._happens:
            return
        number, self._asked = self._asked, self._asked + 1
        if number != self._at and not (self._at < 0 and "finish" in question):
            return
        self._happens = True
        page = self._harness.page
        if self._was_made:
            page.notebooks[PATH].set_outputs(question)
        if self._how == "the connection":
            await page.cut()
            await page.connect()
        else:
            await page.unload()
            if self._how == "a reload":
                await page.connect()
                await page.open(PATH)
        self.is_over.set()
        await asyncio.Event().wait()


def shown(cells: Sequence[Any]) -> tuple[str, Any]:
    """The text below the first cell, and its count."""
    return "".join(chain.from_iterable(each["text"] for each in cells[0]["outputs"])), cells[0][
        "execution_count"
    ]


@pytest.mark.proves("fault:tab-lost", "ext:rtc")
@pytest.mark.parametrize("at", [0, 1, 2, -1], ids=["begin", "first", "second", "end"])
@pytest.mark.parametrize("was_made", [True, False])
@pytest.mark.parametrize("how", ["the connection", "a reload", "a close"])
async def test_outputs_are_whole_whenever_the_tab_is_lost(
    harness: TabHarness, at: int, was_made: bool, how: str
) -> None:
    document = await harness.document()
    loss = Loss(harness, at, was_made=was_made, how=how)
    harness.page.before = loss.before
    async with document.writing("aaaa1111") as writer:
        await writer.start()
        await writer.write([Append(stream("one "))])
        await document.outputs("aaaa1111")
        await writer.write([StreamEdit(0, 4, "two")])
        await document.outputs("aaaa1111")
        await writer.finish(4)
    await asyncio.wait_for(loss.is_over.wait(), DEADLINE)
    if how != "a close":
        opened = harness.page.notebooks[PATH]
        await harness.changes(lambda: shown(opened.cells) == ("one two", 4))
        assert opened.cells[0].get("execution_state", "idle") == "idle"
        await harness.page.save(PATH)
    assert shown(harness.on_disk()) == ("one two", 4)


@pytest.mark.proves("ext:rtc")
@pytest.mark.parametrize("what", ["outputs", "an edit"])
async def test_a_tab_that_opens_while_the_file_is_written_shows_what_was_written(
    harness: TabHarness, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    page, rewrite = harness.page, NotebookFile.rewrite
    await page.close_notebook(PATH)
    document = await harness.document()

    async def late(file: NotebookFile, *arguments: Any) -> Any:
        await page.opened(PATH)
        return await rewrite(file, *arguments)

    monkeypatch.setattr(NotebookFile, "rewrite", late)
    if what == "outputs":
        async with document.writing("aaaa1111") as writer:
            await writer.start()
            await writer.write([Append(stream("one"))])
            await writer.finish(4)
        assert shown(page.notebooks[PATH].cells) == ("one", 4)
    else:
        await document.apply([Replace("aaaa1111", "a = 1")])
        assert page.notebooks[PATH].cells[0]["source"] == "a = 1"
