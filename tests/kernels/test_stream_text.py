"""A stream's text is what JupyterLab would show."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tk_ai_extension.kernels.terminal import TerminalText

pieces = st.lists(st.text(alphabet="ab\n\r\b", max_size=12), max_size=12)


def as_jupyterlab_does(index: int, new: str, text: str) -> tuple[str, int]:
    """`Private.processText` of JupyterLab 4.6's ``packages/outputarea/src/model.ts``, translated."""
    for char in new:
        if char == "\b":
            if index > 0 and text[index - 1] != "\n":
                text = text[: index - 1] + text[index + 1 :]
                index -= 1
        elif char == "\r":
            while index > 0 and text[index - 1] != "\n":
                index -= 1
        elif char == "\n":
            text += "\n"
            index = len(text)
        else:
            text = text[:index] + char + text[index + 1 :]
            index += 1
    return text, index


@pytest.mark.proves("exec:display-update")
@given(pieces)
def test_any_text_is_shown_as_jupyterlab_shows_it(chunks: list[str]) -> None:
    stream, expected, cursor = TerminalText(), "", 0
    for chunk in chunks:
        stream.write(chunk)
        expected, cursor = as_jupyterlab_does(cursor, chunk, expected)
        assert stream.value == expected
        assert stream.length == len(expected)


@pytest.mark.proves("out:stream")
@given(st.lists(st.tuples(st.text(alphabet="ab\n\r\b", max_size=8), st.booleans()), max_size=16))
def test_drained_edits_give_the_text(chunks: list[tuple[str, bool]]) -> None:
    stream, text = TerminalText(), ""
    for chunk, drain in [*chunks, ("", True)]:
        stream.write(chunk)
        if drain and (edit := stream.drain()) is not None:
            start, new = edit
            text = text[:start] + new
    assert text == stream.value
    assert stream.drain() is None


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("50%\r100%", "100%"),
        ("100%\r50%", "50%%"),
        ("a\rb\nc", "b\nc"),
        ("abc\rX\ny", "Xbc\ny"),
        ("one\ntwo\b\b\b\b\b", "one\n"),
        ("\b\r", ""),
        ("\r\n\r\n", "\n\n"),
    ],
)
def test_examples(printed: str, shown: str) -> None:
    stream = TerminalText()
    stream.write(printed)
    assert stream.value == shown
