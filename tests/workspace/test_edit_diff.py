"""What an edit changed, as lines."""

from __future__ import annotations

from tk_ai_extension.workspace.editing import line_diff


def test_a_line_that_looks_like_the_name_of_a_file_stays_in_the_diff() -> None:
    assert line_diff("-- a\nb", "++ c\nb").split("\n") == [
        "@@ -1,2 +1,2 @@",
        "--- a",
        "+++ c",
        " b",
    ]
    assert line_diff("a", "a") == ""
