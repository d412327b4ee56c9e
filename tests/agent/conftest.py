"""Chats in a real Jupyter server, with Claude's SDK and CLI, and a model that plays a script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.harness import ToolHarness, backend, harness, jp_server_config
from tests.support.chat_requests import parse_request
from tests.support.echo_agent import EchoBackend
from tests.support.scripted_model import KEY, MODEL, Answer, ScriptedModel
from tk_ai_extension.agent.backend import AgentBackend, ContentBlock, TextBlock
from tk_ai_extension.agent.chat_events import ChatEvent
from tk_ai_extension.agent.chat_setup import ChatSetup
from tk_ai_extension.agent.chat_store import ChatStore
from tk_ai_extension.agent.chats import Chats, TurnStream
from tk_ai_extension.agent.claude.backend import ClaudeBackend
from tk_ai_extension.agent.claude.providers import ClaudeProvider
from tk_ai_extension.agent.live_chat import ChatLimits, ChatServices
from tk_ai_extension.workspace.permissions import Answer as Approval

__all__ = ["backend", "harness", "jp_server_config"]

USER = "alice"
WITHIN = 30.0
"""Timeout of waits in tests, in seconds."""


class Talk:
    """A person's side of the chats."""

    def __init__(self, chats: Chats, services: ChatServices, model: ScriptedModel) -> None:
        self.chats = chats
        self.services = services
        self.model = model
        self._closed = False

    async def close(self) -> None:
        """The server stops, once."""
        if not self._closed:
            self._closed = True
            await self.chats.close()

    async def send(self, message: str, user: str = USER, **fields: Any) -> TurnStream:
        return await self.chats.send(user, parse_request({"message": message, **fields}))

    async def say(self, message: str, user: str = USER, **fields: Any) -> list[ChatEvent]:
        """Sends a message and returns its events."""
        begun = await self.send(message, user, **fields)
        return [event async for event in begun.events]

    async def answered(self, begun: TurnStream, answer: Approval) -> list[ChatEvent]:
        """All events of a turn in which each question gets this answer."""
        found: list[ChatEvent] = []
        async with asyncio.timeout(WITHIN):
            async for event in begun.events:
                found.append(event)
                if event.kind == "permission":
                    self.services.workspace.policy.answer(USER, event.data["id"], answer)
        return found

    async def approved(
        self, message: str, answer: Approval = "once", **fields: Any
    ) -> list[ChatEvent]:
        """Sends a message, answers each question, and returns all events."""
        return await self.answered(await self.send(message, **fields), answer)


def talk_with(
    harness: ToolHarness,
    backend: AgentBackend,
    folder: Path,
    model: ScriptedModel | None = None,
    setup: ChatSetup | None = None,
    **settings: Any,
) -> Talk:
    """Open the chats of a server with an agent; those that the folder has are there again."""
    services = ChatServices(
        workspace=harness.workspace,
        registry=harness.registry,
        store=ChatStore(folder / "chats" / "chats.sqlite"),
        backend=backend,
        settings=ChatLimits(**settings),
        setup=setup or ChatSetup(),
    )
    return Talk(Chats(services), services, model or ScriptedModel())


Open = Callable[..., Talk]


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel().running() as model:
        yield model


@pytest.fixture
async def open_chats(
    harness: ToolHarness, model: ScriptedModel, tmp_path: Path
) -> AsyncIterator[Open]:
    """Opens the chats of a server; those of one that was closed are there again."""
    opened: list[Talk] = []

    async def provider() -> ClaudeProvider:
        return ClaudeProvider(MODEL, (MODEL,), "compatible", model.environment, secrets=(KEY,))

    def open_(cli: str = "", setup: ChatSetup | None = None, **settings: Any) -> Talk:
        claude = ClaudeBackend(tmp_path / "claude", provider, cli)
        opened.append(talk_with(harness, claude, tmp_path, model, setup, **settings))
        return opened[-1]

    yield open_
    for talk in opened:
        await talk.close()


@pytest.fixture
def talk(open_chats: Open) -> Talk:
    return open_chats()


@pytest.fixture
async def echoing(harness: ToolHarness, tmp_path: Path) -> AsyncIterator[Talk]:
    """A person who chats with the echo agent."""
    talk = talk_with(harness, EchoBackend(), tmp_path)
    yield talk
    await talk.close()


def received(echoing: Talk) -> Sequence[ContentBlock]:
    """The last message that the echo agent received."""
    backend = echoing.services.backend
    assert isinstance(backend, EchoBackend)
    return backend.received[-1]


def seen_by_echo(echoing: Talk) -> str:
    """The text of the last message that the echo agent received."""
    return "\n".join(part.text for part in received(echoing) if isinstance(part, TextBlock))


def kinds(events: list[ChatEvent]) -> list[str]:
    """The kinds of events in their order, pieces of one kind as one."""
    found: list[str] = []
    for event in events:
        if not found or found[-1] != event.kind:
            found.append(event.kind)
    return found


def of_kind(events: list[ChatEvent], kind: str) -> list[dict[str, Any]]:
    """The data of the events of a kind."""
    return [event.data for event in events if event.kind == kind]


def processes() -> list[psutil.Process]:
    """The Claude processes of this process."""
    children = psutil.Process().children(recursive=True)
    return [child for child in children if child.name().startswith("claude")]


async def after(seconds: float) -> None:
    passed = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(seconds, passed.set_result, None)
    await passed


async def until(begun: TurnStream, kind: str) -> ChatEvent:
    """Waits for an event of this kind in a turn; those before it are dropped."""
    async with asyncio.timeout(WITHIN):
        async for event in begun.events:
            if event.kind == kind:
                return event
    raise AssertionError(f"no {kind}")


async def rest(begun: TurnStream) -> list[ChatEvent]:
    """The events of a turn that were not received yet."""
    async with asyncio.timeout(WITHIN):
        return [event async for event in begun.events]


async def goes_on(talk: Talk, chat: str) -> None:
    """Check that the chat answers again, with its history."""
    talk.model.add(Answer.of("Here I am."))
    async with asyncio.timeout(WITHIN):
        events = await talk.say("Are you there?", chat=chat)
    assert events[-1].data == {"end": "done", "text": "Here I am."}
