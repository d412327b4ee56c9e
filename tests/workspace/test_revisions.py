"""What was read lately can be merged against."""

from __future__ import annotations

import pytest

from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.workspace.revisions import CELL, Revisions


def notebook(source: str, path: str = "n.ipynb") -> Snapshot:
    return Snapshot(path, (Cell(0, "318a", "code", source, id="318a"),))


@pytest.mark.proves("text:merge")
def test_a_revision_that_was_read_is_found_by_its_name_or_a_beginning_of_it() -> None:
    revisions = Revisions()
    read = notebook("x = 1")
    revisions.remember(read)
    revisions.remember(notebook("x = 2"))
    assert revisions.get("n.ipynb", read.revision) is read
    assert revisions.get("n.ipynb", read.revision[:6]) is read


def test_an_unknown_or_ambiguous_revision_is_none() -> None:
    revisions = Revisions()
    read = notebook("x = 1")
    revisions.remember(read)
    assert revisions.get("other.ipynb", read.revision) is None
    assert revisions.get("n.ipynb", read.revision[:3]) is None
    assert revisions.get("n.ipynb", "") is None
    assert revisions.get("n.ipynb", "ffff") is None or read.revision.startswith("ffff")


def test_reading_the_same_twice_takes_the_room_of_one() -> None:
    revisions = Revisions()
    revisions.remember(notebook("x = 1"))
    revisions.remember(notebook("x = 1"))
    assert len(revisions) == 1
    assert revisions.characters == len("x = 1") + CELL


@pytest.mark.proves("threat:exhaustion")
def test_over_the_bound_the_one_used_least_recently_goes() -> None:
    revisions = Revisions(max_characters=2 * CELL + 30)
    first, second, third = (notebook(f"{name:<10}") for name in "abc")
    revisions.remember(first)
    revisions.remember(second)
    assert revisions.get("n.ipynb", first.revision) is first
    revisions.remember(third)
    assert revisions.get("n.ipynb", second.revision) is None
    assert revisions.get("n.ipynb", first.revision) is first
    assert revisions.characters <= 2 * CELL + 30


@pytest.mark.proves("threat:exhaustion")
def test_the_newest_stays_however_large_so_that_it_can_be_written_back() -> None:
    revisions = Revisions(max_characters=10)
    revisions.remember(notebook("small"))
    large = notebook("x" * 1_000)
    revisions.remember(large)
    assert revisions.get("n.ipynb", large.revision) is large
    assert len(revisions) == 1


def test_revisions_follow_a_renamed_notebook() -> None:
    revisions = Revisions()
    read = notebook("x = 1", "x/n.ipynb")
    revisions.remember(read)
    revisions.remember(notebook("x = 1", "y/n.ipynb"))
    revisions.renamed("x", "y")
    found = revisions.get("y/n.ipynb", read.revision)
    assert found is not None
    assert found.path == "y/n.ipynb"
    assert found.cells == read.cells
    assert revisions.get("x/n.ipynb", read.revision) is None
    assert len(revisions) == 1
    assert revisions.characters == len("x = 1") + CELL
