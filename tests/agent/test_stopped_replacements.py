"""The agent does not know what the chat shows as replaced, whatever becomes of the replacement."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.agent.conftest import USER, Talk, talk_with
from tests.agent.test_backend_contract import until
from tests.harness import ToolHarness, loop_turns
from tests.support.echo_agent import EchoBackend, EchoSession
from tk_ai_extension.agent.backend import AgentEvent, Checkpoint, SessionConfig, TurnEnded
from tk_ai_extension.agent.events import TextDelta
from tk_ai_extension.workspace.turn_credentials import TurnCredential

WITHIN = 20.0


@dataclass
class Slow(EchoBackend):
    """An echo whose turns end once `may_end` is set; a message that begins with ``hold`` is not answered."""

    may_end: asyncio.Event = field(default_factory=asyncio.Event)

    async def start(self, config: SessionConfig) -> SlowSession:
        session = await super().start(config)
        slow = SlowSession(self, config.call, session._session, session._kept)
        slow.may_end = self.may_end
        return slow


class SlowSession(EchoSession):
    may_end: asyncio.Event

    async def receive(self) -> AgentEvent:
        event = await super().receive()
        if isinstance(event, TurnEnded):
            await self.may_end.wait()
        return event

    async def _answer(self, text: str, credential: TurnCredential) -> None:
        if not text.startswith("hold"):
            await super()._answer(text, credential)
            return
        try:
            self.events.put_nowait(Checkpoint(self._session))
            self.events.put_nowait(TextDelta(0, 0, "Well."))
            await asyncio.Event().wait()
        finally:
            self.events.put_nowait(Checkpoint(self._session, str(len(self._kept))))


@pytest.fixture
def echo() -> Slow:
    slow = Slow()
    slow.may_end.set()
    return slow


Open = Callable[[], Talk]


@pytest.fixture
async def open_talk(harness: ToolHarness, echo: Slow, tmp_path: Path) -> AsyncIterator[Open]:
    """Opens the chats of a server; those of one that was closed are there again."""
    opened: list[Talk] = []

    def open_() -> Talk:
        opened.append(talk_with(harness, echo, tmp_path))
        return opened[-1]

    yield open_
    echo.may_end.set()
    for talk in opened:
        await talk.close()


async def known(talk: Talk, chat: str) -> list[str]:
    """What the agent knows of a chat."""
    async with asyncio.timeout(WITHIN):
        return (await talk.say("recall", chat=chat))[-1].data["text"].splitlines()


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize(
    ("is_running", "stopped"),
    [
        *((True, moment) for moment in ("waiting", "running", "ended", "replaced")),
        *((False, moment) for moment in ("running", "ended", "replaced")),
    ],
)
async def test_replaced_turns_are_forgotten_whenever_the_replacement_is_stopped(
    open_talk: Open, echo: Slow, is_running: bool, stopped: str, is_restarted: bool
) -> None:
    talk = open_talk()
    chat = (await talk.say("One."))[0].data["chat"]
    replaced = (await talk.say("Two.", chat=chat))[0].turn
    if is_running:
        await until(await talk.send("hold it", chat=chat), "text")
        echo.may_end.clear()
    replacement = await talk.send("hold this", chat=chat, replaces=replaced)
    kept = ["One."]
    if stopped == "replaced":
        again = await talk.send("Three.", chat=chat, replaces=replacement.turn)
        echo.may_end.set()
        await until(again, "done")
        kept.append("Three.")
    elif stopped != "waiting":
        echo.may_end.set()
        await until(replacement, "text")
        kept.append("hold this")
    await talk.chats.stop(USER, chat)
    echo.may_end.set()
    async with asyncio.timeout(WITHIN):
        ended = [event async for event in replacement.events]
    assert ended[-1].data["end"] == "stopped"
    if stopped == "ended":
        await talk.say("Four.", chat=chat)
        kept.append("Four.")
    if is_restarted:
        await talk.close()
        talk = open_talk()
    assert await known(talk, chat) == kept


@pytest.mark.parametrize("seed", range(12))
async def test_the_agent_knows_what_the_chat_keeps_in_any_order_of_events(
    open_talk: Open, echo: Slow, seed: int
) -> None:
    randomness = Random(seed)
    talk = open_talk()
    chat = (await talk.say("Message 0."))[0].data["chat"]
    for number in range(1, 16):
        await talk.chats.events(USER, chat)  # All are stored.
        turns = await talk.services.transcripts.turns(chat)
        fields: dict[str, Any] = {"chat": chat}
        match randomness.choice(["say", "say", "hold", "replace", "replace", "stop", "pass"]):
            case "say":
                await talk.send(f"Message {number}.", **fields)
            case "hold":
                await talk.send(f"hold {number}", **fields)
            case "replace" if turns:
                text = randomness.choice(["hold {}", "Message {}."]).format(number)
                await talk.send(text, **fields, replaces=randomness.choice(turns))
            case "stop":
                await talk.chats.stop(USER, chat, randomness.choice([None, *turns]))
            case _:
                await loop_turns(randomness.choice([1, 10, 100]))
        if randomness.random() < 0.5:
            echo.may_end.clear()
        else:
            echo.may_end.set()
        if randomness.random() < 0.1:
            echo.may_end.set()
            await talk.close()
            talk = open_talk()
    await talk.chats.stop(USER, chat)
    echo.may_end.set()
    recalled = await known(talk, chat)
    events = await talk.chats.events(USER, chat)
    texts = {event.turn: event.data["text"] for event in events if event.kind == "message"}
    done = {event.turn for event in events if event.kind == "done" and event.data["end"] == "done"}
    kept = (await talk.services.transcripts.turns(chat))[:-1]
    assert [texts[turn] for turn in kept if texts[turn] in recalled] == recalled
    assert {texts[turn] for turn in kept if turn in done} <= set(recalled)
