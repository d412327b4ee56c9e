"""A stream's text is what JupyterLab would show."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tk_ai_extension.kernels.collector import TerminalText

pieces = st.lists(st.text(alphabet="ab\n\r\b", max_size=12), max_size=12)

runs = st.lists(st.tuples(st.sampled_from("abcdef\n\r\b"), st.integers(1, 40)), max_size=12).map(
    lambda parts: "".join(char * count for char, count in parts)
)
"""Texts with long pieces, and with many moves of the cursor at once."""


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


def by_copies_of_the_line(line: str, cursor: int, text: str) -> tuple[list[str], str, int]:
    """The lines that a text ends, the last line and its cursor, with a copy of the line for each piece."""
    lines: list[str] = []
    for piece in re.findall(r"[\n\r\b]|[^\n\r\b]+", text):
        if piece == "\b":
            if cursor > 0:
                line = line[: cursor - 1] + line[cursor + 1 :]
                cursor -= 1
        elif piece == "\r":
            cursor = 0
        elif piece == "\n":
            lines.append(line)
            line, cursor = "", 0
        else:
            line = line[:cursor] + piece + line[cursor + len(piece) :]
            cursor += len(piece)
    return lines, line, cursor


@pytest.mark.proves("out:stream")
@given(st.lists(st.tuples(runs, st.booleans()), max_size=16))
def test_a_long_line_is_as_if_it_was_copied_at_each_piece(chunks: list[tuple[str, bool]]) -> None:
    stream, drained = TerminalText(), ""
    lines, line, cursor = list[str](), "", 0
    for chunk, drain in chunks:
        stream.write(chunk)
        more, line, cursor = by_copies_of_the_line(line, cursor, chunk)
        lines += more
        expected = "\n".join([*lines, line])
        assert stream.length == len(expected)
        if drain and (edit := stream.drain()) is not None:
            drained = drained[: edit[0]] + edit[1]
        if drain:
            assert drained == expected
            assert stream.drain() is None
    assert stream.value == "\n".join([*lines, line])


@pytest.mark.proves("fault:flood")
@pytest.mark.parametrize("piece", ["\b", "\rab", "a\b", "\rab\b", "\r\b"])
@pytest.mark.parametrize("in_one_message", [True, False])
def test_the_cost_does_not_grow_with_the_last_line(piece: str, in_one_message: bool) -> None:
    stream, count = TerminalText(), 20_000
    stream.write("x" * 8_000_000)
    began = time.process_time()
    for text in [piece * count] if in_one_message else [piece] * count:
        stream.write(text)
    # A copy of the line for each piece takes 16 seconds or more.
    assert time.process_time() - began < 4


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
