"""A caller may change the source that it has read, and merge into the revision that it has read."""

from __future__ import annotations

import pytest

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.cells import Cell, Snapshot, source_hash
from tk_ai_extension.notebooks.notebook import CELL, Revisions, Seen

A = Caller("ada", "session-a")
B = Caller("ada", "session-b")
OTHER = Caller("bob", "session-a")
NO_KEY = Caller("ada")


@pytest.mark.proves("doc:conflict")
def test_the_last_source_that_was_seen_is_the_one_expected() -> None:
    seen = Seen()
    assert seen.expectation(A, "318a") is None
    seen.mark(A, "318a", source_hash("x = 1"))
    seen.mark(A, "318a", source_hash("x = 2"))
    assert seen.expectation(A, "318a") == source_hash("x = 2")
    assert seen.of(A) == {"318a": source_hash("x = 2")}


@pytest.mark.proves("doc:conflict")
@pytest.mark.parametrize("stranger", [B, OTHER, NO_KEY])
def test_one_caller_has_not_seen_what_another_has(stranger: Caller) -> None:
    seen = Seen()
    seen.mark(A, "318a", "hash")
    seen.mark(NO_KEY, "318a", "hash")
    assert seen.expectation(stranger, "318a") is None
    assert len(seen) == 1
    seen.forget(A)
    assert seen.expectation(A, "318a") is None
    assert len(seen) == 0


@pytest.mark.proves("threat:exhaustion")
def test_over_the_bound_the_caller_who_acted_least_recently_is_forgotten() -> None:
    seen = Seen(max_cells=4)
    for caller in (A, B):
        seen.mark(caller, "1", "h")
        seen.mark(caller, "2", "h")
    assert seen.expectation(A, "1") == "h"
    seen.mark(OTHER, "1", "h")
    assert seen.expectation(B, "1") is None
    assert seen.expectation(A, "1") == "h"
    assert len(seen) == 3
    for number in range(10):
        seen.mark(OTHER, str(number), "h")
    assert [n for n in range(10) if seen.expectation(OTHER, str(n))] == [6, 7, 8, 9]


def notebook(source: str) -> Snapshot:
    return Snapshot("n.ipynb", (Cell(0, "318a", "code", source, id="318a"),))


@pytest.mark.proves("text:merge")
def test_a_revision_that_was_read_is_found_by_its_name_or_a_beginning_of_it() -> None:
    revisions = Revisions()
    read = notebook("x = 1")
    for each in (read, read, notebook("x = 2")):
        revisions.remember(each)
    assert len(revisions) == 2
    assert revisions.get(read.revision) is read
    assert revisions.get(read.revision[:6]) is read
    assert revisions.get(read.revision[:3]) is None
    assert revisions.get("") is None


@pytest.mark.proves("threat:exhaustion")
def test_over_the_bound_the_revision_used_least_recently_goes_but_never_the_newest() -> None:
    revisions = Revisions(max_characters=2 * CELL + 30)
    first, second, third = (notebook(f"{name:<10}") for name in "abc")
    revisions.remember(first)
    revisions.remember(second)
    assert revisions.get(first.revision) is first
    revisions.remember(third)
    assert revisions.get(second.revision) is None
    assert revisions.get(first.revision) is first
    large = notebook("x" * 3 * CELL)
    revisions.remember(large)
    assert revisions.get(large.revision) is large
    assert len(revisions) == 1
    assert revisions.characters == 4 * CELL
