"""Undo of outputs takes back what a change has set, and never what a later run has written."""

from __future__ import annotations

from typing import Any

import nbformat
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from tests.harness import ALICE, ToolHarness, backend, documents, harness, jp_server_config
from tests.workspace.list_notebook import ListNotebook
from tests.workspace.test_undo_plan import code, entry
from tk_ai_extension.model.cells import CellContent
from tk_ai_extension.model.errors import Conflict
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.operations import Operation, Replace, SetOutputs
from tk_ai_extension.notebooks.cellforms import display_hash, same_outputs
from tk_ai_extension.workspace import change_encoding, editing
from tk_ai_extension.workspace.change_encoding import decode_changes, encode_changes
from tk_ai_extension.workspace.journal import JournalEntry
from tk_ai_extension.workspace.undo_entries import plan, undo_entries
from tk_ai_extension.workspace.undo_plan import compared_outputs

__all__ = ["backend", "documents", "harness", "jp_server_config"]

pytestmark = pytest.mark.proves("edit:history", "doc:conflict")


def printed(text: str) -> tuple[Json, ...]:
    return ({"output_type": "stream", "name": "stdout", "text": text},)


RESULTS = [(), printed("1\n"), printed("2\n"), printed("large\n" * 20)]
"""Few, and of one size, so that a run often looks like another; the last is too large for the journal."""
NOTHING: tuple[Any, ...] = ((), None)


def as_stored(results: tuple[Any, ...]) -> tuple[Any, ...]:
    """What the journal keeps of outputs and a count."""
    return NOTHING if results[0] == RESULTS[-1] else results


@pytest.mark.parametrize("ids", [True, False])
@given(data=st.data())
def test_results_of_a_later_run_stay_and_no_others(ids: bool, data: st.DataObject) -> None:
    """Two cells are run by others, while their outputs are set and undone; a model has the results."""
    results, counts = st.sampled_from(RESULTS), st.sampled_from([1, None])
    names = ["aaaa", "bbbb"] if ids else ["cell-0", "cell-1"]
    cells = [
        CellContent("code", name, name if ids else None, {}, data.draw(counts), data.draw(results))
        for name in names
    ]
    notebook = ListNotebook(cells, ids=ids)
    state = [(cell.outputs, cell.execution_count) for cell in cells]
    set_since: list[tuple[int, Any, Any]] = []
    entries: list[JournalEntry] = []
    for number in range(data.draw(st.integers(1, 5))):
        cell = data.draw(st.integers(0, 1))
        new = data.draw(results), data.draw(counts)
        made = notebook.apply([SetOutputs(names[cell], *new)])
        if data.draw(st.booleans()):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(change_encoding, "MAX_OUTPUTS", 100)
                text, note = encode_changes(made)
            entries.insert(0, entry(number + 1, decode_changes(text), note))
            set_since.insert(0, (cell, state[cell], new))
        state[cell] = new
    undone = notebook.plan(entries)
    notebook.apply(undone.operations)
    stayed: set[int] = set()
    for cell, before, after in set_since:
        stored_before, stored_after = map(as_stored, (before, after))
        if before == after != NOTHING:
            continue  # It set nothing.
        is_unknown = stored_after != after and stored_before != NOTHING
        if cell in stayed or (stayed and not ids) or is_unknown or state[cell] != stored_after:
            stayed.add(cell)
        else:
            state[cell] = stored_before
    event(f"{len(stayed)} stay")
    assert bool(stayed) == any("not reverted" in why for why in undone.left)
    assert [(cell.outputs, cell.execution_count) for cell in notebook.cells] == state


def test_a_run_after_two_replacements_that_cancel_out_is_kept() -> None:
    notebook = ListNotebook([code("a", "aaaa", ran=True)])
    entries = [
        entry(number, notebook.apply([Replace("aaaa", source)]))
        for number, source in ((1, "b"), (2, "a"))
    ]
    notebook.apply([SetOutputs("aaaa", printed("fresh\n"), 8)])
    now = notebook.cells
    undone = notebook.plan(entries[::-1])
    notebook.apply(undone.operations)
    assert notebook.cells == now
    assert undone.left == ("The outputs of cell @aaaa were kept: it ran since.",)
    assert (undone.entries, undone.stayed) == ({}, ("aaaa",))


def test_a_replacement_by_the_same_source_is_not_undone_over_a_later_run() -> None:
    notebook = ListNotebook([code("a", "aaaa", ran=True)])
    changes = notebook.apply([Replace("aaaa", "a")])
    notebook.apply([SetOutputs("aaaa", printed("fresh\n"), 8)])
    kept = "The outputs of cell @aaaa were kept: it ran since."
    assert notebook.inverse(changes) == ([], [kept], [])


@pytest.mark.parametrize("ids", [True, False])
def test_outputs_are_undone_below_a_later_edit_that_kept_them(ids: bool) -> None:
    name = "aaaa" if ids else "cell-0"
    cell = CellContent("code", "a", name if ids else None, {}, 1, printed("1\n"))
    notebook = ListNotebook([cell], ids=ids)
    edits = SetOutputs(name, printed("2\n"), 2), Replace(name, "b", keep_outputs=True)
    entries = [entry(number, notebook.apply([edit])) for number, edit in enumerate(edits, 1)]
    undone = notebook.plan(entries[::-1])
    notebook.apply(undone.operations)
    assert (notebook.cells, undone.left) == ([cell], ())


def test_a_run_between_plan_and_undo_is_a_conflict() -> None:
    notebook = ListNotebook([code("a", "aaaa", ran=True)])
    undone = notebook.plan([entry(1, notebook.apply([SetOutputs("aaaa")]))])
    notebook.apply([SetOutputs("aaaa", printed("fresh\n"), 8)])
    now = notebook.cells
    with pytest.raises(Conflict):
        notebook.apply(undone.operations)
    assert notebook.cells == now


def test_only_outputs_that_may_be_those_of_the_change_are_read() -> None:
    names = ["aaaa", "bbbb", "cccc", "dddd", "eeee"]
    notebook = ListNotebook([code(name, name, ran=True) for name in names])
    edits: list[Operation] = [SetOutputs(name, printed("1\n"), 8) for name in names[:3]]
    changes = notebook.apply([*edits, SetOutputs("dddd"), Replace("eeee", "e")])
    notebook.apply([SetOutputs("bbbb", printed("1\n"), 9), SetOutputs("cccc", (), 8)])
    assert compared_outputs(changes, notebook.snapshot()) == ["aaaa"]


@pytest.mark.parametrize(
    ("kept", "stored"),
    [
        ({"text/plain": "a\nb"}, {"text/plain": ["a\n", "b"]}),
        ({"application/json": float("nan")}, {"application/json": None}),
        ({"application/json": {"n": [1]}}, {"application/json": {"n": [1.0]}}),
        ({"application/json": -0.0}, {"application/json": 0}),
        ({"application/json": 2**60}, {"application/json": float(2**60)}),
        ({"text/plain": "\ud83d"}, {"text/plain": "\ufffd"}),
    ],
)
def test_outputs_are_the_same_however_they_are_stored(kept: Json, stored: Json) -> None:
    a, b = (
        {"output_type": "display_data", "data": data, "metadata": {}} for data in (kept, stored)
    )
    assert same_outputs([a], [b])
    assert display_hash(a) == display_hash(b)
    other = {**b, "data": {"application/json": [True]}}
    assert not same_outputs([a], [other])
    assert display_hash(a) != display_hash(other)


async def set_outputs(harness: ToolHarness, text: str) -> JournalEntry:
    """Store outputs as ``nb verify --update`` does; return the entry as the journal on disk has it."""
    document = await harness.workspace.store.open("n.ipynb")
    (cell,) = (await document.read()).cells
    operation = SetOutputs(cell.key, printed(text), 1, cell.hash)
    await editing.apply(harness.workspace, ALICE, document, [operation], tool="nb verify")
    (found,) = await harness.workspace.journal.undoable(ALICE, None)
    assert found.summary == f"updated the outputs of @{cell.key}"
    return found


def run_all(harness: ToolHarness, text: str) -> None:
    """Run the cell as a person does, in another program."""
    stored = harness.on_disk("n.ipynb")
    stored.cells[0].outputs = [nbformat.v4.new_output("stream", name="stdout", text=text)]
    stored.cells[0].execution_count = 1
    nbformat.write(stored, harness.root / "n.ipynb")


def text_of(harness: ToolHarness) -> str:
    return harness.on_disk("n.ipynb").cells[0].outputs[0]["text"]


@pytest.mark.parametrize("documents", ["file", "room"])
async def test_stored_outputs_are_restored_unless_the_cell_ran_since(harness: ToolHarness) -> None:
    harness.write("n.ipynb", "print('hi')")
    run_all(harness, "old\na\n")
    await set_outputs(harness, "new\nb\n")
    await harness.saved("n.ipynb", lambda stored: stored.cells[0].outputs[0]["text"] == "new\nb\n")
    await harness.call("undo", notebook="n.ipynb")
    await harness.saved("n.ipynb", lambda stored: stored.cells[0].outputs[0]["text"] == "old\na\n")


async def test_the_results_of_a_later_run_with_the_same_count_stay(harness: ToolHarness) -> None:
    harness.write("n.ipynb", "print('hi')")
    run_all(harness, "old\n")
    found = await set_outputs(harness, "new\n")
    run_all(harness, "day\n")
    with pytest.raises(Conflict, match="it ran since"):
        await harness.call("undo", notebook="n.ipynb")
    (taken,) = await undo_entries(harness.workspace, ALICE, [found])
    assert taken.cells == ()
    assert "it ran since" in taken.left[0]
    assert text_of(harness) == "day\n"


async def test_a_run_while_an_undo_awaits_approval_stays(harness: ToolHarness) -> None:
    harness.write("n.ipynb", "print('hi')")
    run_all(harness, "old\n")
    found = await set_outputs(harness, "new\n")
    document = await harness.workspace.store.open("n.ipynb")
    made = await plan(document, [found], await document.read())
    run_all(harness, "day\n")
    with pytest.raises(Conflict):
        await editing.undo(
            harness.workspace,
            ALICE,
            document,
            made.operations,
            made.entries,
            tool="undo",
            summary="undid 1 change",
        )
    assert text_of(harness) == "day\n"
    run_all(harness, "new\n")
    await harness.call("undo", notebook="n.ipynb")
    assert text_of(harness) == "old\n"
