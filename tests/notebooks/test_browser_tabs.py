"""Notebooks in tabs that reload, close, go offline or are two: nothing is lost, nothing is done twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.notebooks.tabs import PATH, TabHarness
from tests.support.document_bench import (
    code,
    sources,
    stream,
)
from tk_ai_extension.model.cell_operations import Insert, Replace, SetOutputs
from tk_ai_extension.model.cells import CellData
from tk_ai_extension.model.errors import SaveFailed
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.output_changes import AppendOutput, StreamEdit
from tk_ai_extension.notebooks import browser_pages


def once(method: str, what: Callable[[Json], Awaitable[None]]) -> Callable[[Json], Awaitable[None]]:
    """Does something before the first question of a kind is answered."""
    asked: list[Json] = []

    async def before(question: Json) -> None:
        if question["method"] == method:
            asked.append(question)
            if len(asked) == 1:
                await what(question)

    return before


INSERT = Insert(CellData("code", "new"), index=0)


@pytest.mark.proves("edit:linearizable")
@pytest.mark.parametrize("change", ["insert", "delete", "move"])
async def test_a_change_says_where_its_cell_was_when_the_tab_made_it(
    harness: TabHarness, change: str
) -> None:
    document, opened = await harness.document(), harness.page.notebooks[PATH]
    place = {"insert": 2, "delete": 0, "move": 0}[change]

    async def hurried(_: Json) -> None:
        match change:
            case "insert":
                opened.insert(0, code("above", "abcd1234"))
            case "delete":
                opened.delete(0)
            case _:
                opened.insert(2, opened.delete(0))

    harness.page.before = once("apply", hurried)
    second = (await document.read()).cells[1].key
    applied = await document.apply([Replace(second, "a new one"), SetOutputs(second)])
    assert [(each.index, each.index_before) for each in applied.changes] == [(place, place)] * 2
    assert applied.snapshot.cells[place].source == "a new one"


# --- the connection is lost


@pytest.mark.proves("fault:tab-lost")
async def test_a_change_whose_answer_was_lost_is_not_made_twice(harness: TabHarness) -> None:
    document, opened = await harness.document(), harness.page.notebooks[PATH]
    back: list[asyncio.Task[None]] = []

    async def applied_and_cut(question: Json) -> None:
        opened.apply(question, 1_000_000)
        await harness.page.cut()
        back.append(asyncio.create_task(harness.page.connect()))

    harness.page.before = once("apply", applied_and_cut)
    applied = await document.apply([INSERT])
    await back[0]
    assert sources(applied.snapshot.cells) == ["new", "a", "b"]
    assert await harness.person.sources(PATH) == ["new", "a", "b"]
    assert sources(harness.on_disk()) == ["new", "a", "b"]


@pytest.mark.proves("fault:tab-lost")
async def test_a_change_that_was_not_received_is_made_when_the_tab_is_back(
    harness: TabHarness,
) -> None:
    document = await harness.document()
    back: list[asyncio.Task[None]] = []

    async def cut(_: Json) -> None:
        await harness.page.cut()
        back.append(asyncio.create_task(harness.page.connect()))
        await asyncio.Event().wait()

    harness.page.before = once("apply", cut)
    await document.apply([INSERT])
    await back[0]
    assert sources(harness.on_disk()) == ["new", "a", "b"]


@pytest.mark.proves("fault:tab-lost")
@pytest.mark.parametrize("was_made", [True, False])
@pytest.mark.usefixtures("short_grace")
async def test_a_change_of_a_tab_that_stays_away_is_made_once(
    harness: TabHarness, was_made: bool
) -> None:
    document, opened = await harness.document(), harness.page.notebooks[PATH]

    async def cut(question: Json) -> None:
        if was_made:
            opened.apply(question, 1_000_000)
        await harness.page.cut()
        await asyncio.Event().wait()

    harness.page.before = once("apply", cut)
    await document.apply([INSERT])
    assert sources(harness.on_disk()) == ["new", "a", "b"]
    if was_made:
        # What the page brings back is the same cell.
        assert opened.cells[0]["id"] == harness.on_disk()[0]["id"]


@pytest.mark.proves("fault:tab-lost")
@pytest.mark.parametrize("at", ["apply", "save"])
async def test_a_tab_that_is_closed_in_the_middle_leaves_the_change_to_the_file(
    harness: TabHarness, at: str
) -> None:
    document = await harness.document()
    if at == "save":
        harness.page.notebooks[PATH].describe(title="typed")

    async def closed(_: Json) -> None:
        await harness.page.unload()
        await asyncio.Event().wait()

    harness.page.before = once(at, closed)
    applied = await document.apply([INSERT])
    assert sources(applied.snapshot.cells) == ["new", "a", "b"]
    assert sources(harness.on_disk()) == ["new", "a", "b"]
    assert document.backend == "file"
    await harness.page.connect()


@pytest.mark.proves("fault:tab-lost")
async def test_a_change_that_was_saved_before_the_tab_was_closed_is_not_made_again(
    harness: TabHarness,
) -> None:
    document = await harness.document()
    harness.page.notebooks[PATH].describe(title="typed")

    async def saved_and_closed(_: Json) -> None:
        await harness.page.save(PATH)
        await harness.page.unload()
        await asyncio.Event().wait()

    harness.page.before = once("save", saved_and_closed)
    await document.apply([INSERT])
    assert sources(harness.on_disk()) == ["new", "a", "b"]
    await harness.page.connect()


@pytest.mark.proves("fault:tab-lost")
@pytest.mark.usefixtures("short_grace")
async def test_the_person_of_a_tab_that_was_offline_with_unsaved_work_is_asked(
    harness: TabHarness,
) -> None:
    document = await harness.document()
    await harness.person.type(PATH, 0, " typed")
    await document.read()
    await harness.page.cut()
    await document.apply([Replace("aaaa1111", "x")])
    assert sources(harness.on_disk()) == ["x", "b"]
    # By an error here and by JupyterLab there.
    await harness.page.connect()
    with pytest.raises(SaveFailed):
        await document.apply([Replace("bbbb2222", "y")])
    assert harness.page.dialogs.pop() == f"File Changed: {PATH}"
    assert await harness.person.sources(PATH) == ["a typed", "b"]
    assert sources(harness.on_disk()) == ["x", "b"]


@pytest.mark.proves("edit:linearizable")
async def test_a_change_that_cannot_be_saved_stays_where_a_person_goes_on_with_it(
    harness: TabHarness,
) -> None:
    document, opened = await harness.document(), harness.page.notebooks[PATH]
    await harness.person.type(PATH, 1, " typed")
    opened.describe(title="typed")

    async def typed_while_another_program_writes(_: Json) -> None:
        opened.edit(opened.cells[0], source="x typed")
        file = Path(harness.app.root_dir) / PATH
        file.write_bytes(file.read_bytes() + b"\n")

    harness.page.before = once("save", typed_while_another_program_writes)
    applied = await document.apply([Replace("aaaa1111", "x")])
    assert [change.cell for change in applied.changes] == ["aaaa1111"]
    assert harness.page.dialogs.pop() == f"File Changed: {PATH}"
    assert await harness.person.sources(PATH) == ["x typed", "b typed"]
    assert sources(harness.on_disk()) == ["a", "b"]


@pytest.mark.proves("fault:tab-lost")
@pytest.mark.usefixtures("short_grace")
async def test_a_saved_notebook_in_a_tab_that_is_offline_is_edited_in_its_file(
    harness: TabHarness,
) -> None:
    document = await harness.document()
    await harness.page.cut()
    await document.apply([Replace("bbbb2222", "x")])
    assert sources(harness.on_disk()) == ["a", "x"]
    await harness.page.connect()
    assert await harness.person.sources(PATH) == ["a", "x"]
    await harness.person.type(PATH, 0, " typed")
    await harness.page.save(PATH)
    assert sources((await document.read()).cells) == ["a typed", "x"]


@pytest.mark.usefixtures("short_grace")
async def test_a_tab_that_does_not_answer_times_out(
    harness: TabHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser_pages, "ANSWER", 0.2)
    document = await harness.document()

    async def silent(_: Json) -> None:
        await asyncio.Event().wait()

    harness.page.before = silent
    # Nothing is unsaved in it, and so its file is the notebook.
    assert sources((await document.read()).cells) == ["a", "b"]
    assert document.backend == "file"
    harness.page.before = None
    await harness.page.connect()


# --- outputs


@pytest.mark.proves("fault:tab-lost", "ext:rtc")
async def test_outputs_are_complete_after_the_connection_was_lost(harness: TabHarness) -> None:
    document = await harness.document()
    async with document.writing("aaaa1111") as writer:
        writer.start()
        await writer.write([AppendOutput(stream("one "))])
        assert await document.outputs("aaaa1111") == (stream("one "),)
        await harness.page.cut()
        await writer.write([StreamEdit(0, 4, "two ")])
        await harness.page.connect()
        await writer.write([StreamEdit(0, 8, "three")])
        await writer.finish(4)
    cell = harness.page.notebooks[PATH].cells[0]
    assert (cell["outputs"], cell["execution_count"]) == ([stream("one two three")], 4)
    assert cell["execution_state"] == "idle"


@pytest.mark.proves("fault:tab-lost", "ext:rtc")
async def test_outputs_go_on_in_the_file_and_in_the_tab_that_opens_it_again(
    harness: TabHarness,
) -> None:
    document = await harness.document()
    async with document.writing("aaaa1111") as writer:
        writer.start()
        await writer.write([AppendOutput(stream("one "))])
        await document.outputs("aaaa1111")
        await harness.page.unload()
        await writer.write([StreamEdit(0, 4, "two ")])
        assert await document.outputs("aaaa1111") == (stream("one two "),)
        assert document.backend == "file"
        await harness.page.connect()
        again = await harness.page.open(PATH)
        await writer.write([StreamEdit(0, 8, "three")])
        assert await document.outputs("aaaa1111") == (stream("one two three"),)
        assert again.cells[0]["outputs"] == [stream("one two three")]
        await writer.finish(4)
    assert again.cells[0]["execution_count"] == 4
    await harness.page.save(PATH)
    assert harness.on_disk()[0]["execution_count"] == 4


@pytest.mark.proves("fault:tab-lost")
@pytest.mark.usefixtures("short_grace")
async def test_outputs_of_a_run_that_ended_while_a_tab_was_away_are_in_the_file(
    harness: TabHarness,
) -> None:
    document = await harness.document()
    async with document.writing("aaaa1111") as writer:
        writer.start()
        await harness.person.type(PATH, 1, " typed")
        await writer.write([AppendOutput(stream("one "))])
        await document.outputs("aaaa1111")
        await harness.page.cut()
        await writer.write([StreamEdit(0, 4, "two")])
        await writer.finish(4)
    cell = harness.on_disk()[0]
    assert (cell["execution_count"], cell["outputs"][0]["text"]) == (4, ["one two"])
    await harness.page.connect()
    assert await harness.person.sources(PATH) == ["a", "b typed"]


# --- names and receipts


async def test_a_notebook_that_is_renamed_while_it_is_open_is_found(harness: TabHarness) -> None:
    document = await harness.document()
    await harness.person.type(PATH, 0, " typed")
    await harness.page.rename(PATH, "m.ipynb")
    renamed = await harness.store.open("m.ipynb")
    assert sources((await renamed.read()).cells) == ["a typed", "b"]
    await document.apply([Replace("bbbb2222", "x")])
    assert await harness.person.sources("m.ipynb") == ["a typed", "x"]


@pytest.mark.proves("fault:tab-lost")
async def test_outputs_are_there_once_after_their_receipt_was_lost(harness: TabHarness) -> None:
    document, opened = await harness.document(), harness.page.notebooks[PATH]
    back: list[asyncio.Task[None]] = []

    async def apply_and_cut(question: Json) -> None:
        opened.set_outputs(question)
        await harness.page.cut()
        back.append(asyncio.create_task(harness.page.connect()))

    async with document.writing("aaaa1111") as writer:
        writer.start()
        await writer.write([AppendOutput(stream("one "))])
        await document.outputs("aaaa1111")
        harness.page.before = once("outputs", apply_and_cut)
        await writer.write([StreamEdit(0, 4, "two")])
        assert await document.outputs("aaaa1111") == (stream("one two"),)
        await back[0]
        await writer.finish(4)
    assert opened.cells[0]["outputs"] == [stream("one two")]


@pytest.mark.proves("ext:rtc")
async def test_a_notebook_that_is_opened_while_a_cell_runs_in_its_file_shows_all(
    harness: TabHarness,
) -> None:
    await harness.page.close_notebook(PATH)
    document = await harness.document()
    async with document.writing("aaaa1111") as writer:
        writer.start()
        await writer.write([AppendOutput(stream("one "))])
        assert await document.outputs("aaaa1111") == (stream("one "),)
        assert document.backend == "file"
        opened = await harness.page.open(PATH)
        await harness.person.type(PATH, 1, " typed")
        await writer.write([StreamEdit(0, 4, "two")])
        assert await document.outputs("aaaa1111") == (stream("one two"),)
        await writer.finish(4)
    assert opened.cells[0]["outputs"] == [stream("one two")]
    await harness.page.save(PATH)
    assert sources(harness.on_disk()) == ["a", "b typed"]


@pytest.mark.proves("ext:rtc")
@pytest.mark.parametrize("then", ["a read", "an edit", "the next cell", "the end of the run"])
async def test_a_notebook_that_is_opened_between_two_cells_of_a_run_shows_the_first(
    harness: TabHarness, then: str
) -> None:
    """The file that the page takes may not have its outputs yet."""
    await harness.page.close_notebook(PATH)
    document = await harness.document()
    async with document.writing("aaaa1111") as writer:
        writer.start()
        await writer.write([AppendOutput(stream("one"))])
        await writer.finish(4, save=False)
    opened = await harness.page.open(PATH)
    assert opened.cells[0]["outputs"] == []
    match then:
        case "a read":
            assert await document.outputs("aaaa1111") == (stream("one"),)
        case "an edit":
            await document.apply([Replace("bbbb2222", "x")])
        case "the next cell":
            async with document.writing("bbbb2222") as writer:
                writer.start()
                await writer.finish(5, save=False)
        case _:
            await document.flush()
    assert document.backend == "tab"
    [shown] = opened.cells[0]["outputs"]
    assert ("".join(shown["text"]), opened.cells[0]["execution_count"]) == ("one", 4)
    await harness.page.save(PATH)
    assert harness.on_disk()[0]["execution_count"] == 4
