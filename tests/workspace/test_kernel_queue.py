"""One at a time on each kernel, in turns between callers, whatever goes wrong."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    error: list[Exception] = field(default_factory=list[Exception])


class Kernel:
    """Drives turns on one kernel step by step, and notes the order in which they began."""

    def __init__(self, queue: FairQueue, kernel_id: str = "k") -> None:
        self.queue = queue
        self.kernel_id = kernel_id
        self.began: asyncio.Queue[Turn] = asyncio.Queue()
        self.holding = 0

    async def ask(self, caller: str) -> Turn:
        """A caller asks for a turn; returns once it holds it or waits."""
        asked, end = asyncio.Event(), asyncio.Event()
        turn: Turn

        async def run() -> None:
            # No await lies between this and the queue: the code that awaits it finds the turn queued.
            asked.set()
            async with self.queue.turn(self.kernel_id, caller):
                self.holding += 1
                assert self.holding == 1, "two turns at once"
                self.began.put_nowait(turn)
                try:
                    await end.wait()
                    if turn.error:
                        raise turn.error[0]
                finally:
                    self.holding -= 1

        turn = Turn(caller, asyncio.create_task(run()), asked, end)
        await asyncio.wait_for(asked.wait(), DEADLINE)
        return turn

    async def next(self) -> Turn:
        """The turn that begins next."""
        return await asyncio.wait_for(self.began.get(), DEADLINE)

    async def finish(self, turn: Turn, error: Exception | None = None) -> None:
        """Ends a turn's body, with an error where given."""
        turn.error += [error] if error else []
        turn.end.set()
        await asyncio.wait({turn.task}, timeout=DEADLINE)
        assert turn.task.done()
        assert turn.task.exception() is error

    async def serves_the_next(self) -> None:
        """A caller that asks now has the turn at once: nobody holds it or waits."""
        turn = await self.ask("next")
        assert await self.next() is turn
        await self.finish(turn)

    async def cancel(self, turn: Turn) -> None:
        """Cancels a turn, wherever it is."""
        turn.task.cancel()
        await asyncio.wait({turn.task}, timeout=DEADLINE)
        assert turn.task.cancelled()


async def order(kernel: Kernel, running: Turn, count: int) -> str:
    """The callers of the next turns, each ended as soon as it began."""
    callers = ""
    for _ in range(count):
        await kernel.finish(running)
        running = await kernel.next()
        callers += running.caller
    await kernel.finish(running)
    return callers


@pytest.mark.proves("kernel:queue")
async def test_one_callers_requests_run_one_after_the_other_in_their_order() -> None:
    kernel = Kernel(FairQueue())
    first = await kernel.ask("a")
    later = [await kernel.ask("a") for _ in range(3)]
    running = await kernel.next()
    assert running is first
    for turn in later:
        await kernel.finish(running)
        running = await kernel.next()
        assert running is turn
    await kernel.finish(running)
    await kernel.serves_the_next()


@pytest.mark.proves("kernel:queue", "exec:concurrent")
async def test_callers_take_turns_however_much_one_of_them_queues() -> None:
    kernel = Kernel(FairQueue())
    for caller in "aaaaabbc":
        await kernel.ask(caller)
    running = await kernel.next()
    assert await order(kernel, running, 7) == "abcabaa"


@pytest.mark.proves("kernel:queue")
async def test_kernels_do_not_wait_for_each_other() -> None:
    queue = FairQueue()
    one, two = Kernel(queue, "one"), Kernel(queue, "two")
    await one.ask("a")
    await two.ask("a")
    first, second = await one.next(), await two.next()
    await one.finish(first)
    await two.finish(second)


@pytest.mark.proves("exec:concurrent")
async def test_an_error_in_one_turn_drops_nobody_elses() -> None:
    kernel = Kernel(FairQueue())
    await kernel.ask("a")
    for caller in "bab":
        await kernel.ask(caller)
    await kernel.finish(await kernel.next(), RuntimeError("a's cell failed"))
    assert await order(kernel, await kernel.next(), 2) == "ab"


@pytest.mark.proves("exec:concurrent")
async def test_a_cancelled_wait_leaves_the_queue_and_moves_nobody() -> None:
    kernel = Kernel(FairQueue())
    await kernel.ask("a")
    running = await kernel.next()
    cancelled = await kernel.ask("b")
    await kernel.ask("c")
    await kernel.ask("b")
    await kernel.cancel(cancelled)
    assert await order(kernel, running, 2) == "bc"


async def test_a_cancelled_turn_passes_the_turn_on() -> None:
    kernel = Kernel(FairQueue())
    await kernel.ask("a")
    await kernel.ask("b")
    await kernel.cancel(await kernel.next())
    running = await kernel.next()
    assert running.caller == "b"
    await kernel.finish(running)


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


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ask", "ask", "finish", "fail", "cancel"]),
        st.sampled_from("abcd"),
        st.integers(0, 50),
    ),
    max_size=40,
)


@pytest.mark.proves("kernel:queue", "exec:concurrent")
@settings(deadline=None)
@given(STEPS)
def test_nobody_waits_for_more_than_one_turn_of_each_other_caller_per_own_turn(
    steps: list[tuple[str, str, int]],
) -> None:
    asyncio.run(_drive(steps))


async def _drive(steps: list[tuple[str, str, int]]) -> None:
    kernel = Kernel(FairQueue())
    running: Turn | None = None
    waiting: list[Turn] = []
    # For each that waits: how many of its caller's waited before it, and whose turns began since.
    before: dict[int, int] = {}
    since: dict[int, Counter[str]] = {}

    async def begun() -> Turn | None:
        if not waiting:
            await kernel.serves_the_next()
            return None
        turn = await kernel.next()
        waiting.remove(turn)
        others = since.pop(id(turn))
        own = others.pop(turn.caller, 0)
        assert own <= before[id(turn)], "a caller's own turns are out of order"
        assert all(count <= own + 1 for count in others.values()), "overtaken more than once a turn"
        for counts in since.values():
            counts[turn.caller] += 1
        return turn

    for step, caller, number in steps:
        if step == "ask":
            turn = await kernel.ask(caller)
            if running is None:
                running = await kernel.next()
                assert running is turn
            else:
                before[id(turn)] = sum(other.caller == caller for other in waiting)
                since[id(turn)] = Counter()
                waiting.append(turn)
        elif step == "cancel" and waiting:
            turn = waiting.pop(number % len(waiting))
            since.pop(id(turn))
            await kernel.cancel(turn)
        elif running is not None and step in ("finish", "fail"):
            await kernel.finish(running, RuntimeError("failed") if step == "fail" else None)
            running = await begun()
        assert kernel.began.empty(), "a turn began that nobody has the right to"
    while running is not None:
        await kernel.finish(running)
        running = await begun()
    assert not waiting
