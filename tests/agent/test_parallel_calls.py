"""Calls of one turn at the same time: each change is published once, whichever call ends first."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import permutations
from random import Random
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.agent.conftest import USER
from tests.agent.test_stop_turn import Recorded
from tests.harness import ToolHarness
from tk_ai_extension.agent.requests import Message, parse_request
from tk_ai_extension.agent.turns import Turn
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.cells import CellContent
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.model.operations import Change
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.results import Result
from tk_ai_extension.workspace.permission_requests import Effect

if TYPE_CHECKING:
    from tk_ai_extension.agent.log import ChatLog

WITHIN = 30.0
STEPS = 3
"""The steps of each call: its start, the intent in the journal, and the change with the result."""
SAMPLE = 60


class Written(Result):
    """The result of a call."""

    def as_text(self) -> str:
        return "Written."


class SteppedCall:
    """A call that takes its steps when the test says so."""

    effect: Effect = "WRITE"

    def __init__(self, cell: str, is_failing: bool) -> None:
        self.cell = cell
        self.is_failing = is_failing
        self.may_intend, self.has_intended = asyncio.Event(), asyncio.Event()
        self.may_end = asyncio.Event()

    async def carry_out(self, context: ToolContext) -> Result:
        await self.may_intend.wait()
        journal = context.workspace.journal
        entry = await journal.intend(context.caller, "a.ipynb", "insert_cell", "inserts a cell")
        self.has_intended.set()
        await self.may_end.wait()
        change = Change("insert", self.cell, 0, after=CellContent("code", self.cell))
        await journal.done(entry, (change,))
        if self.is_failing:
            raise InvalidArguments("It failed after its change.")
        return Written()


class SteppedTools:
    """The calls by the names of their tools."""

    def __init__(self, calls: Sequence[SteppedCall]) -> None:
        self.calls = {each.cell: each for each in calls}

    def get(self, name: str) -> SteppedCall:
        return self.calls[name]

    async def call(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> Result:
        assert not arguments
        return await self.calls[name].carry_out(context)


async def carried_out(turn: Turn, calls: Sequence[SteppedCall], order: Sequence[int]) -> None:
    """Make the calls; each number in the order lets that call take its next step."""
    tools = SteppedTools(calls)
    taken = [0] * len(calls)
    running: dict[int, asyncio.Task[Any]] = {}
    for number in order:
        call = calls[number]
        match taken[number]:
            case 0:
                work = turn.call(None, call.cell, {}, registry=tools)
                running[number] = asyncio.create_task(work)
            case 1:
                call.may_intend.set()
                await call.has_intended.wait()
            case _:
                call.may_end.set()
                await running[number]
        taken[number] += 1
        await asyncio.sleep(0)


def orders(count: int) -> list[tuple[int, ...]]:
    """All orders of the steps of two calls; for more, some."""
    numbers = [number for number in range(count) for _ in range(STEPS)]
    if count == 2:
        return sorted(set(permutations(numbers)))
    randomness = Random(count)
    return [tuple(randomness.sample(numbers, len(numbers))) for _ in range(SAMPLE)]


@pytest.mark.proves("ui:stopped-call")
@pytest.mark.parametrize("count", [2, 4])
async def test_each_change_of_parallel_calls_is_published_once(
    harness: ToolHarness, count: int
) -> None:
    randomness = Random(count)
    request = parse_request({"message": "Go on.", "mode": "auto"})
    for number, order in enumerate(orders(count)):
        caller = Caller(USER, "chat", "chat", mode="auto", turn=f"turn-{count}-{number}")
        log = Recorded()
        turn = Turn(
            caller.turn or "",
            Message(request, "a.ipynb", "model"),
            caller,
            harness.workspace,
            harness.registry,
            cast("ChatLog", log),
        )
        calls = [SteppedCall(f"cell{each}", randomness.random() < 0.3) for each in range(count)]
        async with asyncio.timeout(WITHIN):
            await carried_out(turn, calls, order)
            await turn.settle()
        published = sorted(each.cell for each in log.of("cell_change"))
        assert published == [each.cell for each in calls], order
