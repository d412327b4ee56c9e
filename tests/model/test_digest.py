"""Outputs as a model reads them."""

import json
import re

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from IPython.core.ultratb import AutoFormattedTB

from tk_ai_extension.model.digest import (
    digest,
    error_text,
    few_lines,
    sanitise,
    short_traceback,
    shorten,
    strip_ansi,
)


def display(data, kind="display_data"):
    return {"output_type": kind, "data": data, "metadata": {}}


def stream(text, name="stdout"):
    return {"output_type": "stream", "name": name, "text": text}


@pytest.mark.proves("out:types")
def test_each_output_type_gives_its_text_in_order():
    error = {"output_type": "error", "ename": "E", "evalue": "v", "traceback": []}
    outputs = [
        stream("one\n"),
        display({"text/plain": "two"}, "execute_result"),
        display({"text/plain": "three"}),
        error,
    ]
    assert digest(outputs).text == "one\ntwo\nthree\nE: v"


@pytest.mark.proves("out:mime")
@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"text/html": "<b>h</b>", "text/plain": "p", "text/markdown": "m"}, "m"),
        ({"text/html": "<b>h</b>", "text/plain": ["p\n", "q"]}, "p\nq"),
        ({"text/html": "<table><tr><td>1</td><td>2</td></tr></table>"}, "1 | 2"),
        ({"application/pdf": "x"}, "[application/pdf]"),
        ({}, ""),
    ],
)
def test_text_is_markdown_then_plain_then_html(data, text):
    assert digest([display(data)]).text == text


@pytest.mark.proves("out:structured")
def test_json_pictures_and_status_are_captured_apart():
    outputs = [
        display({"application/json": {"a": [1]}, "text/plain": "<JSON>"}),
        display({"image/png": "aGk=\n", "text/plain": "<Figure>"}),
        display({"image/jpeg": "aGk="}),
        display({"application/x-pisces-status": {"step": 1}}),
    ]
    found = digest(outputs)
    assert found.data == [{"a": [1]}]
    assert found.images == [("image/png", "aGk="), ("image/jpeg", "aGk=")]
    assert found.events == [("application/x-pisces-status", {"step": 1})]
    assert found.text == json.dumps({"a": [1]}) + "\n[image/png]\n[image/jpeg]"


@pytest.mark.proves("out:ansi")
def test_ansi_codes_are_stripped():
    coloured = "\x1b[31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x07"
    assert strip_ansi(coloured) == "red link"
    assert digest([stream(coloured)]).text == "red link"


@pytest.mark.proves("out:sanitize")
@given(st.text(st.characters(codec=None)))
def test_no_text_breaks_a_message(text):
    cleaned = sanitise(text)
    cleaned.encode("utf-8")
    assert not any(ord(c) < 32 and c not in "\n\t\r" for c in cleaned)


def test_a_long_text_is_cleaned_in_pieces_as_it_would_be_as_a_whole():
    line = "\x1b[1;31mred\x1b[0m \x00plain\r\n"
    assert sanitise(line * 40_000) == "red plain\n" * 40_000
    assert sanitise(line.replace("\r\n", " ") * 40_000) == "red plain " * 40_000


TRACEBACK = [
    "\x1b[31m---------------------------------------------------------------------------\x1b[39m",
    "\x1b[31mKeyError\x1b[39m                                  Traceback (most recent call last)",
    "Cell In[4], line 3\n      1 import lib\n      2 a = 1\n----> 3 lib.go(a)\n      4 b = 2",
    "File /lib/lib.py:10, in go(a)\n      8 def go(a):\n      9     x = 1\n---> 10     return inner(a)",
    "File /lib/lib.py:20, in inner(a)\n     18 def inner(a):\n---> 20     return {}[a]",
    "\x1b[31mKeyError\x1b[39m: 1",
]
ERROR = {"output_type": "error", "ename": "KeyError", "evalue": "1", "traceback": TRACEBACK}


def test_a_traceback_is_shortened_to_the_cell_and_the_last_frame():
    short = short_traceback(ERROR)
    assert "----> 3 lib.go(a)" in short
    assert "inner(a)" in short
    assert "return inner(a)" not in short
    assert "[1 more frames]" in short
    assert short.endswith("KeyError: 1")
    assert "\x1b" not in short
    found = digest([ERROR])
    assert found.hidden == error_text(ERROR)


def fall(depth: int, error: Exception) -> None:
    """Raise an error some calls further down."""
    if depth:
        fall(depth - 1, error)
    raise error


def raised(errors: list[Exception], depth: int, *, as_cause: bool) -> Exception:
    """Raise the last of the errors while the one before is handled, and so on; the last one."""
    *before, error = errors
    cause = raised(before, depth, as_cause=as_cause) if before else None
    try:
        try:
            if cause is not None:
                fall(0, cause)
        finally:
            error.__cause__ = cause if as_cause else None
            error.__suppress_context__ = False
            fall(depth, error)
    except type(error):
        return error
    raise AssertionError


WORDS = st.text("abc:>- /~", min_size=3, max_size=12).filter(str.strip)
NOTES = st.one_of(
    WORDS, st.sampled_from(["File /a.py:1, in b()", "Cell In[1], line 1", "---> 1 x"])
)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([ValueError, KeyError, LookupError]), WORDS, st.lists(NOTES, max_size=3)
        ),
        min_size=1,
        max_size=3,
    ),
    st.booleans(),
    st.integers(0, 4),
)
@settings(max_examples=15, phases=[Phase.generate])
def test_a_short_traceback_has_every_message_and_note_and_few_frames(chain, as_cause, depth):
    errors = [kind(message) for kind, message, _ in chain]
    for error, (_, _, notes) in zip(errors, chain, strict=True):
        for note in notes:
            error.add_note(note)
    error = raised(errors, depth, as_cause=as_cause)
    formatted = AutoFormattedTB(mode="Context").structured_traceback(
        type(error), error, error.__traceback__, tb_offset=0
    )
    output = {
        "output_type": "error",
        "ename": type(error).__name__,
        "evalue": str(error),
        "traceback": formatted,
    }
    short = short_traceback(output)
    for kind, message, notes in chain:
        shown = repr(message) if kind is KeyError else message
        assert "\n".join([f"{kind.__name__}: {shown}", *notes]) in short
    assert len(re.findall(r"-> \d+ +raise error", short)) == len(chain)
    # One more where IPython says which frames it skips.
    assert len(re.findall(r"-> \d+ +fall\(depth", short)) <= short.count("skipping similar frames")
    assert "(most recent call last)" not in short


@pytest.mark.proves("out:truncate")
def test_a_long_text_keeps_head_and_tail_and_says_how_much_is_left_out():
    text = "".join(f"line {number} äöü\n" for number in range(5_000))
    short = shorten(text, 2_000, pointer="; read_output abc")
    assert short.truncated
    assert short.text.startswith("line 0 ")
    assert short.text.endswith("line 4999 äöü\n")
    assert "left out of 5,000; read_output abc]" in short.text
    assert short.total_lines == 5_000
    assert short.total_bytes == len(text.encode())
    assert len(short.text) < 2_200


@given(st.text(), st.integers(10, 200))
def test_a_shortened_text_stays_within_its_budget(text, budget):
    short = shorten(text, budget)
    assert short.truncated == (len(text) > budget)
    assert len(short.text) <= budget + 120
    if not short.truncated:
        assert short.text == text


def test_few_lines_show_the_ends():
    text = "\n".join(str(number) for number in range(100))
    assert few_lines(text).split("\n")[6] == "[… 90 more lines]"
    assert few_lines("x" * 300, width=100).endswith("[… 200 more]")


def test_lines_that_stand_for_pictures_and_values_are_known_from_those_that_were_printed() -> None:
    picture = {"output_type": "display_data", "data": {"image/png": "aGk=", "text/plain": "<F>"}}
    value = {"output_type": "execute_result", "data": {"application/json": {"a": [1]}}}
    printed = {"output_type": "stream", "name": "stdout", "text": "[image/png]\nDrawn:\n"}
    found = digest([printed, picture, value, printed])
    lines = found.text.split("\n")
    assert [lines[place] for place in found.placeholders] == ["[image/png]", '{"a": [1]}']
    assert found.placeholders == [2, 3]
