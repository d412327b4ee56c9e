"""A turn ends after the changes that it has begun, however slow the disk is."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from tests.agent.conftest import USER, Talk, kinds, of_kind
from tests.agent.test_backend_contract import echo, talk
from tests.harness import ToolHarness
from tk_ai_extension.agent import turns

__all__ = ["echo", "talk"]

WITHIN = 30.0
CHANGE = 'call insert_cell {"source": "b = 1"}'


class SlowDisk:
    """A disk whose next write waits until `goes_on` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.writes = threading.Event()
        self.goes_on = threading.Event()
        write = os.fsync

        def slow(descriptor: int) -> None:
            self.writes.set()
            self.goes_on.wait(WITHIN)
            write(descriptor)

        monkeypatch.setattr(os, "fsync", slow)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDisk]:
    monkeypatch.setattr(turns, "SETTLE", 0.05)
    disk = SlowDisk(monkeypatch)
    yield disk
    disk.goes_on.set()


async def stop_and_undo(talk: Talk, chat: str, turn: str) -> Any:
    await talk.chats.stop(USER, chat)
    async for event in await talk.chats.follow(USER, chat):
        if (event.turn, event.kind) == (turn, "done"):
            break
    return await talk.chats.undo_turn(USER, chat, turn=turn)


async def restore(talk: Talk, chat: str, turn: str) -> Any:
    return await talk.chats.restore(USER, chat, turn)


@pytest.mark.proves("chat:one-end", "rest:chat")
@pytest.mark.parametrize("act", [restore, stop_and_undo])
async def test_a_change_that_is_being_written_belongs_to_what_is_undone(
    talk: Talk,
    harness: ToolHarness,
    disk: SlowDisk,
    act: Callable[[Talk, str, str], Coroutine[Any, Any, Any]],
) -> None:
    harness.write("a.ipynb", "a = 1")
    run = await talk.send(CHANGE, notebook="a.ipynb", mode="auto")
    assert await asyncio.to_thread(disk.writes.wait, WITHIN)
    async with asyncio.timeout(WITHIN):
        acting = asyncio.create_task(act(talk, run.chat, run.turn))
        ended, _ = await asyncio.wait({acting}, timeout=0.3)
        assert not ended
        assert harness.sources("a.ipynb") == ["a = 1"]
        disk.goes_on.set()
        (taken,) = await acting
    assert taken.notebook == "a.ipynb"
    assert harness.sources("a.ipynb") == ["a = 1"]
    events = [each for each in await talk.chats.events(USER, run.chat) if each.turn == run.turn]
    assert len(of_kind(events, "cell_change")) == 1
    assert kinds(events).index("cell_change") < kinds(events).index("done")
    assert await talk.chats.changes.standing(await talk.chats.get(USER, run.chat)) == []
