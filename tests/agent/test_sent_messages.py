"""A message that is sent again begins no second turn, and nothing of its chat is kept for that."""

from __future__ import annotations

import asyncio
import gc
import random
import weakref

import pytest

from tests.agent.conftest import USER, Talk
from tests.agent.test_backend_contract import echo, talk
from tk_ai_extension.agent.requests import parse_request
from tk_ai_extension.agent.sent_messages import StartedTurn
from tk_ai_extension.model.errors import ToolError

__all__ = ["echo", "talk"]

pytestmark = pytest.mark.proves("rest:chat")


async def begin(talk: Talk, number: int) -> StartedTurn:
    request = parse_request({"message": f"Message {number}."})
    return await talk.chats.sent.once(USER, f"{number}", lambda: talk.chats.send(USER, request))


@pytest.mark.parametrize("seed", range(3))
async def test_a_message_that_is_sent_again_at_any_moment_begins_one_turn(
    talk: Talk, seed: int
) -> None:
    """Some senders read all, some one event, as the panel, and some end before their turn begins."""
    randomness = random.Random(seed)

    async def sender(number: int) -> tuple[int, str]:
        begun = await begin(talk, number)
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


async def test_the_log_of_a_chat_is_not_kept_for_its_messages(talk: Talk) -> None:
    begun = await begin(talk, 1)
    first = await anext(begun.events)
    log = weakref.ref(talk.chats._live[begun.chat].log)
    del begun
    again = await begin(talk, 1)
    assert [event async for event in again.events][-1].kind == "done"
    await talk.chats.delete(USER, first.data["chat"])
    del again
    gc.collect()
    # The stream that was left is closed in a task.
    await talk.chats.list(USER)
    gc.collect()
    assert log() is None
    with pytest.raises(ToolError):
        await anext((await begin(talk, 1)).events)
