"""The net changes of several changes: each cell from before the first to after the last one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workspace.list_notebook import ListNotebook
from tests.workspace.test_undo_plan import code, entry, three
from tk_ai_extension.model.cells import CellContent
from tk_ai_extension.model.operations import Delete, Insert, Move, Operation, Replace, SetOutputs
from tk_ai_extension.workspace.journal import JournalEntry
from tk_ai_extension.workspace.undo import MAX_SOURCE, net_changes

pytestmark = pytest.mark.proves("edit:history")


def _operation(data: st.DataObject, notebook: ListNotebook, number: int) -> Operation:
    """Any operation that the notebook can take now; few texts, so that they come back."""
    keys = [str(cell.id) for cell in notebook.cells]
    text = data.draw(st.sampled_from("abx"))
    kinds = ["insert", *(["replace", "delete", "move", "type", "outputs"] if keys else [])]
    kind = data.draw(st.sampled_from(kinds))
    if kind == "insert":
        return Insert(code(text, f"new{number}"), index=data.draw(st.integers(0, len(keys))))
    key = data.draw(st.sampled_from(keys))
    if kind == "outputs" and next(c for c in notebook.cells if c.id == key).type != "code":
        kind = "replace"
    match kind:
        case "replace":
            return Replace(key, text)
        case "type":
            return Replace(key, text, type=data.draw(st.sampled_from(["code", "markdown"])))
        case "delete":
            return Delete(key)
        case "move":
            return Move(key, data.draw(st.integers(0, len(keys) - 1)))
        case _:
            return SetOutputs(key)


@given(st.data())
def test_they_are_what_a_comparison_of_the_notebooks_says(data: st.DataObject) -> None:
    notebook = three()
    before: dict[str | None, CellContent] = {cell.id: cell for cell in notebook.cells}
    entries: list[JournalEntry] = []
    for number in range(data.draw(st.integers(0, 8))):
        changes = notebook.apply([_operation(data, notebook, number)])
        entries.insert(0, entry(number, changes))
    after: dict[str | None, CellContent] = {cell.id: cell for cell in notebook.cells}
    found = {each.cell: each for each in net_changes(entries)}

    assert {cell for cell, each in found.items() if each.action == "insert"} == (
        after.keys() - before.keys()
    )
    assert {cell for cell, each in found.items() if each.action == "delete"} == (
        before.keys() - after.keys()
    )
    edited = {
        cell
        for cell in before.keys() & after.keys()
        if (before[cell].source, before[cell].type) != (after[cell].source, after[cell].type)
    }
    assert {cell for cell, each in found.items() if each.action == "replace"} >= edited
    for cell, each in found.items():
        assert each.before == (before[cell].source if cell in before else "")
        assert each.after == (after[cell].source if cell in after else "")
        assert each.action != "replace" or before[cell] != after[cell]


def test_a_source_that_is_too_long_is_left_out() -> None:
    notebook = three()
    changes = notebook.apply([Replace("aaaa", "x" * (MAX_SOURCE + 1))])
    (found,) = net_changes([entry(1, changes)])
    assert (found.truncated, found.before, found.after) == (True, "", "")
