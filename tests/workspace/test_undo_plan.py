"""Undo reverts cells that were not edited since, and leaves the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from tests.workspace.list_notebook import ListNotebook, contents, names
from tk_ai_extension.model.cell_operations import (
    Change,
    Delete,
    Insert,
    Move,
    Operation,
    Replace,
    SetOutputs,
    expecting,
)
from tk_ai_extension.model.cells import CELL_TYPES, CellData, CellType, source_hash
from tk_ai_extension.workspace import change_encoding
from tk_ai_extension.workspace.change_encoding import decode_changes, encode_changes, standing
from tk_ai_extension.workspace.journal import JournalEntry

pytestmark = pytest.mark.proves("edit:history")

PRINTED = ({"output_type": "stream", "name": "stdout", "text": "1\n"},)


def code(source: str, name: str | None = None, *, ran: bool = False) -> CellData:
    return CellData(
        "code", source, id=name, execution_count=7 if ran else None, outputs=PRINTED if ran else ()
    )


def markdown(source: str, name: str | None = None, **extra: Any) -> CellData:
    return CellData("markdown", source, id=name, extra=extra)


def three() -> ListNotebook:
    return ListNotebook([code("a", "aaaa", ran=True), code("b", "bbbb"), markdown("c", "cccc")])


def undo(notebook: ListNotebook, changes: Sequence[Change]) -> list[str]:
    """Takes changes back, and returns what stays."""
    operations, left, _ = notebook.inverse(changes)
    notebook.apply(operations)
    return left


def entry(number: int, changes: Sequence[Change], note: str = "") -> JournalEntry:
    return JournalEntry(
        id=number,
        time=0.0,
        path="n.ipynb",
        user="ada",
        caller_key="k",
        author="ada",
        tool="edit_cell",
        turn=None,
        kind="change",
        state="done",
        summary="",
        changes=tuple(changes),
        note=note,
    )


@pytest.mark.proves("doc:conflict")
class TestSomebodyWorkedOnSince:
    @pytest.mark.parametrize(
        ("operation", "since", "reason"),
        [
            (Replace("bbbb", "mine"), Replace("bbbb", "theirs"), "edited"),
            (Replace("bbbb", "mine"), Replace("bbbb", "mine", type="markdown"), "edited"),
            (Replace("bbbb", "mine"), Delete("bbbb"), "deleted"),
            (Insert(code("mine", "dddd")), Replace("dddd", "theirs"), "edited"),
            (Insert(code("mine", "dddd")), Delete("dddd"), "deleted"),
            (Delete("bbbb"), Insert(code("theirs", "bbbb")), "another cell has its id"),
            (Move("bbbb", 0), Delete("bbbb"), "deleted"),
            (SetOutputs("aaaa"), Replace("aaaa", "theirs"), "edited"),
            (SetOutputs("aaaa"), SetOutputs("aaaa", PRINTED, 8), "ran since"),
            (SetOutputs("aaaa"), Delete("aaaa"), "deleted"),
        ],
    )
    def test_the_cell_stays_as_it_is_and_a_sentence_says_so(
        self, operation: Operation, since: Operation, reason: str
    ) -> None:
        notebook = three()
        changes = notebook.apply([operation])
        notebook.apply([since])
        now = notebook.cells
        (sentence,) = undo(notebook, changes)
        assert reason in sentence
        assert f"@{changes[0].cell}" in sentence
        assert notebook.cells == now

    def test_a_deleted_cell_comes_back_after_its_old_neighbour(self) -> None:
        notebook = ListNotebook([code(c, c * 4) for c in "abcd"])
        changes = notebook.apply([Delete("cccc")])
        notebook.apply([Insert(code("x", "xxxx"), index=0), Insert(code("y", "yyyy"), index=0)])
        undo(notebook, changes)
        assert "".join(cell.source for cell in notebook.cells) == "yxabcd"

    @pytest.mark.parametrize("to", [0, 3])
    def test_a_moved_cell_goes_back_to_its_old_neighbour(self, to: int) -> None:
        notebook = ListNotebook([code(c, c * 4) for c in "abcd"])
        changes = notebook.apply([Move("bbbb", to)])
        notebook.apply([Insert(code("x", "xxxx"), index=0), Move("dddd", 1)])
        undo(notebook, changes)
        order = "".join(cell.source for cell in notebook.cells)
        assert "ab" in order


class TestCellsWithoutIds:
    def test_once_something_stays_the_numbers_of_the_rest_are_not_trusted(self) -> None:
        cells = [code("same"), code("same", ran=True), markdown("c")]
        notebook = ListNotebook(cells, ids=False)
        changes = notebook.apply([Replace("cell-0", "mine"), Insert(code("same"), index=0)])
        notebook.apply([Replace("cell-0", "theirs")])
        now = notebook.cells
        assert len(undo(notebook, changes)) == 2
        assert notebook.cells == now

    def test_a_deleted_cell_with_the_id_of_another_is_not_restored(self) -> None:
        notebook = ListNotebook([code("a", "same"), code("b", "same")])
        changes = notebook.apply([Replace("cell-1", "mine"), Delete("cell-1")])
        assert len(undo(notebook, changes)) == 2
        assert [cell.source for cell in notebook.cells] == ["a"]


# --- for all notebooks and all edits

SOURCES = st.sampled_from(["", "x = 1", "x = 2", "# %%", "a\nb\n"])
OUTPUTS = st.sampled_from([(), PRINTED, PRINTED * 2])


@st.composite
def new_cells(draw: st.DrawFn) -> CellData:
    kind = draw(st.sampled_from(CELL_TYPES))
    ran = kind == "code" and draw(st.booleans())
    return CellData(
        kind,
        draw(SOURCES),
        metadata=draw(st.sampled_from([{}, {"tags": ["t"]}])),
        execution_count=draw(st.integers(1, 9)) if ran else None,
        outputs=draw(OUTPUTS) if ran else (),
        extra={} if kind == "code" else draw(st.sampled_from([{}, {"attachments": {"i": {}}}])),
    )


@st.composite
def notebooks(draw: st.DrawFn) -> ListNotebook:
    ids = draw(st.booleans())
    cells = draw(st.lists(new_cells(), max_size=6))
    named = [replace(cell, id=f"id-{n}" if ids else None) for n, cell in enumerate(cells)]
    return ListNotebook(named, ids=ids)


def edit(data: st.DataObject, cells: list[tuple[str | None, CellData]]) -> Operation:
    """Some operation that a notebook with these cells, called by these names, can take."""
    named = [(name, cell) for name, cell in cells if name is not None]
    choices = ["insert"] + (["replace", "delete", "move", "outputs"] if named else [])
    choice = data.draw(st.sampled_from(choices))
    if choice == "insert":
        return Insert(data.draw(new_cells()), index=data.draw(st.integers(0, len(cells))))
    name, cell = data.draw(st.sampled_from(named))
    if choice == "outputs" and cell.type == "code":
        return SetOutputs(name, data.draw(OUTPUTS), data.draw(st.none() | st.integers(1, 9)))
    if choice == "delete":
        return Delete(name, source_hash(cell.source))
    if choice == "move":
        return Move(name, data.draw(st.integers(0, len(cells) - 1)))
    kind: CellType | None = data.draw(st.sampled_from([None, "code", "markdown"]))
    source, kept = data.draw(SOURCES), data.draw(st.booleans())
    return Replace(name, source, kind, kept, expect=source_hash(cell.source))


def edits(data: st.DataObject, notebook: ListNotebook, most: int) -> list[JournalEntry]:
    """Entries of one to three edits each, made one after the other."""
    entries: list[JournalEntry] = []
    for number in range(data.draw(st.integers(0, most))):
        draft = notebook.draft()
        for _ in range(data.draw(st.integers(1, 3))):
            cells = zip(names(notebook, draft), contents(notebook, draft), strict=True)
            draft.apply(expecting(notebook.snapshot(), [edit(data, list(cells))]))
        entries.append(entry(number + 1, notebook.take(draft)))
    return entries


def check_unsure_of_a_move(
    notebook: ListNotebook, changes: Sequence[Change], left: Sequence[str]
) -> None:
    """Among cells without ids that look alike, a moved one may not be distinguished from its neighbours."""
    assert "it was moved since" in left[0]
    assert not notebook.ids
    assert "move" in {change.action for change in changes}


@given(notebook=notebooks(), data=st.data())
def test_apply_then_inverse_gives_the_former_notebook(
    notebook: ListNotebook, data: st.DataObject
) -> None:
    before = notebook.cells
    entries = edits(data, notebook, 4)
    changes = [change for one in entries for change in one.changes]
    operations, left, undone = notebook.inverse(changes)
    if left:
        check_unsure_of_a_move(notebook, changes, left)
        return
    assert undone == changes
    notebook.apply(operations)
    assert notebook.cells == before


@given(notebook=notebooks(), data=st.data())
def test_entries_are_taken_back_from_the_newest_to_any_checkpoint(
    notebook: ListNotebook, data: st.DataObject
) -> None:
    edits(data, notebook, 2)
    checkpoint = notebook.cells
    entries = edits(data, notebook, 3)
    undone = notebook.plan(entries[::-1])
    if undone.left:
        changes = [change for one in entries for change in one.changes]
        check_unsure_of_a_move(notebook, changes, undone.left)
        return
    notebook.apply(undone.operations)
    assert notebook.cells == checkpoint


@pytest.mark.proves("doc:conflict")
@given(notebook=notebooks(), data=st.data())
def test_later_changes_of_others_are_never_lost(
    notebook: ListNotebook, data: st.DataObject
) -> None:
    entries = edits(data, notebook, 3)
    changed = {change.cell for one in entries for change in one.changes}
    theirs = edits(data, notebook, 2)
    now = notebook.cells
    undone = notebook.plan(entries[::-1])
    event(f"{len(undone.left)} stay")
    # The plan holds: no operation of it meets a conflict or misses its cell.
    notebook.apply(undone.operations)
    left = [
        replace(one, changes=tuple(standing(one.changes, undone.entries.get(one.id, ()))))
        for one in entries[::-1]
    ]
    assert any(one.changes for one in left) == bool(undone.left)
    snapshot = notebook.snapshot()
    notebook.draft().apply(expecting(snapshot, notebook.plan(left).operations))
    if not notebook.ids:
        return
    by_id = {cell.id: cell for cell in notebook.cells}
    touched = {change.cell for one in theirs for change in one.changes if change.action != "move"}
    for cell in now:
        if cell.id not in changed:
            assert by_id[cell.id] == cell, "a cell that we never touched"
        elif cell.id in touched:
            # Theirs stands, or they left it with just the source that we had left it with.
            ours = {
                change.after.source
                for one in entries
                for change in one.changes
                if change.cell == cell.id and change.after
            }
            kept = by_id.get(cell.id)
            assert (kept is not None and kept.source == cell.source) or cell.source in ours


PLACES = st.integers(0, 2)
LARGE = ({"output_type": "stream", "name": "stdout", "text": "large\n" * 20},)


@given(data=st.data())
def test_outputs_that_the_edits_kept_are_kept_by_undo_too_however_large(
    data: st.DataObject,
) -> None:
    """The journal stores no large outputs; a cell may also have run since."""
    outputs = st.sampled_from([LARGE, PRINTED, ()])
    ids = [f"id-{number}" for number in range(3)]
    counts = st.sampled_from([5, None])
    notebook = ListNotebook(
        [
            CellData("code", "x", cell_id, {}, data.draw(counts), data.draw(outputs))
            for cell_id in ids
        ]
    )
    # What such a cell has later is of the code that is undone.
    blank = {
        cell.id for cell in notebook.cells if (cell.execution_count, cell.outputs) == (None, ())
    }
    entries: list[JournalEntry] = []
    cleared: set[str] = set()
    edited: set[str] = set()
    for number, key in enumerate(data.draw(st.lists(st.sampled_from(ids), max_size=6))):
        keep = data.draw(st.sampled_from([True, True, False]))
        made = notebook.apply(
            [Replace(key, data.draw(SOURCES), keep_outputs=keep), Move(key, data.draw(PLACES))]
        )
        cleared |= set() if keep else {key}
        edited.add(key)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(change_encoding, "MAX_OUTPUTS", 100)
            text, note = encode_changes(made)
        entries.insert(0, entry(number + 1, decode_changes(text), note))
    for key in data.draw(st.lists(st.sampled_from(ids), unique=True)):
        notebook.apply([SetOutputs(key, data.draw(outputs), 9)])
    now = {cell.id: cell for cell in notebook.cells}
    undone = notebook.plan(entries)
    notebook.apply(undone.operations)
    assert [cell.id for cell in notebook.cells] == ids
    for cell in notebook.cells:
        assert cell.source == "x"
        if cell.id in blank & edited:
            assert (cell.execution_count, cell.outputs) == (None, ())
        elif cell.id not in cleared:
            assert cell == replace(now[cell.id], source="x")
    named = {word for note in undone.left for word in note.split() if word.startswith("@")}
    assert {name.strip(",.@") for name in named} <= cleared, "only what was lost is reported"
