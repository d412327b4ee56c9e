"""Outputs as a model reads them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tk_ai_extension.model.output_text import (
    digest,
    error_text,
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
