"""What an edit changed, as lines."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from tk_ai_extension.workspace.editing import line_diff


def test_a_line_that_looks_like_the_name_of_a_file_stays_in_the_diff() -> None:
    assert line_diff("-- a\nb", "++ c\nb").split("\n") == [
        "@@ -1,2 +1,2 @@",
        "--- a",
        "+++ c",
        " b",
    ]
    assert line_diff("a", "a") == ""


_SOURCES = st.text("a\n\r\f\x85\u2028", max_size=4)


@given(before=_SOURCES, after=_SOURCES)
@example(before="a\r", after="a\n")
@example(before="a", after="a\n")
def test_every_change_is_in_the_diff(before: str, after: str) -> None:
    diff = line_diff(before, after)
    assert (diff == "") == (before == after)
