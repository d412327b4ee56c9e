"""A caller may change the source that it has read, and no other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.cells import Cell, source_hash
from tk_ai_extension.workspace.seen import Seen

A = Caller("ada", "session-a")
B = Caller("ada", "session-b")
OTHER = Caller("bob", "session-a")
NO_KEY = Caller("ada")

pytestmark = pytest.mark.proves("doc:conflict")


def test_a_cell_that_was_never_read_has_no_expectation() -> None:
    assert Seen().expectation(A, "n.ipynb", "318a") is None


def test_the_last_source_that_was_seen_is_the_one_expected() -> None:
    seen = Seen()
    seen.mark(A, "n.ipynb", "318a", source_hash("x = 1"))
    seen.mark(A, "n.ipynb", "318a", source_hash("x = 2"))
    assert seen.expectation(A, "n.ipynb", "318a") == source_hash("x = 2")
    assert len(seen) == 1


def test_cells_are_marked_by_their_keys_and_hashes() -> None:
    seen = Seen()
    cells = [Cell(0, "318a", "code", "x = 1", id="318a"), Cell(1, "cell-1", "raw", "text")]
    seen.mark_cells(A, "n.ipynb", cells)
    assert [seen.expectation(A, "n.ipynb", cell.key) for cell in cells] == [c.hash for c in cells]


@pytest.mark.parametrize("stranger", [B, OTHER, NO_KEY])
def test_one_caller_has_not_seen_what_another_has(stranger: Caller) -> None:
    seen = Seen()
    seen.mark(A, "n.ipynb", "318a", "hash")
    assert seen.expectation(stranger, "n.ipynb", "318a") is None
    assert seen.expectation(A, "other.ipynb", "318a") is None


def test_nothing_is_remembered_of_a_caller_without_a_key() -> None:
    seen = Seen()
    seen.mark(NO_KEY, "n.ipynb", "318a", "hash")
    assert seen.expectation(NO_KEY, "n.ipynb", "318a") is None
    assert len(seen) == 0


def test_marks_follow_a_renamed_notebook_and_a_renamed_folder() -> None:
    seen = Seen()
    seen.mark(A, "x/n.ipynb", "318a", "mine")
    seen.mark(A, "y/n.ipynb", "318a", "overwritten")
    seen.mark(B, "xy/n.ipynb", "318a", "neighbour")
    seen.renamed("x", "y")
    assert seen.expectation(A, "x/n.ipynb", "318a") is None
    assert seen.expectation(A, "y/n.ipynb", "318a") == "mine"
    assert seen.expectation(B, "xy/n.ipynb", "318a") == "neighbour"
    assert len(seen) == 2


def test_a_session_that_ended_leaves_nothing_behind() -> None:
    seen = Seen()
    seen.mark(A, "n.ipynb", "318a", "hash")
    seen.mark(B, "n.ipynb", "318a", "hash")
    seen.forget(A)
    assert seen.expectation(A, "n.ipynb", "318a") is None
    assert seen.expectation(B, "n.ipynb", "318a") == "hash"
    assert len(seen) == 1


@pytest.mark.proves("threat:exhaustion")
def test_over_the_bound_the_notebook_used_least_recently_is_forgotten() -> None:
    seen = Seen(max_cells=4)
    for path in ("old.ipynb", "used.ipynb"):
        seen.mark(A, path, "1", "h")
        seen.mark(A, path, "2", "h")
    assert seen.expectation(A, "old.ipynb", "1") == "h"
    seen.mark(A, "new.ipynb", "1", "h")
    assert seen.expectation(A, "used.ipynb", "1") is None
    assert seen.expectation(A, "old.ipynb", "1") == "h"
    assert len(seen) == 3


@pytest.mark.proves("threat:exhaustion")
def test_one_notebook_larger_than_the_bound_keeps_what_was_seen_last() -> None:
    seen = Seen(max_cells=3)
    for number in range(10):
        seen.mark(A, "n.ipynb", str(number), "h")
    assert len(seen) == 3
    assert [n for n in range(10) if seen.expectation(A, "n.ipynb", str(n))] == [7, 8, 9]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["mark", "renamed", "forget", "ask"]),
            st.sampled_from([A, B, OTHER]),
            st.sampled_from(["a", "b", "a/c", "b/c"]),
            st.sampled_from("123"),
        ),
        max_size=40,
    )
)
def test_forgetting_never_makes_a_hash_up(steps: list[tuple[str, Caller, str, str]]) -> None:
    seen = Seen(max_cells=5)
    marked: set[tuple[str, str, str]] = set()
    for number, (step, caller, path, cell) in enumerate(steps):
        match step:
            case "mark":
                seen.mark(caller, path, cell, f"{caller.identity} {cell} {number}")
                marked.add((caller.identity, cell, str(number)))
            case "renamed":
                seen.renamed(path, "d")
            case "forget":
                seen.forget(caller)
            case _:
                found = seen.expectation(caller, path, cell)
                assert found is None or tuple(found.split(" ")) in marked
        assert len(seen) <= 5
    for caller in (A, B, OTHER):
        seen.forget(caller)
    assert len(seen) == 0
