"""What the checker says of histories made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tk_ai_extension.model.cells import CellContent, source_hash
from tk_ai_extension.model.operations import Action, Change
from tk_ai_extension.testing.concurrency.history import (
    Answer,
    Call,
    CellState,
    Entry,
    PersonEdit,
    State,
)
from tk_ai_extension.testing.concurrency.linearizability import Verdict, linearize
from tk_ai_extension.testing.concurrency.model import events_of

START: State = (CellState("first", "code", "a = 1"), CellState("second", "code", "b = 1"))
TYPED: State = (CellState("first", "code", "a = 1# typed"), START[1])
OVERWRITTEN: State = (CellState("first", "code", "a = 2"), START[1])

OVERWRITE: dict[str, Any] = {"action": "overwrite", "cell": "first", "source": "a = 2"}
INSERT: dict[str, Any] = {"action": "insert", "source": "new", "index": 1}


def change(action: Action, cell: str, index: int, before: str | None, after: str | None) -> Change:
    def content(source: str | None) -> CellContent | None:
        return None if source is None else CellContent("code", source, cell)

    previous = "first" if index == 1 and action == "delete" else None
    return Change(
        action,
        cell,
        index,
        content(before),
        content(after),
        index_before=None if action == "insert" else index,
        previous=previous,
    )


MADE = (change("replace", "first", 0, "a = 1", "a = 2"), change("insert", "new", 1, None, "new"))
INSERT_BACK = change("delete", "new", 1, "new", None)
OVERWRITE_BACK = change("replace", "first", 0, "a = 2", "a = 1")


def entry(kind: str, *changes: Change) -> Entry:
    return Entry(1, 0.0, "one", None, "edit_cells", kind, "done", changes)


def failed_batch(*back: Change, left: list[str], began: int = 1, ended: int = 2) -> Call:
    """A batch whose run could not go on, since somebody deleted a cell that waited for its turn."""
    call = Call(
        "a", "edit_cells", {"operations": [OVERWRITE, INSERT], "run": True}, {"first": "a = 1"}
    )
    call.began, call.ended = began, ended
    call.answer = Answer({}, "cell_not_found", {"left": left}, "It did not run.")
    call.entries = [entry("change", *MADE), *([entry("undo", *back)] if back else [])]
    return call


def person(kind: Any, key: str, began: int, ended: int, text: str = "") -> Call:
    call = Call("person", "person", {}, began=began, ended=ended)
    call.edit = PersonEdit(kind, key, 0, text)
    return call


def check(end: State, *calls: Call) -> Verdict:
    return linearize(START, [event for call in calls for event in events_of(call)], end)


DELETED = ["Cell @new was not reverted: it was deleted."]


@pytest.mark.proves("edit:checker-finds")
def test_a_change_that_remains_after_an_error_is_a_violation() -> None:
    deleted = person("delete", "new", 1, 2)
    verdict = check(OVERWRITTEN, failed_batch(left=[]), deleted)
    assert verdict.order is None
    assert any("and its change remains" in reason for reason in verdict.refused)


@pytest.mark.proves("edit:linearizable")
def test_a_change_that_was_undone_is_none() -> None:
    whole = failed_batch(INSERT_BACK, OVERWRITE_BACK, left=[])
    assert check(START, whole).order is not None
    deleted = person("delete", "new", 1, 2)
    assert check(START, failed_batch(OVERWRITE_BACK, left=DELETED), deleted).order is not None


@pytest.mark.proves("edit:checker-finds")
def test_what_is_undone_is_what_it_was_before_unless_the_answer_says_otherwise() -> None:
    wrong = change("replace", "first", 0, "a = 2", "a = 3")
    end: State = (CellState("first", "code", "a = 3"), START[1])
    verdict = check(end, failed_batch(INSERT_BACK, wrong, left=[]))
    assert verdict.order is None
    assert any("first was undone, and is 'a = 3'" in reason for reason in verdict.refused)
    # Half of it is undone, and the answer says so, or does not.
    left = ["Cell @first was not reverted: it was edited since."]
    assert check(OVERWRITTEN, failed_batch(INSERT_BACK, left=left)).order is not None
    assert check(OVERWRITTEN, failed_batch(INSERT_BACK, left=[])).order is None


@pytest.mark.proves("edit:checker-finds")
def test_no_edit_that_was_refused_remains() -> None:
    call = Call("a", "overwrite_cell", dict(OVERWRITE), {"first": "a = 1"}, began=1, ended=2)
    shown = {"cell": "first", "source": "a = 1# typed"}
    call.answer = Answer({}, "conflict", {"cells": [shown]}, "It changed.")
    typed = person("type", "first", 1, 2, "# typed")
    assert check(TYPED, call, typed).order is not None
    call.entries = [entry("change", MADE[0])]
    end: State = (CellState("first", "code", "a = 2# typed"), START[1])
    verdict = check(end, call, typed)
    assert verdict.order is None
    assert any("failed with conflict" in reason for reason in verdict.refused)


@pytest.mark.proves("edit:checker-finds")
def test_an_error_names_a_new_cell_that_stays() -> None:
    call = Call("a", "insert_and_execute_cell", dict(INSERT), began=1, ended=2)
    call.entries = [entry("change", MADE[1])]
    end: State = (START[0], CellState("new", "code", "new"), START[1])
    call.answer = Answer({}, "limit_reached", {"cell": "new"}, "Too many are under way.")
    assert check(end, call).order is not None
    call.answer = Answer({}, "limit_reached", {}, "Too many are under way.")
    assert check(end, call).order is None


@pytest.mark.proves("edit:checker-finds")
def test_the_report_has_what_stopped_an_order_that_is_not_the_longest() -> None:
    """The overwrite fits before the batch is undone, but for the source that was last seen."""
    operations = [{"action": "insert", "source": "new", "index": 0}]
    batch = Call("a", "edit_cells", {"operations": operations, "run": True}, began=1, ended=9)
    batch.answer = Answer({}, "cell_not_found", {"left": []}, "It did not run.")
    batch.entries = [
        entry("change", change("insert", "new", 0, None, "new")),
        entry("undo", change("delete", "new", 0, "new", None)),
    ]
    overwrite = Call("b", "overwrite_cell", dict(OVERWRITE), {"first": "a = 0"}, began=2, ended=8)
    version = source_hash("a = 2")[:8]
    overwrite.answer = Answer(
        {
            "total_cells": 3,
            "changes": [
                {"action": "replace", "cell": "first", "index": 1, "address": f"firs.{version}"}
            ],
        }
    )
    overwrite.entries = [entry("change", change("replace", "first", 1, "a = 1", "a = 2"))]
    verdict = check(OVERWRITTEN, batch, overwrite)
    assert verdict.order is None
    reasons = "\n".join(verdict.refused)
    assert "it is at 0, and in the journal at 1" in reasons
    assert "first was 'a = 1', and was last seen as 'a = 0'" in reasons
    assert "last seen: {'first': 'a = 0'}" in str(overwrite)
    overwrite.expected = {"first": "a = 1"}
    assert check(OVERWRITTEN, batch, overwrite).order is not None
