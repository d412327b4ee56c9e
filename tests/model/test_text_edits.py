"""The small edits that turn one text into another."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tk_ai_extension.model.diffs import text_edits


@given(st.text("ab\nü😀", max_size=30), st.text("ab\nü😀", max_size=30))
def test_edits_turn_one_text_into_the_other(old: str, new: str) -> None:
    edits = text_edits(old, new)
    text = old
    for edit in reversed(edits):
        text = text[: edit.start] + edit.new + text[edit.end :]
    assert text == new
    assert all(a.end <= b.start for a, b in pairwise(edits))


def test_long_texts_are_compared_by_lines() -> None:
    old = "".join(f"line {n}\n" for n in range(600))
    new = old.replace("line 7\n", "seven\n").replace("line 599\n", "last\n")
    edits = text_edits(old, new)
    assert {old.count("\n", 0, edit.start) for edit in edits} == {7, 599}
    assert sum(len(edit.new) for edit in edits) < 10
