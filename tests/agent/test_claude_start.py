"""The start of Claude's process: our timeout is the one that acts, and what was begun is ended."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from claude_agent_sdk._internal.query import Query

from tests.agent.conftest import USER, Open, after, of_kind
from tk_ai_extension.agent.claude import client

# The program is started as the CLI is, without its stand-in.
pytestmark = [pytest.mark.real_cli, pytest.mark.proves("chat:one-end")]


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Path]:
    """A program that answers nothing, and ends after its input when a line is written to a FIFO."""
    path, fifo = tmp_path / "silent-program", tmp_path / "fifo"
    os.mkfifo(fifo)
    path.write_text(f"#!/bin/sh\ncat > /dev/null\nread line < '{fifo}'\n")
    path.chmod(0o700)
    descriptor = os.open(fifo, os.O_RDWR)
    yield path
    os.close(descriptor)


def end(program: Path) -> None:
    """Let a program end after its input."""
    with program.with_name("fifo").open("w") as fifo:
        fifo.write("\n")


def running(program: Path) -> list[psutil.Process]:
    """The processes of a program."""
    children = psutil.Process().children(recursive=True)
    return [each for each in children if str(program) in each.cmdline()]


@pytest.fixture
def initializing(monkeypatch: pytest.MonkeyPatch) -> asyncio.Queue[float]:
    """The SDK's own timeout of each start, once its process runs."""
    timeouts: asyncio.Queue[float] = asyncio.Queue()
    initialize = Query.initialize

    async def recorded(query: Any) -> Any:
        timeouts.put_nowait(query._initialize_timeout)
        return await initialize(query)

    monkeypatch.setattr(Query, "initialize", recorded)
    return timeouts


@pytest.mark.parametrize("variable", [None, "1000", "90000", "900000"])
async def test_the_sdk_waits_longer_than_we_do(
    open_chats: Open,
    program: Path,
    initializing: asyncio.Queue[float],
    variable: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if variable is not None:
        monkeypatch.setenv("CLAUDE_CODE_STREAM_CLOSE_TIMEOUT", variable)
    before = dict(os.environ)
    talk = open_chats(cli=str(program))
    started = await talk.send("Hello.")
    async with asyncio.timeout(20):
        assert await initializing.get() > client.START
        assert dict(os.environ) == before
        end(program)
        await talk.chats.stop(USER, started.chat)
        await talk.close()


async def test_a_program_that_answers_nothing_is_ended_and_said_to_be_silent(
    open_chats: Open, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "START", 0.5)
    end(program)
    events = await open_chats(cli=str(program)).say("Hello.")
    (error,) = of_kind(events, "error")
    assert error["error"]["code"] == "agent_unavailable"
    assert "did not answer within" in error["error"]["message"]
    assert running(program) == []


async def test_the_timeout_does_not_end_the_cleanup_of_a_start_that_was_stopped(
    open_chats: Open,
    program: Path,
    initializing: asyncio.Queue[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "START", 1.0)
    talk = open_chats(cli=str(program))
    started = await talk.send("Hello.")
    async with asyncio.timeout(20):
        await initializing.get()
        await talk.chats.stop(USER, started.chat)
        closing = asyncio.create_task(talk.chats.close())
        await after(1.3)
        assert not closing.done()
        assert len(running(program)) == 1
        end(program)
        await closing
    assert running(program) == []
