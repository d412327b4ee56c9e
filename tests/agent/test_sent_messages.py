"""A message that is sent again begins no second turn."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tests.agent.conftest import USER, Talk, talk_with
from tests.agent.test_backend_contract import echo, talk
from tests.harness import ToolHarness
from tests.support.echo_agent import EchoBackend

__all__ = ["echo", "talk"]

pytestmark = pytest.mark.proves("rest:chat")


@pytest.mark.parametrize("seed", range(3))
async def test_a_message_that_is_sent_again_at_any_moment_begins_one_turn(
    talk: Talk, seed: int
) -> None:
    """Some senders read all, some one event, as the panel, and some end before their turn begins."""
    randomness = random.Random(seed)

    async def sender(number: int) -> tuple[int, str]:
        begun = await talk.send(f"Message {number}.", id=f"{number}")
        async for event in begun.events:
            assert event.turn == begun.turn
            if randomness.random() < 0.3:
                break
        return number, begun.turn

    senders = [asyncio.create_task(sender(randomness.randrange(4))) for _ in range(16)]
    for each in randomness.sample(senders, 4):
        each.cancel()
    found = await asyncio.gather(*senders, return_exceptions=True)
    answered = {each for each in found if not isinstance(each, BaseException)}
    assert len(answered) == len({number for number, _ in answered})
    assert len(await talk.chats.list(USER)) <= 4


@pytest.mark.proves("threat:other-user")
async def test_its_turn_is_found_after_a_restart_and_it_is_its_users_own(
    harness: ToolHarness, tmp_path: Path
) -> None:
    before = talk_with(harness, EchoBackend(), tmp_path)
    first = await before.say("Hello.", id="1")
    await before.close()
    again = talk_with(harness, EchoBackend(), tmp_path)
    assert [event.turn for event in await again.say("Hello.", id="1")] == [
        event.turn for event in first
    ]
    others = await again.say("Hello.", "bob", id="1")
    assert others[0].turn != first[0].turn
    await again.close()
