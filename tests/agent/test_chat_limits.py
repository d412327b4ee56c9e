"""The load of a chat on a server is bounded, and errors name the bounds."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.agent.conftest import USER, Open, Talk
from tests.agent.test_stop_turn import rest
from tests.support.scripted_model import Answer, Held, MessagesRequest
from tk_ai_extension.agent import chat as chat_module
from tk_ai_extension.agent import chats as chats_module
from tk_ai_extension.agent import store
from tk_ai_extension.model.agent_errors import ChatNotFound
from tk_ai_extension.model.errors import DiskFull, LimitReached


@pytest.mark.proves("threat:exhaustion")
async def test_so_many_chats_are_answered_at_once_and_idle_ones_make_room(open_chats: Open) -> None:
    talk = open_chats(max_live=1)
    held = Held(Answer.of("One, two."))
    talk.model.add(held)
    first = await talk.send("Count.")
    async with asyncio.timeout(20):
        await held.held.wait()
    with pytest.raises(LimitReached) as refused:
        await talk.send("And me?")
    assert refused.value.retryable
    held.go_on.set()
    assert (await rest(first))[-1].data["end"] == "done"
    talk.model.add(Answer.of("Hello."))
    assert (await talk.say("And me?"))[-1].data["text"] == "Hello."


@pytest.mark.proves("threat:exhaustion")
async def test_so_many_messages_wait_in_a_chat(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_module, "MAX_TURNS", 1)
    held = Held(Answer.of("One, two."))
    talk.model.add(held)
    first = await talk.send("Count.")
    async with asyncio.timeout(20):
        await held.held.wait()
    await talk.send("And?", chat=first.chat)
    with pytest.raises(LimitReached):
        await talk.send("And then?", chat=first.chat)


@pytest.mark.proves("threat:exhaustion")
async def test_so_many_chats_of_a_user_are_kept_and_the_oldest_goes(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MAX_CHATS", 2)
    talk.model.add(*(Answer.of("Yes.") for _ in range(3)))
    for title in ("One", "Two", "Three"):
        await talk.say(title)
        await talk.chats._background.join()
    assert [chat.title for chat, _ in await talk.chats.list(USER)] == ["Three", "Two"]


@pytest.mark.proves("threat:exhaustion")
@pytest.mark.parametrize("seed", range(3))
async def test_new_chats_at_the_limit_are_answered_once_and_no_chat_with_a_turn_goes(
    talk: Talk, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Several at once, some deleted meanwhile, on a disk that is full now and then."""
    randomness = random.Random(seed)
    monkeypatch.setattr(store, "MAX_CHATS", 2)
    held = Held(Answer.of("One, two."), after=1)
    talk.model.add(held)
    busy = await talk.send("Count.")
    async with asyncio.timeout(20):
        await held.held.wait()

    def failing(does: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def fails_at_times(*args: Any) -> Any:
            if randomness.random() < 0.2:
                raise DiskFull("No disk space.")
            return await does(*args)

        return fails_at_times

    kept = talk.services.store
    for name in ("over", "delete"):
        monkeypatch.setattr(kept, name, failing(getattr(kept, name)))
    talk.model.add(*(Answer.of("Yes.") for _ in range(12)))
    for _ in range(3):
        sent = [asyncio.create_task(talk.send("And me?")) for _ in range(4)]
        for chat, _ in await talk.chats.list(USER):
            if chat.id != busy.chat and randomness.random() < 0.3:
                with suppress(ChatNotFound, DiskFull):
                    await talk.chats.delete(USER, chat.id)
        begun = await asyncio.gather(*sent)
        assert len({each.chat for each in begun}) == 4
        assert busy.chat in [chat.id for chat, _ in await talk.chats.list(USER)]
    held.go_on.set()
    assert (await rest(busy))[-1].data["end"] == "done"


@pytest.mark.proves("threat:exhaustion")
async def test_a_chat_takes_no_message_beyond_its_bytes(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk.model.add(Answer.of("x" * 3_000), Answer.of("Yes."))
    first = await talk.send("Write.")
    await rest(first)
    monkeypatch.setattr(chats_module, "MAX_CHAT", 1_000)
    with pytest.raises(LimitReached, match="more than") as refused:
        await talk.send("And now?", chat=first.chat)
    assert "another chat" in refused.value.hint
    assert (await talk.say("A new one."))[-1].data["text"] == "Yes."


async def test_several_chats_are_answered_at_once_each_with_its_own(talk: Talk) -> None:
    def echo(request: MessagesRequest) -> Answer:
        return Answer.of(request.prompts[-1].splitlines()[-1])

    talk.model.add(*[echo] * 4)
    messages = [f"I am number {number}." for number in range(4)]
    async with asyncio.timeout(60):
        answered = await asyncio.gather(*(talk.say(text) for text in messages))
    assert [events[-1].data["text"] for events in answered] == messages
    assert len({events[0].data["chat"] for events in answered}) == 4
