"""Every agent behind the backend interface keeps its contract."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.agent.conftest import USER, Talk, kinds, of_kind, talk_with
from tests.harness import ToolHarness
from tests.support.echo_agent import EchoBackend
from tk_ai_extension.agent.chats import StartedTurn
from tk_ai_extension.agent.events import Event

INSERT = 'call insert_cell {"source": "b = 1"}'


@pytest.fixture
def echo() -> EchoBackend:
    return EchoBackend()


@pytest.fixture
async def talk(harness: ToolHarness, echo: EchoBackend, tmp_path: Path) -> AsyncIterator[Talk]:
    """A person who talks with the echo."""
    talk = talk_with(harness, echo, tmp_path)
    yield talk
    await talk.close()


async def until(started: StartedTurn, kind: str) -> Event:
    """The first event of that kind in a turn."""
    async with asyncio.timeout(20):
        async for event in started.events:
            if event.kind == kind:
                return event
    raise AssertionError(f"no {kind}")


async def test_a_turn(talk: Talk) -> None:
    events = await talk.say("Hello.")
    assert kinds(events) == ["message", "began", "text", "done"]
    assert events[-1].data == {"end": "done", "text": "Hello."}


async def test_a_call_waits_for_its_approval_and_is_undone_with_its_turn(
    talk: Talk, harness: ToolHarness
) -> None:
    harness.write("a.ipynb", "a = 1")
    started = await talk.send(INSERT, notebook="a.ipynb", mode="ask")
    asked = await until(started, "permission")
    assert harness.sources("a.ipynb") == ["a = 1"]
    talk.services.workspace.policy.answer(USER, asked.data["id"], "once")
    await until(await talk.send("Next.", chat=started.chat), "done")
    events = await talk.chats.events(USER, started.chat)
    assert of_kind(events, "tool_result")[0]["ok"]
    assert of_kind(events, "cell_change")[0]["action"] == "insert"
    assert harness.sources("a.ipynb") == ["a = 1", "b = 1"]
    await talk.chats.undo_turn(USER, started.chat, turn=started.turn)
    assert harness.sources("a.ipynb") == ["a = 1"]


async def test_a_fork_remembers_what_came_before_the_replaced_turn(talk: Talk) -> None:
    first = await talk.say("One.")
    chat = first[0].data["chat"]
    second = await talk.say("Two.", chat=chat)
    await talk.say("Three.", chat=chat)
    recalled = await talk.say("recall", chat=chat, replaces=second[0].turn)
    assert recalled[-1].data["text"] == "One."


async def test_a_deleted_chat_is_forgotten_by_the_agent(talk: Talk, echo: EchoBackend) -> None:
    events = await talk.say("Hello.")
    assert len(echo.kept) == 1
    await talk.chats.delete(USER, events[0].data["chat"])
    assert echo.kept == {}
