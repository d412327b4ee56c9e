"""Notebooks in two tabs: one is authoritative, the other one follows."""

from __future__ import annotations

import pytest

from tests.notebooks.tabs import PATH, TabHarness
from tests.support.document_bench import sources
from tests.support.tab_page import TabPerson
from tk_ai_extension.model.cell_operations import Insert, Replace
from tk_ai_extension.model.cells import CellData
from tk_ai_extension.model.errors import Conflict, ConflictingTabs

INSERT = Insert(CellData("code", "new"), index=0)


@pytest.mark.proves("fault:tab-lost", "fault:concurrent-edit")
async def test_the_tab_with_unsaved_changes_counts_and_the_other_one_follows(
    harness: TabHarness,
) -> None:
    other = await harness.another_page()
    await other.open(PATH)
    await harness.person.type(PATH, 0, " typed")
    document = await harness.document()
    seen = await document.read()
    assert sources(seen.cells) == ["a typed", "b"]
    await document.apply([Replace("bbbb2222", "x", expect=seen.cell("bbbb2222").hash)])
    assert harness.on_disk()[0]["source"] == ["a typed"]
    await harness.changes(lambda: sources(other.notebooks[PATH].cells) == ["a typed", "x"])
    assert other.dialogs == []
    await other.close()


@pytest.mark.proves("fault:concurrent-edit")
async def test_two_tabs_with_unsaved_changes_are_an_error(harness: TabHarness) -> None:
    other = await harness.another_page()
    await other.open(PATH)
    await harness.person.type(PATH, 0, " typed")
    await TabPerson(other).type(PATH, 1, " too")
    document = await harness.document()
    with pytest.raises(ConflictingTabs):
        await document.read()
    with pytest.raises(ConflictingTabs):
        await document.apply([INSERT])
    await other.unload()
    await harness.changes(lambda: len(harness.channel.present(PATH)) == 1)
    with pytest.raises(Conflict):
        await document.apply([Replace("aaaa1111", "x", expect="0" * 32)])
    await document.apply([INSERT])
    assert sources(harness.on_disk()) == ["new", "a typed", "b"]


@pytest.mark.proves("fault:concurrent-edit")
async def test_a_tab_that_was_looked_at_last_shows_what_another_has_saved_before_it_is_changed(
    harness: TabHarness,
) -> None:
    other = await harness.another_page()
    await other.open(PATH)
    await harness.person.type(PATH, 0, " typed")
    await harness.page.save(PATH)
    await harness.page.report_and_wait()
    document = await harness.document()
    assert sources((await document.read()).cells) == ["a typed", "b"]
    await document.apply([Replace("bbbb2222", "x")])
    assert sources(harness.on_disk()) == ["a typed", "x"]
    assert other.dialogs == []
    await other.close()
