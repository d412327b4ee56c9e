"""The meter of the event loop sees what holds it, also as the last thing of the block."""

from __future__ import annotations

import asyncio
import re
import threading
import time

import pytest

from tk_ai_extension.testing.faults import LoopMeter

STEPS = "a" * 27 + "b"


def backtrack() -> float:
    """Holds the GIL; returns its processor time."""
    began = time.thread_time()
    assert not re.match("(a|aa)+$", STEPS)
    return time.thread_time() - began


async def turns() -> None:
    """Lets the meter beat."""
    meter = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(2 * LoopMeter.INTERVAL, meter.set_result, None)
    await meter


@pytest.mark.proves("exec:no-block")
@pytest.mark.parametrize("is_last", [False, True], ids=["between", "at the end"])
@pytest.mark.parametrize("in_thread", [False, True], ids=["on the loop", "in a thread"])
async def test_code_that_holds_the_interpreter_is_seen(*, in_thread: bool, is_last: bool) -> None:
    with LoopMeter() as meter:
        await turns()
        held = await asyncio.to_thread(backtrack) if in_thread else backtrack()
        if not is_last:
            await turns()
    assert meter.longest > held / 2
    assert meter.stall > held / 2


async def test_a_lock_on_the_loop_is_a_stall_but_none_of_the_process() -> None:
    with LoopMeter() as meter:
        await turns()
        threading.Event().wait(0.1)
    assert meter.stall > 0.05
    assert meter.longest < 0.05


async def test_python_code_in_a_thread_and_idle_time_do_not_count() -> None:
    def compute() -> float:
        began = time.thread_time()
        while time.thread_time() < began + 0.1:
            pass
        return time.thread_time() - began

    with LoopMeter() as meter:
        held = await asyncio.to_thread(compute)
    assert meter.longest < held
