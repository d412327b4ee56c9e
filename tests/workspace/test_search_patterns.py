"""A pattern from a caller is refused, stopped or carried out, and holds nobody up."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.support.faults import LoopMeter
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.workspace.timed_patterns import TimedPattern

CATASTROPHIC = "(a|aa)+$"
BAIT = "a" * 60 + "b"


@pytest.mark.proves("threat:exhaustion")
@pytest.mark.parametrize("text", ["(?R)", "a(?0)?", "((?1))", "(?P<x>a(?&x))", r"\\(?R)"])
def test_a_pattern_that_contains_itself_is_refused(text: str) -> None:
    with pytest.raises(InvalidArguments, match="recursive group"):
        TimedPattern(text)


@pytest.mark.proves("threat:exhaustion")
def test_a_pattern_that_never_ends_is_stopped() -> None:
    began = time.monotonic()
    with pytest.raises(InvalidArguments, match=r"longer than 0\.2 s"):
        TimedPattern(CATASTROPHIC, seconds=0.2).found_in(BAIT)
    assert time.monotonic() - began < 5


@pytest.mark.proves("threat:exhaustion", "exec:no-block")
async def test_the_event_loop_goes_on_while_a_pattern_searches() -> None:
    with LoopMeter() as meter, pytest.raises(InvalidArguments):
        await asyncio.to_thread(TimedPattern(CATASTROPHIC, seconds=1.0).found_in, BAIT)
    assert meter.longest < 0.5
