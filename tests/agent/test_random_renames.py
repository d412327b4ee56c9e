"""Random renames, deletions, new files, calls and chats: nothing is done in another notebook."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jupyter_core.utils import ensure_async

from tests.agent.conftest import USER, Talk, talk_with
from tests.harness import ToolHarness, loop_turns
from tests.support.echo_agent import EchoBackend, EchoSession
from tk_ai_extension.agent.backend import SessionConfig
from tk_ai_extension.agent.chat_requests import APPROVED
from tk_ai_extension.agent.chats import TurnStream
from tk_ai_extension.model.errors import (
    InvalidArguments,
    NotebookNotFound,
    NotFound,
    PermissionRequired,
)

pytestmark = pytest.mark.proves("kernel:shared-live")

WITHIN = 20.0
NAMES = ("a.ipynb", "b.ipynb", "c.ipynb")


class Planner(EchoBackend):
    """An echo that carries a plan out by the call in the answer to it."""

    async def start(self, config: SessionConfig) -> EchoSession:
        session = await super().start(config)
        answer = session._answer

        async def carry_out(text: str) -> None:
            await answer(text.removeprefix(APPROVED).strip())

        session._answer = carry_out
        return session


async def approve(talk: Talk, plan: tuple[str, str], words: str) -> TurnStream:
    chat, turn = plan
    return await talk.send(words, chat=chat, approves=turn, mode="auto")


async def begin(talk: Talk) -> TurnStream:
    """Begin a turn that waits until it is stopped."""
    running = await talk.send("wait")
    async with asyncio.timeout(WITHIN):
        await anext(event async for event in running.events if event.kind == "text")
    return running


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
        # Another program removes a former notebook there, which nobody notices.
        (self._root / new).unlink(missing_ok=True)
        self.names[new] = self.names.pop(old)
        await ensure_async(self._harness.app.contents_manager.rename(old, new))
        await self._talk.chats.move(old, new)
        await loop_turns()

    async def delete(self, name: str) -> None:
        del self.names[name]
        await ensure_async(self._harness.app.contents_manager.delete(name))
        await self._talk.chats.detach(name)
        await loop_turns()

    def written(self) -> dict[str, list[str]]:
        """What was added to each notebook."""
        found = [self._harness.sources(name) for name in self.names]
        return {first: sorted(added) for first, *added in found}


def inserts(source: str) -> str:
    return f'call insert_cell {{"source": "{source}"}}'


async def ended(started: TurnStream) -> str:
    async with asyncio.timeout(WITHIN):
        return [event async for event in started.events][-1].data["end"]


class Person:
    """A person who works with notebooks, each known by its first cell, and with chats about them."""

    def __init__(self, harness: ToolHarness, talk: Talk, folder: Folder, seed: int) -> None:
        self.harness = harness
        self.talk = talk
        self.folder = folder
        self.choice = random.Random(seed)
        self.about: dict[str, str] = {}
        # The notebooks in which the person lets agents write.
        self.approved: set[str] = set()
        # The notebook of the last message of each chat.
        self.last: dict[str, str] = {}
        self.plans: list[tuple[tuple[str, str], str]] = []
        self.turns: list[tuple[str, str, str, str]] = []
        self.queued: list[TurnStream] = []
        self.waiting: TurnStream | None = None
        self.current: str | None = None

    def name(self) -> str:
        return self.choice.choice([*self.folder.names])

    def inserts(self, notebook: str) -> str:
        """A message that inserts a cell, which may only be in this notebook."""
        source = f"m{len(self.about)}"
        self.about[source] = notebook
        return inserts(source)

    async def create(self) -> None:
        free = [name for name in NAMES if name not in self.folder.names]
        if free:
            self.folder.create(self.choice.choice(free))

    async def rename(self) -> None:
        old, new = self.choice.sample(NAMES, 2)
        if old in self.folder.names:
            await self.folder.rename(old, new)

    async def delete(self) -> None:
        await self.folder.delete(self.name())

    async def use(self) -> None:
        name = self.name()
        self.current = self.folder.names[name]
        self.harness.workspace.notebooks.add(self.harness.caller, None, name, None)

    async def insert(self) -> None:
        if self.current is not None:
            source = self.inserts(self.current).split('"')[3]
            with suppress(InvalidArguments):
                await self.harness.call("insert_cell", source=source)

    async def insert_if_approved(self) -> None:
        """An agent that has to ask inserts a cell, and the person may approve that in this notebook."""
        name, policy = self.name(), self.harness.workspace.policy
        notebook, asking = self.folder.names[name], replace(self.harness.caller, mode="ask")
        source = self.inserts(notebook).split('"')[3]
        try:
            await self.harness.call("insert_cell", caller=asking, notebook=name, source=source)
            assert notebook in self.approved
        except PermissionRequired as asked:
            assert notebook not in self.approved
            if self.choice.random() < 0.5:
                permission = asked.details["permission_id"]
                policy.answer(asking.user, permission, "notebook")
                self.approved.add(notebook)

    async def plan(self) -> None:
        name = self.name()
        events = await self.talk.say("Think.", notebook=name, mode="plan")
        self.last[events[0].data["chat"]] = self.folder.names[name]
        self.plans.append(((events[0].data["chat"], events[0].turn), self.folder.names[name]))

    async def approve(self) -> None:
        if self.plans:
            plan, notebook = self.plans.pop()
            # A later message of its chat has passed the plan over.
            with suppress(NotebookNotFound, NotFound):
                await ended(await approve(self.talk, plan, self.inserts(notebook)))

    async def say(self) -> None:
        name = self.name()
        notebook = self.folder.names[name]
        # Not in the chat with the turn that waits.
        latest = self.waiting is None
        text = self.inserts(notebook)
        events = await self.talk.say(text, notebook=name, mode="auto", latest=latest)
        chat = events[0].data["chat"]
        assert self.last.setdefault(chat, notebook) == notebook
        self.turns.append((chat, events[0].turn, name, notebook))

    async def say_again(self) -> None:
        if self.turns:
            chat, turn, name, notebook = self.turns.pop()
            fields: dict[str, Any] = {"notebook_of": turn}
            if self.choice.random() < 0.7:
                fields |= {"replaces": turn, "undo_replaced": self.choice.random() < 0.5}
            with suppress(NotebookNotFound):
                await self.talk.say(
                    self.inserts(notebook), notebook=name, mode="auto", chat=chat, **fields
                )
                # The later turns of the chat are replaced, too.
                self.turns = [each for each in self.turns if each[0] != chat]

    async def queue(self) -> None:
        if self.waiting is None:
            self.waiting = await begin(self.talk)
        name = self.name()
        text = self.inserts(self.folder.names[name])
        chat = self.waiting.chat
        self.last[chat] = self.folder.names[name]
        self.queued.append(await self.talk.send(text, notebook=name, chat=chat, mode="auto"))

    async def answer_queued(self) -> None:
        if self.waiting is not None:
            await self.talk.chats.stop(USER, self.waiting.chat, self.waiting.turn)
            self.waiting = None
            while self.queued:
                await ended(self.queued.pop())

    def check(self) -> None:
        for notebook, added in self.folder.written().items():
            assert {self.about[source] for source in added} <= {notebook}


@pytest.mark.parametrize("seed", range(6))
async def test_nothing_is_done_in_a_notebook_that_it_was_not_about(
    harness: ToolHarness, jp_root_dir: Path, tmp_path: Path, seed: int
) -> None:
    talk = talk_with(harness, Planner(), tmp_path)
    folder = Folder(harness, talk, jp_root_dir)
    person = Person(harness, talk, folder, seed)
    steps: list[Callable[[], Awaitable[None]]] = [
        *(person.rename, person.delete, person.use, person.insert, person.insert_if_approved),
        *(person.plan, person.approve, person.say, person.say_again, person.queue),
        person.answer_queued,
    ]
    for _ in range(40):
        if not folder.names or person.choice.random() < 0.2:
            await person.create()
        step = person.choice.choice(steps if folder.names else [person.create])
        await step()
        person.check()
    await person.answer_queued()
    person.check()
    await talk.close()
