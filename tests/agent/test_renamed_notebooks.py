"""A message is about its notebook, whatever that is called when the message is answered."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.agent.conftest import USER, Talk, talk_with
from tests.harness import ToolHarness
from tests.support.echo_agent import EchoBackend, EchoSession
from tk_ai_extension.agent.backend import SessionConfig
from tk_ai_extension.agent.sent_messages import StartedTurn

pytestmark = pytest.mark.proves("rest:chat")

WITHIN = 20.0


@dataclass
class Gated(EchoBackend):
    """An echo that starts when it may."""

    starting: asyncio.Event = field(default_factory=asyncio.Event)
    may_start: asyncio.Event = field(default_factory=asyncio.Event)

    async def start(self, config: SessionConfig) -> EchoSession:
        self.starting.set()
        await self.may_start.wait()
        return await super().start(config)


class Folder:
    """Notebooks that a person names, each known by its first cell."""

    def __init__(self, harness: ToolHarness, talk: Talk, root: Path) -> None:
        self._harness = harness
        self._talk = talk
        self._root = root
        self.names: dict[str, str] = {}
        self._count = 0

    def create(self, name: str) -> None:
        self._count += 1
        self.names[name] = f"notebook = {self._count}"
        self._harness.write(name, self.names[name])

    async def rename(self, old: str, new: str) -> None:
        (self._root / old).rename(self._root / new)
        self.names[new] = self.names.pop(old)
        stored = self._talk.chats.move(old, new)
        await self._harness.workspace.renamed(old, new)
        await stored

    async def delete(self, name: str) -> None:
        (self._root / name).unlink()
        del self.names[name]
        stored = self._talk.chats.detach(name)
        await self._harness.workspace.deleted(name)
        await stored

    def written(self) -> dict[str, list[str]]:
        """What was added to each notebook."""
        found = [self._harness.sources(name) for name in self.names]
        return {first: sorted(added) for first, *added in found}


def inserts(source: str) -> str:
    return f'call insert_cell {{"source": "{source}"}}'


async def ended(started: StartedTurn) -> str:
    async with asyncio.timeout(WITHIN):
        return [event async for event in started.events][-1].data["end"]


@pytest.mark.parametrize("seed", range(3))
async def test_turns_work_in_the_notebooks_that_their_messages_were_sent_about(
    harness: ToolHarness, jp_root_dir: Path, tmp_path: Path, seed: int
) -> None:
    """Notebooks get each other's names while messages wait, and while the first turn begins."""
    randomness = random.Random(seed)
    backend = Gated()
    talk = talk_with(harness, backend, tmp_path)
    folder = Folder(harness, talk, jp_root_dir)
    folder.create("a.ipynb")
    free = ["b.ipynb", "c.ipynb", "d.ipynb"]
    expected: dict[str, list[str]] = {}
    turns: list[StartedTurn] = []
    fields: dict[str, Any] = {"mode": "auto"}

    async def send(number: int) -> None:
        name = randomness.choice([*folder.names])
        expected.setdefault(folder.names[name], []).append(f"m{number}")
        turns.append(await talk.send(inserts(f"m{number}"), notebook=name, **fields))
        fields["chat"] = turns[0].chat

    await send(0)
    await backend.starting.wait()
    for number in range(1, 7):
        for _ in range(randomness.randint(1, 2)):
            old, new = randomness.choice([*folder.names]), free.pop()
            await folder.rename(old, new)
            if randomness.random() < 0.5 and len(folder.names) < 3:
                folder.create(old)
            else:
                free.insert(0, old)
        await send(number)
    backend.may_start.set()
    assert [await ended(each) for each in turns] == ["done"] * len(turns)
    added = {first: cells for first, cells in folder.written().items() if cells}
    assert added == {first: sorted(cells) for first, cells in expected.items()}
    await talk.close()


async def test_a_queued_message_is_given_to_a_turn_in_its_renamed_notebook(
    harness: ToolHarness, jp_root_dir: Path, tmp_path: Path
) -> None:
    talk = talk_with(harness, EchoBackend(), tmp_path)
    folder = Folder(harness, talk, jp_root_dir)
    folder.create("a.ipynb")
    running = await talk.send("wait", notebook="a.ipynb")
    async with asyncio.timeout(WITHIN):
        await anext(event async for event in running.events if event.kind == "text")
    await folder.rename("a.ipynb", "b.ipynb")
    folder.create("a.ipynb")
    other = await talk.send("Another.", notebook="a.ipynb", chat=running.chat)
    queued = await talk.send("Faster.", notebook="b.ipynb", chat=running.chat)
    assert not await talk.chats.steer(USER, running.chat, other.turn)
    assert await talk.chats.steer(USER, running.chat, queued.turn)
    await talk.close()


async def test_a_restore_keeps_the_name_that_the_notebook_got_meanwhile(
    harness: ToolHarness, jp_root_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = talk_with(harness, EchoBackend(), tmp_path)
    folder = Folder(harness, talk, jp_root_dir)
    folder.create("a.ipynb")
    first = await talk.say(inserts("m"), notebook="a.ipynb", mode="auto")
    undo = talk.chats.changes.undo_from

    async def renamed_first(*of: Any) -> Any:
        await folder.rename("a.ipynb", "b.ipynb")
        return await undo(*of)

    monkeypatch.setattr(talk.chats.changes, "undo_from", renamed_first)
    await talk.chats.restore(USER, first[0].data["chat"], first[0].turn)
    assert harness.sources("b.ipynb") == ["notebook = 1"]
    assert (await talk.chats.get(USER, first[0].data["chat"])).notebook == "b.ipynb"
    await talk.close()
