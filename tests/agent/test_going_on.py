"""A chat goes on: after a server, after an idle hour, after its process was killed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import islice

import psutil
import pytest

from tests.agent.conftest import USER, Open, Talk, kinds, of_kind
from tests.agent.test_stopping import goes_on, rest, until
from tests.desk import Desk
from tk_ai_extension.agent.events import Event
from tk_ai_extension.agent.messages_api import Exchange
from tk_ai_extension.model.errors import ChatNotFound
from tk_ai_extension.testing.scripted_model import (
    BROKEN,
    OVERLOADED,
    Answer,
    Cut,
    Hang,
    Held,
    ToolUse,
    rate_limited,
)


def processes() -> list[psutil.Process]:
    """The processes of Claude that this process has."""
    children = psutil.Process().children(recursive=True)
    return [child for child in children if child.name().startswith("claude")]


async def test_in_the_next_server_claude_knows_what_was_said(open_chats: Open) -> None:
    talk = open_chats()
    talk.model.add(Answer.of("Hello, Ada."), Answer.of("Ada."))
    first = await talk.say("I am Ada.")
    chat = first[0].data["chat"]
    await talk.close()
    again = open_chats()
    ((listed, busy),) = await again.chats.list(USER)
    assert (listed.id, listed.title, busy) == (chat, "I am Ada.", False)
    assert kinds(await again.chats.events(USER, chat)) == kinds(first)
    second = await again.say("Who am I?", chat=chat)
    assert second[-1].data["text"] == "Ada."
    assert second[0].id == first[-1].id + 1
    said = str(talk.model.requests[-1].body["messages"])
    assert "I am Ada." in said
    assert "Hello, Ada." in said


async def test_the_process_of_an_idle_chat_is_let_go_and_started_again(open_chats: Open) -> None:
    talk = open_chats(idle=0.05)
    talk.model.add(Answer.of("Hello."))
    events = await talk.say("Hello.")
    _, alive = await asyncio.to_thread(psutil.wait_procs, processes(), timeout=20)
    assert alive == []
    await goes_on(talk, events[0].data["chat"])
    assert "Hello." in str(talk.model.requests[-1].body["messages"])


async def test_killed_in_text_it_is_said_and_the_chat_goes_on(talk: Talk) -> None:
    talk.model.add(Held(Answer.of("One, two, three, four."), after=4))
    begun = await talk.send("Count.")
    await until(begun, "text")
    (process,) = processes()
    process.kill()
    events = await rest(begun)
    assert of_kind(events, "error")[0]["error"]["code"] == "agent_died"
    assert events[-1].data["end"] == "failed"
    await goes_on(talk, begun.chat)


async def test_killed_in_a_tool_its_cell_is_interrupted_and_the_chat_goes_on(
    talk: Talk, desk: Desk
) -> None:
    desk.write("long.ipynb", "import time\nprint('begun', flush=True)\ntime.sleep(600)")
    talk.model.add(Answer.of(ToolUse("execute_cell", {"cell": 0, "wait": 60})))
    begun = await talk.send("Run it.", notebook="long.ipynb", mode="auto")
    while "begun" not in (await until(begun, "tool_progress")).data["message"]:
        continue
    (process,) = processes()
    process.kill()
    events = await rest(begun)
    assert of_kind(events, "error")[0]["error"]["code"] == "agent_died"
    saved = await desk.saved("long.ipynb", lambda nb: len(nb.cells[0].outputs) == 2)
    assert saved.cells[0].outputs[1].ename == "KeyboardInterrupt"
    await goes_on(talk, begun.chat)


@pytest.mark.parametrize("bad", [BROKEN, OVERLOADED, rate_limited(0)])
async def test_a_bad_day_of_the_model_is_shown_and_asked_again(talk: Talk, bad: object) -> None:
    talk.model.add(bad, Answer.of("There."))  # type: ignore[arg-type]
    events = await talk.say("Are you there?")
    assert of_kind(events, "retry")[0]["attempt"] == 1
    assert events[-1].data == {"end": "done", "text": "There."}


@dataclass(frozen=True)
class CutLater:
    """Begins an answer, and loses the connection when it is told to."""

    answer: Answer
    now: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, to: Exchange) -> None:
        for event in islice(self.answer.events(to.request), 4):
            await to.event(event)
        await self.now.wait()
        to.cut()


async def test_what_a_cut_stream_brought_is_void_and_comes_again(talk: Talk) -> None:
    cut = CutLater(Answer.of("One, two, three, four, five."))
    talk.model.add(cut, Answer.of("One, two."))
    begun = await talk.send("Count.")
    events: list[Event] = []
    async with asyncio.timeout(20):
        async for event in begun.events:
            events.append(event)
            if event.kind == "text":
                cut.now.set()
    assert kinds(events)[2:] == ["text", "retry", "discarded", "text", "usage", "done"]
    assert of_kind(events, "discarded") == [{"block": 0}]
    assert events[-1].data == {"end": "done", "text": "One, two."}


async def test_a_stream_that_is_cut_at_once_comes_again(talk: Talk) -> None:
    talk.model.add(Cut(Answer.of("One, two, three, four, five."), after=4), Answer.of("One, two."))
    events = await talk.say("Count.")
    assert events[-1].data == {"end": "done", "text": "One, two."}


async def test_a_model_that_says_nothing_is_given_up_in_time(open_chats: Open) -> None:
    talk = open_chats(silence=1.0)
    hang = Hang()
    talk.model.add(hang)
    async with asyncio.timeout(20):
        events = await talk.say("Are you there?")
        await hang.gone.wait()
    assert of_kind(events, "error")[0]["error"]["code"] == "model_silent"
    await goes_on(talk, events[0].data["chat"])


async def test_a_chat_is_its_users_alone(talk: Talk) -> None:
    talk.model.add(Answer.of("Hello."))
    events = await talk.say("Hello.")
    chat = events[0].data["chat"]
    assert await talk.chats.list("bob") == []
    for deed in (
        talk.chats.get("bob", chat),
        talk.chats.events("bob", chat),
        talk.chats.follow("bob", chat),
        talk.chats.stop("bob", chat),
        talk.chats.rename("bob", chat, "Mine"),
        talk.chats.delete("bob", chat),
        talk.chats.take_back("bob", chat, turn=events[0].turn),
        talk.send("Mine.", "bob", chat=chat),
    ):
        with pytest.raises(ChatNotFound):
            await deed
    assert [each.title for each, _ in await talk.chats.list(USER)] == ["Hello."]
