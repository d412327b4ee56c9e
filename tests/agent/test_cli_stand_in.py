"""The stand-in for Claude's CLI does what the CLI does: the same scripts, the same chats."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import cli_stand_in
from tests.agent.conftest import USER, Talk
from tests.agent.test_chat_permissions import INSERT, answering
from tests.agent.test_context import DRAWN
from tests.agent.test_stop_turn import WITHIN, rest, until
from tests.harness import ToolHarness
from tk_ai_extension.agent.chats import Chats
from tk_ai_extension.agent.claude.client import ClaudeBackend, ClaudeConfig
from tk_ai_extension.agent.claude.providers import Provider
from tk_ai_extension.agent.events import Event
from tk_ai_extension.agent.sent_messages import StartedTurn
from tk_ai_extension.agent.services import ChatServices, ChatSettings
from tk_ai_extension.agent.transcripts import Transcripts
from tk_ai_extension.testing.messages import blocks_of
from tk_ai_extension.testing.scripted_model import (
    MODEL,
    Answer,
    Failure,
    Hang,
    Held,
    MessagesRequest,
    ScriptedModel,
    Text,
    Thinking,
    ToolUse,
    Usage,
)

pytestmark = pytest.mark.real_cli

Script = Callable[["Scene"], Awaitable[None]]


@dataclass
class Scene:
    """One chat of a person in one server after the other, with one model."""

    harness: ToolHarness
    model: ScriptedModel
    folder: Path
    chat: str | None = None

    def __post_init__(self) -> None:
        self.talk = self.opened()

    def write(self, *cells: str) -> str:
        """Put the scene's own notebook there; its name."""
        return self.harness.write(f"{self.folder.name}.ipynb", *cells).name

    async def send(self, message: str, **fields: Any) -> StartedTurn:
        """Send a message to the chat, which the first one begins."""
        if self.chat is not None:
            fields["chat"] = self.chat
        begun = await self.talk.send(message, **fields)
        self.chat = begun.chat
        return begun

    async def say(self, message: str, **fields: Any) -> list[Event]:
        """Send a message; all that comes of it."""
        return await rest(await self.send(message, **fields))

    async def stop(self) -> None:
        """Stop the turn."""
        assert await self.talk.chats.stop(USER, str(self.chat))

    async def reopen(self) -> None:
        """Stop the server, and start the next one."""
        await self.talk.close()
        self.talk = self.opened()

    def opened(self) -> Talk:
        """The chats of a server."""

        async def provider() -> Provider:
            return Provider("compatible", self.model.environment, MODEL, (MODEL,))

        services = ChatServices(
            workspace=self.harness.workspace,
            registry=self.harness.registry,
            transcripts=Transcripts(self.folder / "chats" / "chats.sqlite"),
            backend=ClaudeBackend(ClaudeConfig(self.folder / "claude"), provider),
            settings=ChatSettings(),
        )
        return Talk(Chats(services), services, self.model)


async def words(scene: Scene) -> None:
    """Thoughts and texts, in two turns."""
    scene.model.add(
        Answer.of(Thinking("A greeting, I think."), "Hello", " and welcome."),
        Answer.of(Text("I am well, thank you. And you?", piece=3), usage=Usage(7, 9, 20, 30)),
    )
    await scene.say("Hello.")
    await scene.say("How are you?")


async def queued(scene: Scene) -> None:
    """A message waits for the one before it."""
    held = Held(Answer.of("First."))
    scene.model.add(held, Answer.of("Second."))
    first = await scene.send("One.")
    async with asyncio.timeout(WITHIN):
        await held.held.wait()
    second = await scene.send("Two.")
    held.go_on.set()
    await rest(first)
    await rest(second)


async def steered(scene: Scene) -> None:
    """A queued message is given to the running turn, which answers both."""
    held = Held(Answer.of("First."))
    scene.model.add(held, Answer.of("Second."), Answer.of("Third."))
    first = await scene.send("One.")
    async with asyncio.timeout(WITHIN):
        await held.held.wait()
    second = await scene.send("Two.")
    assert await scene.talk.chats.steer(USER, first.chat, second.turn)
    held.go_on.set()
    assert (await rest(first))[-1].data["text"] == "First.Second."
    assert [event.kind for event in await rest(second)][-2:] == ["steered", "done"]
    await scene.say("Three.")


async def refused(scene: Scene) -> None:
    """An error of the API that is not asked again after; then the chat goes on."""
    scene.model.add(Failure(402, "billing_error", "No money."), Answer.of("Here."))
    await scene.say("Hello.")
    await scene.say("And now?")


async def stopped_in_text(scene: Scene) -> None:
    """A stop while the model writes, and one while it says nothing."""
    held = Held(Answer.of(Text("One, two, three, four, five.", piece=40)), after=3)
    scene.model.add(held, Hang(), Answer.of("Here."))
    begun = await scene.send("Count.")
    await until(begun, "text")
    await scene.stop()
    await rest(begun)
    asked_before = len(scene.model.requests)
    begun = await scene.send("And now?")
    async with asyncio.timeout(WITHIN):
        await scene.model.requested(asked_before + 1)
    await scene.stop()
    await rest(begun)
    await scene.say("Are you there?")


async def calls(scene: Scene) -> None:
    """Several calls in an answer: of those that change, of those that fail, of none that exists."""
    name = scene.write("a = 1", "b = 2")
    scene.model.add(
        Answer.of(
            "I look.",
            ToolUse("read_cell", {"cell": 0}),
            INSERT,
            ToolUse("insert_cell", {"source": "y = 2"}),
            ToolUse("read_cell", {"cell": 99}),
        ),
        Answer.of(ToolUse("Bash", {"command": "id"}), ToolUse("insert_cell", {"cell": "?"})),
        Answer.of("Done."),
    )
    await scene.say("Work.", notebook=name, mode="auto")


async def permissions(scene: Scene) -> None:
    """A call that a person denies, and one that is approved."""
    name = scene.write("a = 1")
    scene.model.add(Answer.of(INSERT), Answer.of("Well."), Answer.of(INSERT), Answer.of("Done."))
    for message, answer in (("Add.", "deny"), ("Add it.", "once")):
        begun = await scene.send(message, notebook=name)
        await answering(scene.talk, begun, answer)


async def pictures(scene: Scene) -> None:
    """A picture in a tool's answer, and one in what is shown."""
    name = scene.write(DRAWN)
    scene.model.add(
        Answer.of(ToolUse("execute_cell", {"cell": 0})), Answer.of("A plot."), Answer.of("I see.")
    )
    await scene.say("Draw.", notebook=name, mode="auto")
    attached = [{"kind": "output", "cell": "0", "output": 1}]
    await scene.say("Look.", notebook=name, attachments=attached)


async def stopped_in_a_call(scene: Scene) -> None:
    """A stop while a call waits for its approval, with another one behind it."""
    scene.model.add(Answer.of("Well.", INSERT, INSERT), Answer.of("Here."))
    begun = await scene.send("Add.", notebook=scene.write("a = 1"))
    seen = 0
    async with asyncio.timeout(WITHIN):
        async for event in begun.events:
            seen += event.kind in ("tool_call", "permission")
            if seen == 3:
                break
    await scene.stop()
    await rest(begun)
    await scene.say("Are you there?")


async def branches(scene: Scene) -> None:
    """A chat goes on in the next server, from before a message that is replaced, and from its start."""
    names = ("Ada.", "Plum.", "Pear.", "Green.", "Nobody.")
    scene.model.add(*(Answer.of(name) for name in names))
    first = await scene.say("I am Ada.")
    await scene.reopen()
    second = await scene.say("Name a fruit.")
    await scene.say("Another.", replaces=second[0].turn)
    await scene.reopen()
    await scene.say("Its colour?")
    await scene.say("Who am I?", replaces=first[0].turn)


@pytest.mark.parametrize(
    "scripts",
    [
        (words, queued, steered, refused, stopped_in_text),
        (calls, permissions, pictures, stopped_in_a_call),
        (branches,),
    ],
    ids=["text", "calls", "branches"],
)
async def test_a_chat_is_the_same_with_the_cli_and_with_its_stand_in(
    harness: ToolHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scripts: Sequence[Script]
) -> None:
    real = await played(scripts, "real", harness, tmp_path)
    cli_stand_in.install(monkeypatch)
    assert await played(scripts, "play", harness, tmp_path) == real


async def played(
    scripts: Sequence[Script], name: str, harness: ToolHarness, folder: Path
) -> list[Any]:
    """What the scripts brought: the events of their chat, and what the model was asked."""
    async with ScriptedModel().running() as model:
        scene = Scene(harness, model, folder / name)
        try:
            for script in scripts:
                await script(scene)
                assert model.left == 0, script
            events = await scene.talk.chats.events(USER, str(scene.chat))
        finally:
            await scene.talk.close()
    assert events[-1].kind == "done"
    return plain([*in_order(events), *(asked_for(request) for request in model.requests)], name)


def in_order(events: list[Event]) -> list[Any]:
    """The events of each turn, and of each call: a call goes on while the next one is written."""
    groups: dict[str, list[Any]] = {}
    for event in events:
        # Left out is what differs each time: times, costs, and the journal's numbers.
        left_out = ("cost_usd", "session_cost_usd", "seconds", "time", "entry")
        data = {name: each for name, each in event.data.items() if name not in left_out}
        if event.kind != "tool_progress":
            group = groups.setdefault(str(data.get("call", event.turn)), [])
            if event.kind == "text" and group and group[-1][0] == "text":
                # How a text is cut into events is a matter of time.
                before = group[-1][1]
                if before["block"] == data["block"]:
                    assert data["start"] == before["start"] + len(before["text"])
                    before["text"] += data["text"]
                    continue
            group.append([event.kind, data])
    return list(groups.values())


def asked_for(request: MessagesRequest) -> Any:
    """What the model got: the conversation by blocks, without what the CLI adds of its own."""
    messages = [
        [message["role"], [block_of(block) for block in blocks]]
        for message in request.messages
        if message["role"] != "system" and (blocks := own(message["content"]))
    ]
    instructions = request.body["system"][-1]["text"]
    return [request.model, request.streams, sorted(request.tools), instructions, messages]


def own(content: Any) -> list[Any]:
    """The blocks of a message without what the CLI adds for the model: reminders, names of pictures."""
    return [
        block
        for block in blocks_of(content)
        if not str(block.get("text", "")).startswith(("<system-reminder>", "[Image: "))
    ]


def block_of(block: Any) -> Any:
    """A block of a message without what concerns caches, and the CLI's own words."""
    kept = {name: each for name, each in block.items() if name != "cache_control"}
    if block["type"] == "text":
        return {"type": "text", "text": block["text"].rstrip()}
    if block["type"] == "tool_result":
        content = [block_of(each) for each in own(block["content"])]
        if "doesn't want to proceed" in str(content):
            content = ["The call was stopped."]
        return {**kept, "content": content}
    return kept


RANDOM = re.compile(
    r"toolu_\w+|\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b[0-9a-f]{8,}\b"
    # Cells: their addresses, and their ids where they are shortened.
    r'|\b[0-9a-f]{4}\.[0-9a-f]{8}\b|(?<=@)[0-9a-f]{4}\b|(?<="cell": ")[0-9a-f]{4}(?=")'
    r'|(?<="signature": ")[^"]+'
)


def plain(values: list[Any], name: str) -> list[Any]:
    """The same with random ids numbered as they come, without what is measured and the notebook's name."""
    names: dict[str, str] = {}
    text = json.dumps(values, sort_keys=True).replace(f"{name}.ipynb", "a.ipynb")
    text = re.sub(r'\d+(\.\d+)? (s|MB|% CPU)\b|(?<="duration": )[\d.]+', "0", text)
    return json.loads(RANDOM.sub(lambda found: names.setdefault(found[0], f"#{len(names)}"), text))
