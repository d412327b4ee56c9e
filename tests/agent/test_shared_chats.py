"""Chats of several servers of one folder, and of one that was killed."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.agent.conftest import USER, Talk, of_kind, talk_with, until
from tests.harness import ToolHarness
from tests.support.echo_agent import EchoBackend
from tk_ai_extension.model.agent_errors import ChatRunningElsewhere
from tk_ai_extension.workspace.database import process_of

pytestmark = pytest.mark.proves("chat:one-end")


@pytest.fixture
async def servers(harness: ToolHarness, tmp_path: Path) -> AsyncIterator[list[Talk]]:
    """The chats of two servers of one folder, with agents that share their history."""
    echo = EchoBackend()
    talks = [talk_with(harness, echo, tmp_path) for _ in range(2)]
    yield talks
    for talk in talks:
        await talk.close()


async def test_a_chat_that_is_answered_in_one_server_is_refused_in_another_and_goes_on_there(
    servers: list[Talk],
) -> None:
    one, other = servers
    running = await one.send("wait")
    await until(running, "text")
    for deed in (
        other.send("Hello.", chat=running.chat),
        other.chats.delete(USER, running.chat),
    ):
        with pytest.raises(ChatRunningElsewhere):
            await deed
    await one.chats.stop(USER, running.chat)
    assert (await until(running, "done")).data["end"] == "stopped"
    await one.chats.page(USER, running.chat)

    assert (await other.say("Hello.", chat=running.chat))[-1].data["text"] == "Hello."
    await other.chats.page(USER, running.chat)
    recalled = await one.say("recall", chat=running.chat)
    assert recalled[-1].data["text"].splitlines() == ["wait", "Hello."]
    events = (await one.chats.page(USER, running.chat))[0]
    assert len({event.id for event in events}) == len(events)


def ended_process() -> str:
    """Return the name of a process that has ended, as chats keep it."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        return process_of(process.pid)


async def test_the_turn_of_a_killed_server_is_ended_by_the_next_one(
    servers: list[Talk], harness: ToolHarness, tmp_path: Path
) -> None:
    before = servers[0]
    running = await before.send("wait", id="1")
    await until(running, "text")
    await before.chats.page(USER, running.chat)
    copy = tmp_path / "next" / "chats" / "chats.sqlite"
    copy.parent.mkdir(parents=True)
    with (
        closing(sqlite3.connect(tmp_path / "chats" / "chats.sqlite")) as database,
        closing(sqlite3.connect(copy)) as copied,
    ):
        database.backup(copied)
        # Its process has ended.
        copied.execute("UPDATE chats SET server = 'gone@elsewhere:1:0'")
        copied.commit()
        copied.execute("UPDATE chats SET server = ?", (f"killed@{ended_process()}",))
        copied.commit()

    after = talk_with(harness, EchoBackend(), tmp_path / "next")
    # The sender has got no response, and sends it again.
    events = await after.say("wait", chat=running.chat, id="1")
    assert {event.turn for event in events} == {running.turn}
    assert of_kind(events, "error")[0]["error"]["code"] == "agent_died"
    assert events[-1].data["end"] == "failed"
    assert (await after.say("Hello.", chat=running.chat))[-1].data["text"] == "Hello."
    await after.close()
