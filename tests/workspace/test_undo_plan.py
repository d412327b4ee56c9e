"""Undo takes back what nobody has edited since, and leaves the rest as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from tests.workspace.list_notebook import ListNotebook, contents, names
from tk_ai_extension.model.cells import CELL_TYPES, CellContent, CellType, source_hash
from tk_ai_extension.model.operations import (
    Change,
    Delete,
    Insert,
    Move,
    Operation,
    Replace,
    SetOutputs,
    expecting,
)
from tk_ai_extension.workspace import stored_changes
from tk_ai_extension.workspace.journal import JournalEntry
from tk_ai_extension.workspace.stored_changes import decode_changes, encode_changes, standing

pytestmark = pytest.mark.proves("edit:history")

PRINTED = ({"output_type": "stream", "name": "stdout", "text": "1\n"},)


def code(source: str, name: str | None = None, *, ran: bool = False) -> CellContent:
    return CellContent(
        "code", source, id=name, execution_count=7 if ran else None, outputs=PRINTED if ran else ()
    )


def markdown(source: str, name: str | None = None, **extra: Any) -> CellContent:
    return CellContent("markdown", source, id=name, extra=extra)


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


ONE_OF_EACH = [
    Insert(code("new", "dddd"), index=1),
    Replace("aaaa", "a = 2"),
    Replace("aaaa", "a = 2", keep_outputs=True),
    Replace("aaaa", "text", type="markdown"),
    Replace("cccc", "code", type="code"),
    Delete("aaaa"),
    Delete("cccc"),
    Move("aaaa", 2),
    Move("cccc", 0),
    SetOutputs("aaaa"),
]


@pytest.mark.parametrize("operation", ONE_OF_EACH, ids=repr)
def test_each_operation_is_taken_back(operation: Operation) -> None:
    notebook = three()
    before = notebook.cells
    changes = notebook.apply([operation])
    assert undo(notebook, changes) == []
    assert notebook.cells == before


def test_a_restored_cell_has_its_id_metadata_outputs_and_attachments() -> None:
    picture = {"attachments": {"image.png": {"image/png": "iVBORw0="}}}
    cell = CellContent(
        "markdown", "![](attachment:image.png)", "aaaa", {"tags": ["x"]}, extra=picture
    )
    for operation in (Delete("aaaa"), Replace("aaaa", "x = 1", type="code")):
        notebook = ListNotebook([code("first", "ffff"), cell])
        assert undo(notebook, notebook.apply([operation])) == []
        assert notebook.cells[1] == cell


def test_every_operation_expects_what_the_change_left_behind() -> None:
    notebook = three()
    changes = notebook.apply([Insert(code("new", "dddd")), Replace("aaaa", "a = 2")])
    operations, *_ = notebook.inverse(changes)
    now = notebook.snapshot().by_key
    assert operations == [
        Delete("dddd", expect=now["dddd"].hash),
        Replace("aaaa", "a", type="code", expect=now["aaaa"].hash),
        SetOutputs("aaaa", PRINTED, 7),
    ]


def test_changes_that_cancel_out_need_no_operation() -> None:
    notebook = three()
    changes = notebook.apply(
        [Insert(code("new", "dddd")), Move("aaaa", 2), Delete("dddd"), Move("aaaa", 0)]
    )
    assert notebook.inverse(changes) == ([], [], list(changes))


def test_as_few_cells_as_possible_are_moved_back() -> None:
    notebook = ListNotebook([code(c, c * 4) for c in "abcdef"])
    changes = notebook.apply([Move("aaaa", 5)])
    operations, *_ = notebook.inverse(changes)
    assert operations == [Move("aaaa", 0)]


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

    def test_the_other_cells_of_the_same_change_are_taken_back(self) -> None:
        notebook = three()
        changes = notebook.apply([Replace("aaaa", "mine"), Replace("bbbb", "mine")])
        notebook.apply([Replace("bbbb", "theirs")])
        (sentence,) = undo(notebook, changes)
        assert "@bbbb" in sentence
        assert [cell.source for cell in notebook.cells] == ["a", "theirs", "c"]

    def test_an_earlier_change_of_a_cell_is_not_taken_back_over_a_later_one_that_stays(
        self,
    ) -> None:
        notebook = three()
        changes = notebook.apply([Replace("bbbb", "first"), Replace("bbbb", "second")])
        # By chance what they wrote is what the first change left.
        notebook.apply([Replace("bbbb", "first")])
        assert len(undo(notebook, changes)) == 2
        assert notebook.cells[1].source == "first"

    def test_a_cell_that_has_run_since_gets_the_outputs_of_its_old_source(self) -> None:
        notebook = three()
        changes = notebook.apply([Replace("aaaa", "mine")])
        notebook.apply([SetOutputs("aaaa", ({"output_type": "error"},), 9)])
        assert undo(notebook, changes) == []
        assert notebook.cells[0] == code("a", "aaaa", ran=True)

    @pytest.mark.parametrize("neighbours", [True, False])
    def test_a_deleted_cell_comes_back_after_its_old_neighbour(self, neighbours: bool) -> None:
        notebook = ListNotebook([code(c, c * 4) for c in "abcd"], neighbours=neighbours)
        changes = notebook.apply([Delete("cccc")])
        notebook.apply([Insert(code("x", "xxxx"), index=0), Insert(code("y", "yyyy"), index=0)])
        undo(notebook, changes)
        order = "".join(cell.source for cell in notebook.cells)
        # Without a neighbour's name, its old index is the best that is known.
        assert order == ("yxabcd" if neighbours else "yxcabd")

    def test_a_deleted_cell_whose_neighbour_is_gone_comes_back_at_its_old_index(self) -> None:
        notebook = ListNotebook([code(c, c * 4) for c in "abcd"])
        changes = notebook.apply([Delete("dddd")])
        notebook.apply([Delete("cccc"), Delete("bbbb")])
        undo(notebook, changes)
        assert "".join(cell.source for cell in notebook.cells) == "ad"

    @pytest.mark.parametrize("to", [0, 3])
    def test_a_moved_cell_goes_back_to_its_old_neighbour(self, to: int) -> None:
        notebook = ListNotebook([code(c, c * 4) for c in "abcd"])
        changes = notebook.apply([Move("bbbb", to)])
        notebook.apply([Insert(code("x", "xxxx"), index=0), Move("dddd", 1)])
        undo(notebook, changes)
        order = "".join(cell.source for cell in notebook.cells)
        assert "ab" in order


class TestEntries:
    def test_several_entries_are_taken_back_the_newest_first(self) -> None:
        notebook = three()
        before = notebook.cells
        first = entry(1, notebook.apply([Replace("aaaa", "1")]))
        second = entry(2, notebook.apply([Replace("aaaa", "2"), Insert(code("n", "dddd"))]))
        third = entry(3, notebook.apply([Delete("aaaa"), Move("dddd", 0)]))
        undone = notebook.plan([third, second, first])
        assert (tuple(undone.entries), undone.left) == ((3, 2, 1), ())
        notebook.apply(undone.operations)
        assert notebook.cells == before

    def test_an_entry_of_which_nothing_can_be_taken_back_is_not_among_those_undone(self) -> None:
        notebook = three()
        first = entry(1, notebook.apply([Replace("bbbb", "mine")]))
        second = entry(2, notebook.apply([Replace("aaaa", "mine")]))
        notebook.apply([Replace("aaaa", "theirs")])
        undone = notebook.plan([second, first])
        assert tuple(undone.entries) == (1,)
        assert len(undone.left) == 1
        assert notebook.plan([second]).operations == ()

    def test_of_an_entry_the_changes_that_are_undone_are_named(self) -> None:
        notebook = three()
        changes = notebook.apply([Replace("bbbb", "mine"), Move("bbbb", 0), Delete("cccc")])
        notebook.apply([Replace("bbbb", "theirs")])
        undone = notebook.plan([entry(1, changes)])
        assert undone.entries == {1: list(changes[1:])}

    def test_content_that_the_journal_did_not_keep_is_reported(self) -> None:
        notebook = three()
        changes = notebook.apply([Replace("aaaa", "mine")])
        note = "The outputs of @aaaa were too large to keep."
        assert notebook.plan([entry(1, changes, note)]).left == (note,)


class TestCellsWithoutIds:
    def notebook(self) -> ListNotebook:
        return ListNotebook([code("same"), code("same", ran=True), markdown("c")], ids=False)

    @pytest.mark.parametrize(
        "operation",
        [
            Insert(code("new"), index=1),
            Replace("cell-1", "x"),
            Delete("cell-0"),
            Move("cell-2", 0),
            SetOutputs("cell-1"),
            Replace("cell-2", "x", type="code"),
        ],
        ids=repr,
    )
    def test_each_operation_is_taken_back_by_its_place(self, operation: Operation) -> None:
        notebook = self.notebook()
        before = notebook.cells
        assert undo(notebook, notebook.apply([operation])) == []
        assert notebook.cells == before

    def test_once_something_stays_the_numbers_of_the_rest_are_not_trusted(self) -> None:
        notebook = self.notebook()
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
def new_cells(draw: st.DrawFn) -> CellContent:
    kind = draw(st.sampled_from(CELL_TYPES))
    ran = kind == "code" and draw(st.booleans())
    return CellContent(
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
    return ListNotebook(named, ids=ids, neighbours=draw(st.booleans()))


def edit(data: st.DataObject, cells: list[tuple[str | None, CellContent]]) -> Operation:
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
    """A deleted cell that comes back at its position is no sign that the moved one beside it has stayed."""
    assert "it was moved since" in left[0]
    assert not notebook.ids
    assert {"move", "delete"} <= {change.action for change in changes}


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
            CellContent("code", "x", cell_id, {}, data.draw(counts), data.draw(outputs))
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
            patch.setattr(stored_changes, "MAX_OUTPUTS", 100)
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
