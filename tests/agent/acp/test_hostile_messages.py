"""What an agent sends is a message of the protocol that can be stored and shown, or the end of it."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any, cast

import pytest
from acp.connection import Connection

from tk_ai_extension.agent.acp.permissions import outcome
from tk_ai_extension.agent.acp.transport import PipeTransport

pytestmark = pytest.mark.proves("fault:acp-agent")

VALUES = (
    *(None, True, 0, 1.5, 10**30, "a", "\ud83d", "\ud83d\ude00", float("nan"), float("-inf")),
    *([], [1], {}, {"code": 1}, {"\udead": [float("inf")]}, "quota"),
)


async def received(lines: list[bytes]) -> tuple[list[Any], list[str | None]]:
    """The messages that are taken of some lines, and the ends that are reported."""
    reader = asyncio.StreamReader(limit=1 << 20)
    reader.feed_data(b"".join(line + b"\n" for line in lines))
    reader.feed_eof()
    ends: list[str | None] = []

    async def ready() -> None:
        pass

    transport = PipeTransport(reader, cast("Any", None), ready, ends.append)
    found: list[Any] = []
    while (message := await transport.receive()) is not None:
        found.append(message)
    return found, ends


def hostile(randomness: random.Random) -> dict[str, Any]:
    names = ("id", "method", "params", "result", "error")
    return {name: randomness.choice(VALUES) for name in names if randomness.random() < 0.5}


@pytest.mark.parametrize("seed", range(10))
async def test_every_message_that_is_taken_can_be_written_and_ends_no_connection(
    seed: int,
) -> None:
    randomness = random.Random(seed)
    for _ in range(100):
        line = json.dumps(hostile(randomness)).encode()
        found, ends = await received([line])
        assert len(ends) == 1
        for message in found:
            json.dumps(message, ensure_ascii=False, allow_nan=False).encode()
            if message.get("method") is not None:
                continue
            answered = asyncio.get_running_loop().create_future()
            connection = cast("Any", Connection.__new__(Connection))
            connection._pending = {message.get("id"): answered}
            connection._process_message(message)
            if answered.done():
                answered.exception()


async def test_a_message_that_is_nested_too_deeply_is_none() -> None:
    for depth in (400, 900, 5_000, 200_000):
        line = b'{"id": 1, "result": ' + b"[" * depth + b"]" * depth + b"}"
        found, _ = await received([b'{"id": 0, "result": 1}', line])
        assert len(found) in (1, 2)
        json.dumps(found)


@pytest.mark.parametrize(
    ("offered", "allowed", "lasting", "chosen"),
    [
        (["allow_always", "reject_once"], True, False, None),
        (["allow_always", "reject_once"], True, True, "allow_always"),
        (["allow_always", "allow_once"], True, True, "allow_once"),
        (["allow_always", "allow_once"], True, False, "allow_once"),
        (["allow_once", "reject_always"], False, False, "reject_always"),
        (["allow_once"], False, False, None),
    ],
)
def test_nothing_of_the_agents_own_is_allowed_for_ever(
    offered: list[str], allowed: bool, lasting: bool, chosen: str | None
) -> None:
    options = [{"kind": kind, "optionId": kind} for kind in offered]
    answer = outcome(options, allowed=allowed, lasting=lasting)["outcome"]
    assert answer.get("optionId") == chosen
    assert (answer["outcome"] == "cancelled") == (chosen is None)
