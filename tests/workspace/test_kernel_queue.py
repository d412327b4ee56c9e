"""One at a time on each kernel, in turns between callers, whatever goes wrong."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from tk_ai_extension.model.errors import LimitReached
from tk_ai_extension.workspace.runs import FairQueue

DEADLINE = 5.0


@dataclass
class Turn:
    """A caller's turn as a task: when it asked, when it began, and how to end it."""

    caller: str
    task: asyncio.Task[None]
    asked: asyncio.Event
    end: asyncio.Event


class Kernel:
    """Drives turns on one kernel step by step, and notes the order in which they began."""

    def __init__(self, queue: FairQueue) -> None:
        self.queue = queue
        self.began: asyncio.Queue[Turn] = asyncio.Queue()
        self.holding = 0

    async def ask(self, caller: str) -> Turn:
        """A caller asks for a turn; returns once it holds it or waits."""
        asked, end = asyncio.Event(), asyncio.Event()
        turn: Turn

        async def run() -> None:
            # No await lies between this and the queue: the code that awaits it finds the turn queued.
            asked.set()
            async with self.queue.turn("k", caller):
                self.holding += 1
                assert self.holding == 1, "two turns at once"
                self.began.put_nowait(turn)
                await end.wait()
                self.holding -= 1

        turn = Turn(caller, asyncio.create_task(run()), asked, end)
        await asyncio.wait_for(asked.wait(), DEADLINE)
        return turn

    async def next(self) -> Turn:
        """The turn that begins next."""
        return await asyncio.wait_for(self.began.get(), DEADLINE)

    async def finish(self, turn: Turn) -> None:
        """Ends a turn's body."""
        turn.end.set()
        await asyncio.wait_for(turn.task, DEADLINE)

    async def serves_the_next(self) -> None:
        """A caller that asks now has the turn at once: nobody holds it or waits."""
        turn = await self.ask("next")
        assert await self.next() is turn
        await self.finish(turn)


async def order(kernel: Kernel, running: Turn, count: int) -> str:
    """The callers of the next turns, each ended as soon as it began."""
    callers = ""
    for _ in range(count):
        await kernel.finish(running)
        running = await kernel.next()
        callers += running.caller
    await kernel.finish(running)
    return callers


@pytest.mark.proves("kernel:queue", "exec:concurrent")
async def test_callers_take_turns_however_much_one_of_them_queues() -> None:
    kernel = Kernel(FairQueue())
    for caller in "aaaaabbc":
        await kernel.ask(caller)
    running = await kernel.next()
    assert await order(kernel, running, 7) == "abcabaa"


async def test_a_turn_that_comes_in_the_moment_of_its_cancellation_is_passed_on() -> None:
    kernel = Kernel(FairQueue())
    began, end = asyncio.Event(), asyncio.Event()

    async def hold_then_cancel() -> None:
        async with kernel.queue.turn("k", "a"):
            began.set()
            await end.wait()
        # The turn was granted to b just now, who has not yet woken up.
        second.task.cancel()

    holding = asyncio.create_task(hold_then_cancel())
    await asyncio.wait_for(began.wait(), DEADLINE)
    second, third = await kernel.ask("b"), await kernel.ask("c")
    end.set()
    assert await kernel.next() is third
    await asyncio.wait({holding, second.task}, timeout=DEADLINE)
    assert second.task.cancelled()
    await kernel.finish(third)
    await kernel.serves_the_next()


async def test_a_wait_cancelled_in_the_moment_before_its_turn_costs_nobody_theirs() -> None:
    kernel = Kernel(FairQueue())
    await kernel.ask("a")
    running = await kernel.next()
    cancelled = await kernel.ask("b")
    await kernel.ask("b")
    await kernel.ask("c")
    # Both before anybody wakes up: the turn finds b's first wait cancelled, but not yet gone.
    running.end.set()
    cancelled.task.cancel()
    first = await kernel.next()
    assert first.caller == "b"
    assert await order(kernel, first, 1) == "c"
    assert cancelled.task.cancelled()


@pytest.mark.proves("threat:exhaustion", "kernel:queue")
async def test_at_the_bounds_a_request_is_refused_and_the_others_keep_their_places() -> None:
    kernel = Kernel(FairQueue(max_waiting=4, max_waiting_per_caller=2))
    for caller in "aaab":
        await kernel.ask(caller)
    with pytest.raises(LimitReached, match="of your executions"):
        async with kernel.queue.turn("k", "a"):
            pytest.fail("a third waiting turn of one caller")
    await kernel.ask("c")
    with pytest.raises(LimitReached, match="4 executions are already waiting"):
        async with kernel.queue.turn("k", "d"):
            pytest.fail("a fifth waiting turn")
    assert await order(kernel, await kernel.next(), 4) == "abca"
    await kernel.serves_the_next()
