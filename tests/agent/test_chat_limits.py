"""The load of a chat on a server is bounded, and errors name the bounds."""

from __future__ import annotations

import asyncio

import pytest

from tests.agent.conftest import USER, Open, Talk, rest
from tests.support.scripted_model import Answer, Held
from tk_ai_extension.agent import chat as chat_module
from tk_ai_extension.agent import chats as chats_module
from tk_ai_extension.agent import store
from tk_ai_extension.model.errors import LimitReached


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
