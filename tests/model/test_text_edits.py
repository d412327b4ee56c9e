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
