"""Chats that pages follow while no turn runs."""

from __future__ import annotations

import asyncio

import pytest

from tests.agent.conftest import USER, Open
from tests.agent.test_chats_of_two_servers import released
from tests.support.scripted_model import Answer


@pytest.mark.proves("ext:chat-shared")
async def test_a_follower_does_not_hide_the_other_servers_turn_from_the_agent(
    open_chats: Open,
) -> None:
    here, there = open_chats(), open_chats()
    here.model.add(Answer.of("Hello, Ada."), Answer.of("Ada."), Answer.of("You asked twice."))
    chat = (await here.say("I am Ada."))[0].data["chat"]
    await released(chat, watcher=there)
    await there.say("Who am I?", chat=chat)
    await released(chat, watcher=here)
    # A page connects again, and the log catches up.
    await here.chats.follow(USER, chat)
    await here.say("What did I ask?", chat=chat)
    assert "Who am I?" in str(here.model.requests[-1].body["messages"])


@pytest.mark.proves("ext:chat")
async def test_followers_of_an_idle_chat_do_not_count_as_active_chats(open_chats: Open) -> None:
    talk = open_chats(max_live=1)
    talk.model.add(Answer.of("One."), Answer.of("Two."), Answer.of("Three."))
    first = await talk.say("Count.")
    chat = first[0].data["chat"]
    following = [await talk.chats.follow(USER, chat, first[-1].id) for _ in range(2)]
    waiting = [asyncio.ensure_future(anext(each)) for each in following]
    other = await talk.say("Count, too.")
    assert (other[0].data["chat"] != chat, other[-1].data["end"]) == (True, "done")
    assert (talk.chats.working, [each.done() for each in waiting]) == ([], [False, False])
    # Its session was closed for the other one, and they receive the next turn all the same.
    second = await talk.say("Continue.", chat=chat)
    async with asyncio.timeout(20):
        assert {event.id for event in await asyncio.gather(*waiting)} == {second[0].id}
