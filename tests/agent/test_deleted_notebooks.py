"""What is about a notebook is never carried out in another one that gets its name."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.agent.conftest import USER, Talk, talk_with
from tests.agent.test_renamed_notebooks import WITHIN, Folder, ended, inserts
from tests.harness import ToolHarness
from tests.support.echo_agent import EchoBackend, EchoSession
from tk_ai_extension.agent import chat_paths
from tk_ai_extension.agent.backend import SessionConfig
from tk_ai_extension.agent.requests import APPROVED, PlanAnswer
from tk_ai_extension.agent.sent_messages import StartedTurn
from tk_ai_extension.model.agent_errors import PlanNotFound
from tk_ai_extension.model.errors import DiskFull, NotebookNotFound, NotebookRequired, ToolError
from tk_ai_extension.workspace.database import Database
from tk_ai_extension.workspace.workspace import Workspace

pytestmark = pytest.mark.proves("rest:chat")

NAMES = ("a.ipynb", "b.ipynb", "c.ipynb")

RUNNING = {"executions", "activity"}
"""What is known by its name until its end, also after a deletion."""


class Planner(EchoBackend):
    """An echo that carries a plan out by the call in the answer to it."""

    async def start(self, config: SessionConfig) -> EchoSession:
        session = await super().start(config)
        answer = session._answer

        async def carry_out(text: str, credential: Any) -> None:
            await answer(text.removeprefix(APPROVED).strip(), credential)

        session._answer = carry_out
        return session


async def approve(talk: Talk, plan: tuple[str, str], words: str) -> StartedTurn:
    chat, turn = plan
    answer = PlanAnswer(plan=turn, answer="approve", mode="auto", words=words)
    return await talk.chats.answer_plan(USER, chat, answer)


async def begin(talk: Talk) -> StartedTurn:
    """Begin a turn that waits until it is stopped."""
    running = await talk.send("wait")
    async with asyncio.timeout(WITHIN):
        await anext(event async for event in running.events if event.kind == "text")
    return running


@pytest.fixture
def talk(harness: ToolHarness, tmp_path: Path) -> Talk:
    return talk_with(harness, Planner(), tmp_path)


@pytest.fixture
def folder(harness: ToolHarness, talk: Talk, jp_root_dir: Path) -> Folder:
    folder = Folder(harness, talk, jp_root_dir)
    folder.create("a.ipynb")
    return folder


async def test_a_plan_for_a_deleted_notebook_cannot_be_carried_out(
    talk: Talk, folder: Folder
) -> None:
    events = await talk.say("Insert a cell.", notebook="a.ipynb", mode="plan")
    await folder.delete("a.ipynb")
    folder.create("a.ipynb")
    with pytest.raises(NotebookNotFound, match=r"^a\.ipynb was deleted\.$"):
        await approve(talk, (events[0].data["chat"], events[0].turn), inserts("plan"))
    assert folder.written() == {"notebook = 2": []}
    await talk.close()


@pytest.mark.parametrize("stored_later", [False, True])
async def test_a_deletion_that_could_not_be_stored_counts_all_the_same(
    talk: Talk, folder: Folder, monkeypatch: pytest.MonkeyPatch, *, stored_later: bool
) -> None:
    events = await talk.say("Insert a cell.", notebook="a.ipynb", mode="plan")
    chat, turn = events[0].data["chat"], events[0].turn
    again = {"chat": chat, "notebook_of": turn, "mode": "auto"}

    def full(*_: Any) -> None:
        raise DiskFull("The disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(Database, "_transact", full)
        with suppress(DiskFull):
            await folder.delete("a.ipynb")
    folder.create("a.ipynb")
    if stored_later:
        await talk.chats.rename(USER, chat, "The plan")
    with pytest.raises(NotebookNotFound, match="deleted"):
        await approve(talk, (chat, turn), inserts("plan"))
    with pytest.raises(NotebookNotFound, match="deleted"):
        await talk.send(inserts("m"), notebook="a.ipynb", **again)
    (message,) = [each for each in await talk.chats.events(USER, chat) if each.kind == "message"]
    assert message.data["notebook"] == f"a.ipynb{chat_paths.DELETED}"
    # It is applied once: the next notebook of that name keeps its chat.
    other = await talk.say("hello", notebook="a.ipynb", latest=True)
    assert (await talk.chats.get(USER, other[0].data["chat"])).notebook == "a.ipynb"
    assert folder.written() == {"notebook = 2": []}
    await talk.close()


async def test_a_rejected_plan_of_a_deleted_notebook_is_settled(talk: Talk, folder: Folder) -> None:
    events = await talk.say("Insert a cell.", notebook="a.ipynb", mode="plan")
    await folder.delete("a.ipynb")
    answer = PlanAnswer(plan=events[0].turn, answer="reject", words="No.")
    begun = await talk.chats.answer_plan(USER, events[0].data["chat"], answer)
    assert await ended(begun) == "done"
    await talk.close()


async def test_a_message_is_about_its_notebook_while_its_model_is_looked_for(
    talk: Talk, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = talk.services.model

    async def slow(model: str | None) -> str:
        await folder.delete("a.ipynb")
        folder.create("a.ipynb")
        return await find(model)

    monkeypatch.setattr(type(talk.services), "model", lambda _, model: slow(model))
    with pytest.raises(NotebookNotFound, match="deleted"):
        await talk.send(inserts("m"), notebook="a.ipynb", mode="auto")
    assert folder.written() == {"notebook = 2": []}
    await talk.close()


async def test_a_message_that_waits_fails_once_its_notebook_is_deleted(
    talk: Talk, folder: Folder
) -> None:
    running = await begin(talk)
    queued = await talk.send(inserts("m"), notebook="a.ipynb", chat=running.chat, mode="auto")
    await folder.delete("a.ipynb")
    folder.create("a.ipynb")
    await talk.chats.stop(USER, running.chat, running.turn)
    assert await ended(queued) == "failed"
    assert folder.written() == {"notebook = 2": []}
    await talk.close()


async def test_a_deleted_notebooks_chat_is_not_that_of_the_next_one(
    talk: Talk, folder: Folder
) -> None:
    first = await talk.say("hello", notebook="a.ipynb", latest=True)
    await folder.rename("a.ipynb", "b.ipynb")
    again = await talk.say("hello", notebook="b.ipynb", latest=True)
    await folder.delete("b.ipynb")
    folder.create("b.ipynb")
    other = await talk.say("hello", notebook="b.ipynb", latest=True)
    assert again[0].data["chat"] == first[0].data["chat"] != other[0].data["chat"]
    await talk.close()


async def test_a_turn_is_continued_in_its_notebook_whatever_that_is_called(
    talk: Talk, folder: Folder
) -> None:
    first = await talk.say("hello", notebook="a.ipynb")
    of = {"chat": first[0].data["chat"], "notebook_of": first[0].turn, "mode": "auto"}
    await folder.rename("a.ipynb", "b.ipynb")
    folder.create("a.ipynb")
    await talk.say(inserts("m"), notebook="a.ipynb", **of)
    assert folder.written() == {"notebook = 1": ["m"], "notebook = 2": []}
    await folder.delete("b.ipynb")
    # The page has read the path before or after the deletion.
    for path in ("a.ipynb", "b.ipynb", f"b.ipynb{chat_paths.DELETED}"):
        with pytest.raises(NotebookNotFound, match=r"^b\.ipynb was deleted\.$"):
            await talk.send(inserts("n"), notebook=path, **of)
    await talk.close()


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("undo", [False, True])
async def test_a_replaced_message_is_about_its_notebook_whatever_that_is_called(
    harness: ToolHarness,
    talk: Talk,
    folder: Folder,
    tmp_path: Path,
    *,
    undo: bool,
    restarted: bool,
) -> None:
    async def say(message: str, **fields: Any) -> Any:
        return await talk.say(message, notebook="a.ipynb", mode="auto", **fields)

    first = await say(inserts("m"))
    chat = first[0].data["chat"]
    await folder.rename("a.ipynb", "b.ipynb")
    folder.create("a.ipynb")
    if restarted:
        await talk.close()
        talk = talk_with(harness, Planner(), tmp_path)

    def replacing(turn: str) -> dict[str, Any]:
        return {"chat": chat, "replaces": turn, "notebook_of": turn, "undo_replaced": undo}

    again = await say(inserts("n"), **replacing(first[0].turn))
    assert folder.written() == {
        "notebook = 1": ["n"] if undo else ["m", "n"],
        "notebook = 2": [],
    }
    # Pages that read the chat, or follow it, get the current name.
    events = [event for event in await talk.chats.events(USER, chat) if event.kind == "message"]
    assert [event.data["notebook"] for event in events] == ["b.ipynb", "b.ipynb"]
    followed = await talk.chats.follow(USER, chat)
    assert (await anext(aiter(followed))).data["notebook"] == "b.ipynb"
    (tmp_path / "gone").mkdir()
    (harness.root / "b.ipynb").rename(tmp_path / "gone" / "b.ipynb")
    await talk.chats.paths.deleted("b.ipynb")
    with pytest.raises(NotebookNotFound, match="was deleted"):
        await say(inserts("o"), **replacing(again[0].turn))
    await talk.close()


async def test_a_deleted_current_notebook_is_disconnected_with_a_notice(
    harness: ToolHarness, folder: Folder
) -> None:
    harness.workspace.notebooks.add(harness.caller, "data", "a.ipynb", None)
    await folder.delete("a.ipynb")
    folder.create("a.ipynb")
    with pytest.raises(NotebookRequired):
        await harness.call("insert_cell", source="x")
    listed = await harness.call("list_cells", notebook="a.ipynb")
    assert listed.notices == ["a.ipynb was deleted and is not connected any more."]
    assert folder.written() == {"notebook = 2": []}


async def test_a_file_that_another_program_replaces_disconnects_nobody(
    harness: ToolHarness, jp_root_dir: Path
) -> None:
    harness.write("a.ipynb", "x = 1")
    harness.workspace.notebooks.add(harness.caller, None, "a.ipynb", None)
    saved = (jp_root_dir / "a.ipynb").read_text()
    (jp_root_dir / "a.ipynb").unlink()
    (jp_root_dir / "saved").write_text(saved)
    (jp_root_dir / "saved").rename(jp_root_dir / "a.ipynb")
    assert (await harness.call("list_cells")).notebook == "a.ipynb"


class Person:
    """A person who works with notebooks, each known by its first cell, and with chats about them."""

    def __init__(self, harness: ToolHarness, talk: Talk, folder: Folder, seed: int) -> None:
        self.harness = harness
        self.talk = talk
        self.folder = folder
        self.choice = random.Random(seed)
        self.about: dict[str, str] = {}
        # The notebook of the last message of each chat.
        self.last: dict[str, str] = {}
        self.plans: list[tuple[tuple[str, str], str]] = []
        self.turns: list[tuple[str, str, str, str]] = []
        self.queued: list[StartedTurn] = []
        self.waiting: StartedTurn | None = None
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
            # A former notebook there was removed by another program, which nobody noticed.
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
            with suppress(NotebookRequired):
                await self.harness.call("insert_cell", source=source)

    async def plan(self) -> None:
        name = self.name()
        events = await self.talk.say("Think.", notebook=name, mode="plan")
        self.last[events[0].data["chat"]] = self.folder.names[name]
        self.plans.append(((events[0].data["chat"], events[0].turn), self.folder.names[name]))

    async def approve(self) -> None:
        if self.plans:
            plan, notebook = self.plans.pop()
            # A later message of its chat has passed the plan over.
            with suppress(NotebookNotFound, PlanNotFound):
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
async def test_nothing_changes_a_notebook_that_it_was_not_about(
    harness: ToolHarness, talk: Talk, folder: Folder, seed: int
) -> None:
    person = Person(harness, talk, folder, seed)
    steps: list[Callable[[], Awaitable[None]]] = [
        *(person.rename, person.delete, person.use, person.insert, person.plan, person.approve),
        *(person.say, person.say_again, person.queue, person.answer_queued),
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


@pytest.mark.parametrize("is_rename", [False, True])
async def test_every_service_with_paths_follows_deletions_and_renames(
    harness: ToolHarness, monkeypatch: pytest.MonkeyPatch, *, is_rename: bool
) -> None:
    workspace: Workspace = harness.workspace
    holders = {
        name: holder for name, holder in vars(workspace).items() if hasattr(holder, "renamed")
    }
    reached = set[str]()
    for name, holder in holders.items():
        for method in ("renamed", "deleted"):
            if not hasattr(holder, method):
                continue
            original = getattr(holder, method)

            def called(*args: Any, of: str = name, do: Any = original, how: str = method) -> Any:
                # A rename to another name deletes a former notebook there, which is not the rename.
                if not is_rename or (how, args) == ("renamed", ("a.ipynb", "b.ipynb")):
                    reached.add(of)
                return do(*args)

            monkeypatch.setattr(holder, method, called)
    if is_rename:
        # Of the sessions, the server takes care: it has them before the workspace.
        reached.add("sessions")
        await workspace.renamed("a.ipynb", "b.ipynb")
        assert reached == set(holders)
    else:
        await workspace.deleted("a.ipynb")
        assert reached == set(holders) - RUNNING


def test_paths_follow_renames_of_folders_and_are_detached_once() -> None:
    rename, deletion = chat_paths.rename("x", "y"), chat_paths.deletion("x")
    assert rename("x/a.ipynb") == "y/a.ipynb"
    assert rename("xa.ipynb") is deletion("xa.ipynb") is None
    detached = deletion("x/a.ipynb")
    assert detached == f"x/a.ipynb{chat_paths.DELETED}"
    assert rename("y/a.ipynb") == f"y/a.ipynb{chat_paths.DELETED}"
    assert rename(detached) is deletion(detached) is None


@pytest.mark.parametrize("fails", [False, True])
async def test_stored_paths_are_changed_before_later_ones_are_stored(
    talk: Talk, folder: Folder, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    """A rename to the name that a message then has is not taken for one over its notebook."""
    transcripts = talk.services.transcripts
    chat = await transcripts.create(USER, "chat", "A chat", "a.ipynb")
    if fails:
        await transcripts.close()
    stored = talk.chats.paths.renamed("a.ipynb", "b.ipynb")
    if fails:
        with pytest.raises(ToolError):
            await stored
        return
    await transcripts.used(chat.id, "b.ipynb")
    await stored
    assert (await talk.chats.paths.chat(USER, "chat")).notebook == "b.ipynb"
    await talk.close()
