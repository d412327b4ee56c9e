"""In a pipe, `nb read` prints a text that a program can read, or says what is missing."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Nb
from tests.harness import cells_in

LONGEST = 2_500_000
"""Characters of the longest source."""
VIEWS = ("editable", "reading", "raw")


@pytest.mark.proves("text:round-trip")
@pytest.mark.parametrize("view", VIEWS)
def test_without_a_budget_the_text_is_whole(nb: Nb, view: str) -> None:
    nb.notebook("a.ipynb", f"x = '{'x' * LONGEST}'", "y = 1", "z = 2")
    ended = nb("read", "a.ipynb", "--view", view)
    assert cells_in(view, ended.out) == 3
    assert "x" * LONGEST in ended.out
    assert ended.err == ""


@pytest.mark.proves("text:round-trip")
def test_a_text_that_cannot_be_whole_is_refused(nb: Nb) -> None:
    nb.notebook("a.ipynb", f"x = '{'x' * 10_000}'", "y = 1")
    ended = nb("read", "a.ipynb", "--view", "raw", "--budget", "1000", status=2)
    assert ended.out == ""
    assert "--budget" in ended.err
    ended = nb("read", "a.ipynb", "--view", "raw", "--budget", "1000", "--cells", "1")
    assert cells_in("raw", ended.out) == 1
