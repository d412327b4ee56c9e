"""Undo leaves a cell where somebody has put it since, and puts none into another notebook."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from tests.workspace.list_notebook import ListNotebook
from tests.workspace.test_undo_plan import code, edits, entry, new_cells, undo
from tk_ai_extension.model.cells import CellContent
from tk_ai_extension.model.operations import Delete, Insert, Move, Operation, Replace
from tk_ai_extension.workspace.change_encoding import decode_changes, encode_changes

pytestmark = pytest.mark.proves("edit:history")


@st.composite
def notebooks(draw: st.DrawFn, prefix: str, least: int = 0) -> ListNotebook:
    """Notebooks with ids of their own and without a blank cell."""
    cells = draw(st.lists(new_cells(), min_size=least, max_size=7))
    named = [
        replace(cell, id=f"{prefix}-{number}", source=cell.source or "y")
        for number, cell in enumerate(cells)
    ]
    return ListNotebook(named)


def above(notebook: ListNotebook, cell: str, of: set[str | None]) -> str | None:
    """The nearest of some cells above a cell; None at the top."""
    ids = [each.id for each in notebook.cells]
    return next((each for each in reversed(ids[: ids.index(cell)]) if each in of), None)


@pytest.mark.proves("doc:conflict")
@settings(max_examples=40)
@given(notebook=notebooks("cell", least=4), data=st.data())
def test_a_cell_stays_where_somebody_has_put_it_since(
    notebook: ListNotebook, data: st.DataObject
) -> None:
    """Its place is the gap between cells that nobody else has put anywhere."""
    entries = edits(data, notebook, 3)
    changes = [change for one in entries for change in one.changes]
    put = {change.cell for change in changes if change.action in ("insert", "delete", "move")}
    inserted = {change.cell for change in changes if change.action == "insert"}
    kept = {cell.id for cell in notebook.cells} - put
    candidates = sorted(
        {change.cell for change in changes if change.action == "move"}
        & {cell.id for cell in notebook.cells if cell.id is not None} - inserted
    )
    assume(candidates)
    cell = data.draw(st.sampled_from(candidates))
    before = above(notebook, cell, kept)
    notebook.apply([Move(cell, data.draw(st.integers(0, len(notebook.cells) - 1)))])
    now = above(notebook, cell, kept)
    undone = notebook.plan(entries[::-1])
    notebook.apply(undone.operations)
    event(f"moved elsewhere: {now != before}")
    if now != before:
        assert above(notebook, cell, kept) == now
        assert any(f"@{cell}" in sentence for sentence in undone.left)


@settings(max_examples=40)
@given(notebook=notebooks("cell"), other=notebooks("other", least=1), data=st.data())
def test_nothing_is_undone_in_another_notebook(
    notebook: ListNotebook, other: ListNotebook, data: st.DataObject
) -> None:
    entries = [
        replace(one, changes=decode_changes(encode_changes(one.changes)[0]))
        for one in edits(data, notebook, 3)
    ]
    changes = [change for one in entries for change in one.changes]
    # Of a notebook that was left without cells nothing is known.
    assume(all(change.witnesses for change in changes if change.action == "delete"))
    event(f"deletes: {any(change.action == 'delete' for change in changes)}")
    assert other.plan(entries[::-1]).operations == ()


@pytest.mark.parametrize(
    ("since", "moved"),
    [
        (Move("xxxx", 3), True),
        (Move("xxxx", 0), True),
        (Insert(code("n", "nnnn"), index=1), False),
        (Insert(code("n", "nnnn"), index=2), False),
        (Delete("aaaa"), False),
        (Delete("bbbb"), False),
        (Move("aaaa", 3), False),
    ],
    ids=repr,
)
def test_a_cell_counts_as_moved_if_it_is_beside_none_of_the_cells_it_was_put_between(
    since: Operation, moved: bool
) -> None:
    notebook = ListNotebook([code(name, name * 4) for name in "abcx"])
    changes = notebook.apply([Move("xxxx", 1)])
    notebook.apply([since])
    now = notebook.cells
    left = undo(notebook, changes)
    assert bool(left) == moved
    assert (notebook.cells == now) == moved


@pytest.mark.parametrize("ids", [True, False])
def test_all_cells_come_back_into_a_notebook_that_was_left_without_cells(ids: bool) -> None:
    notebook = ListNotebook(
        [CellContent("code", name, name * 4 if ids else None) for name in "abc"], ids=ids
    )
    before = notebook.cells
    changes = notebook.apply([Delete(cell.key) for cell in notebook.snapshot().cells])
    # JupyterLab adds an empty cell.
    notebook.apply([Insert(code("", "eeee"), index=0)])
    notebook.apply(notebook.plan([entry(1, changes)]).operations)
    assert [cell for cell in notebook.cells if cell.source] == before


@pytest.mark.parametrize("ids", [True, False])
def test_a_cell_comes_back_with_the_edits_of_those_that_stayed(ids: bool) -> None:
    """Cells without ids are recognised by their sources, which are undone before."""
    notebook = ListNotebook([code(name, name * 4 if ids else None) for name in "ab"], ids=ids)
    first, second = (cell.key for cell in notebook.snapshot().cells)
    deleted = entry(1, notebook.apply([Delete(second)]))
    edited = entry(2, notebook.apply([Replace(first, "changed")]))
    undone = notebook.plan([edited, deleted])
    notebook.apply(undone.operations)
    assert undone.left == ()
    assert [cell.source for cell in notebook.cells] == ["a", "b"]


@pytest.mark.parametrize("ids", [True, False])
def test_a_cell_comes_back_if_any_other_cell_of_the_notebook_is_left(ids: bool) -> None:
    names = [f"n{number}" for number in range(40)]
    notebook = ListNotebook([code(name, name if ids else None) for name in names], ids=ids)
    key = notebook.snapshot().cells[20].key
    changes = notebook.apply([Delete(key)])
    (witnesses,) = [change.witnesses for change in changes]
    assert witnesses
    assert len(witnesses) <= 8
    for number in reversed(range(3, 39)):
        notebook.apply([Delete(notebook.snapshot().cells[number].key)])
    assert undo(notebook, changes) == []
    assert "n20" in [cell.source for cell in notebook.cells]


@pytest.mark.parametrize("ids", [True, False])
def test_cells_come_back_after_one_that_took_their_place_and_was_edited(ids: bool) -> None:
    """The only cell that shows which notebook it is goes with the undo itself."""
    before = [code("a", "a"), code("b", "b")]
    notebook = ListNotebook(before if ids else [replace(each, id=None) for each in before], ids=ids)
    names = ("a", "b") if ids else ("cell-0", "cell-1")
    cells = list(notebook.cells)
    first = notebook.apply([*map(Delete, names), Insert(CellContent("code", "c"), index=0)])
    name = notebook.snapshot().cells[0].key
    second = notebook.apply([Replace(name, "c2")])
    plan = notebook.plan([entry(2, second), entry(1, first)])
    notebook.apply(plan.operations)
    assert plan.left == ()
    assert notebook.cells == cells
