"""Two servers of one root folder share their chats: a turn is one server's, and none is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.agent.conftest import USER, Open, Talk, kinds, of_kind
from tests.agent.test_stop_turn import WITHIN, goes_on, rest
from tests.support.scripted_model import Answer, Held
from tk_ai_extension.agent.events import Began, Sent
from tk_ai_extension.agent.log import ChatLog
from tk_ai_extension.agent.sent_messages import StartedTurn
from tk_ai_extension.agent.transcripts import Transcripts
from tk_ai_extension.model.agent_errors import ChatElsewhere


async def counting(talk: Talk) -> tuple[StartedTurn, Held]:
    """A turn that goes on until it is released."""
    held = Held(Answer.of("One, two, three, four."), after=4)
    talk.model.add(held)
    begun = await talk.send("Count.")
    async with asyncio.timeout(WITHIN):
        await held.held.wait()
    return begun, held


@pytest.mark.proves("ext:chat-shared")
async def test_the_other_servers_turn_goes_on_and_nobody_sends_into_it(open_chats: Open) -> None:
    here, there = open_chats(), open_chats()
    begun, held = await counting(here)
    ((_, busy),) = await there.chats.list(USER)
    assert busy
    for deed in (
        there.send("And me?", chat=begun.chat),
        there.chats.stop(USER, begun.chat),
        there.chats.delete(USER, begun.chat),
    ):
        with pytest.raises(ChatElsewhere) as refused:
            await deed
        assert refused.value.retryable
    # Neither reading nor following ends what is not one's own.
    await there.chats.events(USER, begun.chat)
    await there.chats.follow(USER, begun.chat)
    held.go_on.set()
    events = await rest(begun)
    assert of_kind(events, "error") == []
    assert events[-1].data == {"end": "done", "text": "One, two, three, four."}


@pytest.mark.real_cli
@pytest.mark.proves("ext:chat-shared")
async def test_each_goes_on_where_the_other_ended(open_chats: Open) -> None:
    here, there = open_chats(), open_chats()
    here.model.add(Answer.of("Hello, Ada."), Answer.of("Ada."), Answer.of("You asked twice."))
    first = await here.say("I am Ada.")
    chat = first[0].data["chat"]
    await released(chat, watcher=there)
    second = await there.say("Who am I?", chat=chat)
    await released(chat, watcher=here)
    third = await here.say("What did I ask?", chat=chat)
    assert third[-1].data == {"end": "done", "text": "You asked twice."}
    assert [events[0].id for events in (second, third)] == [first[-1].id + 1, second[-1].id + 1]
    asked = str(here.model.requests[-1].body["messages"])
    assert "I am Ada." in asked
    assert "Who am I?" in asked
    kept = await here.chats.events(USER, chat)
    assert kinds(kept) == kinds(first) + kinds(second) + kinds(third)
    assert [event.id for event in kept if event.kind == "done"] == [
        events[-1].id for events in (first, second, third)
    ]


async def released(chat: str, watcher: Talk) -> None:
    """Waits until a turn is no other server's any more: its end is published a moment before."""
    async with asyncio.timeout(WITHIN):
        while chat in await watcher.services.transcripts.elsewhere():
            continue


@pytest.mark.proves("ext:chat-shared")
async def test_a_message_that_is_stopped_before_its_turn_leaves_the_chat_to_the_other(
    open_chats: Open,
) -> None:
    here, there = open_chats(), open_chats()
    here.model.add(*[Answer.of("Yes.")] * 3)
    chat = (await here.say("Are you there?"))[0].data["chat"]
    # Whether the model was asked by then or not.
    await here.send("And now?", chat=chat)
    await here.chats.stop(USER, chat)
    await released(chat, watcher=there)
    assert (await there.say("And now?", chat=chat))[-1].data["text"] == "Yes."


async def test_a_follower_receives_the_other_servers_turn_when_its_own_comes(
    open_chats: Open,
) -> None:
    here, there = open_chats(), open_chats()
    here.model.add(Answer.of("One."), Answer.of("Two."), Answer.of("Three."))
    first = await here.say("Count.")
    chat = first[0].data["chat"]
    following = await here.chats.follow(USER, chat, first[-1].id)
    await released(chat, watcher=there)
    await there.say("Continue.", chat=chat)
    await released(chat, watcher=here)
    await here.say("Continue.", chat=chat)
    texts: list[str] = []
    async with asyncio.timeout(WITHIN):
        while len(texts) < 2:
            event = await anext(following)
            if event.kind == "done":
                texts.append(event.data["text"])
    assert texts == ["Two.", "Three."]


@pytest.mark.proves("ext:chat-shared", "fault:server-stop")
async def test_every_turn_of_a_killed_server_gets_an_end(open_chats: Open, tmp_path: Path) -> None:
    """The one that went on, and the one that waited behind it."""
    killed = Transcripts(tmp_path / "chats" / "chats.sqlite")
    kept = await killed.create(USER, "chat", "Count.", None)
    await killed.claim(kept)
    log = ChatLog("chat", killed, 0)
    log.add("first", Sent("chat", "Count.", None, "ask", "m"))
    log.add("first", Began())
    log.add("second", Sent("chat", "Continue.", None, "ask", "m", waits=1))
    await log.save()
    # It dies: nothing is released, and its lock is gone.
    await killed.close()

    talk = open_chats()
    ((_, busy),) = await talk.chats.list(USER)
    assert not busy
    following = await talk.chats.follow(USER, "chat")
    async with asyncio.timeout(WITHIN):
        seen = [await anext(following) for _ in range(7)]
    assert [(event.turn, event.kind) for event in seen[3:]] == [
        ("first", "error"),
        ("first", "done"),
        ("second", "error"),
        ("second", "done"),
    ]
    assert seen[3].data["error"]["code"] == "agent_died"
    await goes_on(talk, "chat")
