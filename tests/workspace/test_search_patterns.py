"""A pattern from a caller is refused, stopped or carried out, and holds nobody up."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.support.faults import LoopMeter
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.workspace.patterns import MAX_PATTERN, Pattern

CATASTROPHIC = "(a|aa)+$"
BAIT = "a" * 60 + "b"


def test_a_pattern_is_found_anywhere_in_a_line() -> None:
    pattern = Pattern(r"err(or|no)\b")
    assert pattern.found_in("an error here")
    assert not pattern.found_in("errors")


@pytest.mark.parametrize("text", ["(", "[a", "a{2,1}", "(?P<x>a)(?P=y)", "*"])
def test_an_invalid_pattern_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(InvalidArguments, match="not a valid regular expression") as error:
        Pattern(text)
    assert "Escape" in error.value.hint


@pytest.mark.proves("threat:exhaustion")
@pytest.mark.parametrize("text", ["(?R)", "a(?0)?", "((?1))", "(?P<x>a(?&x))", r"\\(?R)"])
def test_a_pattern_that_contains_itself_is_refused(text: str) -> None:
    with pytest.raises(InvalidArguments, match="recursive group"):
        Pattern(text)


def test_text_that_looks_like_recursion_is_allowed() -> None:
    assert Pattern(r"\(\?R\)").found_in("(?R)")
    assert Pattern("[(?R)]").found_in("R")
    assert Pattern(r"(?:a)(?P<x>b)(?P=x)").found_in("abb")


def test_a_pattern_has_a_bounded_length() -> None:
    Pattern("a" * MAX_PATTERN)
    with pytest.raises(InvalidArguments):
        Pattern("a" * (MAX_PATTERN + 1))


@pytest.mark.proves("threat:exhaustion")
def test_a_pattern_that_never_ends_is_stopped() -> None:
    began = time.monotonic()
    with pytest.raises(InvalidArguments, match=r"longer than 0\.2 s"):
        Pattern(CATASTROPHIC, seconds=0.2).found_in(BAIT)
    assert time.monotonic() - began < 5


@pytest.mark.proves("threat:exhaustion")
def test_the_bound_is_on_all_searches_together() -> None:
    pattern = Pattern(CATASTROPHIC, seconds=0.2)

    def search() -> None:
        for _ in range(100_000):
            pattern.found_in("a" * 24 + "b")

    began = time.monotonic()
    with pytest.raises(InvalidArguments, match="longer than"):
        search()
    assert time.monotonic() - began < 5


@pytest.mark.proves("threat:exhaustion", "exec:no-block")
async def test_the_event_loop_goes_on_while_a_pattern_searches() -> None:
    with LoopMeter() as meter, pytest.raises(InvalidArguments):
        await asyncio.to_thread(Pattern(CATASTROPHIC, seconds=1.0).found_in, BAIT)
    assert meter.longest < 0.5
