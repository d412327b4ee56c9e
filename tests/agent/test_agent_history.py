"""What the agent forgets of a chat is what the chat says, and nothing is deleted because of an error."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.agent.conftest import USER, Talk, of_kind, talk_with
from tests.harness import ToolHarness
from tests.support.echo_agent import EchoBackend, EchoSession
from tk_ai_extension.agent.backend import (
    AgentEvent,
    Checkpoint,
    ContentBlock,
    HistoryMissing,
    SessionConfig,
    TextBlock,
)
from tk_ai_extension.model.agent_errors import AgentDied, AgentUnavailable
from tk_ai_extension.model.errors import ToolError

pytestmark = pytest.mark.proves("chat:one-end")

LOST = "has lost"


@dataclass
class Failing(EchoBackend):
    """An echo that raises some errors when it is started.

    Attributes:
        errors: What it raises, the next one first.
        configs: What it was started with.
        unforgettable: Whether it cannot remove a session.
    """

    errors: list[ToolError] = field(default_factory=list[ToolError])
    configs: list[SessionConfig] = field(default_factory=list[SessionConfig])
    unforgettable: bool = False

    async def start(self, config: SessionConfig) -> EchoSession:
        self.configs.append(config)
        if self.errors:
            raise self.errors.pop(0)
        session = await super().start(config)
        return Dying(config.call, session._session, session._kept)

    async def forget(self, session: str) -> None:
        if self.unforgettable:
            raise OSError("It cannot be removed.")
        await super().forget(session)


class Dying(EchoSession):
    """A session whose process dies during the answer to ``die``, before its position is known."""

    dies = False

    async def send(self, content: Sequence[ContentBlock], **options: Any) -> None:
        self.dies = content[-1] == TextBlock("die")
        await super().send(content, **options)

    async def receive(self) -> AgentEvent:
        event = await super().receive()
        if self.dies and isinstance(event, Checkpoint) and event.position is not None:
            raise AgentDied("The echo has ended.")
        return event


Open = Callable[..., Talk]


@pytest.fixture
async def open_talk(harness: ToolHarness, tmp_path: Path) -> AsyncIterator[Open]:
    """Opens the chats of a server with an agent; those of one that was closed are there again."""
    opened: list[Talk] = []

    def open_(backend: EchoBackend, **settings: Any) -> Talk:
        opened.append(talk_with(harness, backend, tmp_path, **settings))
        return opened[-1]

    yield open_
    for talk in opened:
        await talk.close()


@pytest.mark.parametrize("error", [AgentDied, AgentUnavailable])
async def test_a_start_that_fails_costs_no_history(open_talk: Open, error: type[ToolError]) -> None:
    echo = Failing()
    talk = open_talk(echo)
    chat = (await talk.say("I am Ada."))[0].data["chat"]
    await talk.close()
    talk = open_talk(echo)
    echo.errors = [error("It cannot be started now.")]
    assert (await talk.say("recall", chat=chat))[-1].data["end"] == "failed"
    events = await talk.say("recall", chat=chat)
    assert "I am Ada." in events[-1].data["text"]
    assert of_kind(events, "notice") == []


async def test_a_lost_history_is_given_up_and_its_data_stay_until_the_chat_is_deleted(
    open_talk: Open,
) -> None:
    echo = Failing()
    talk = open_talk(echo)
    chat = (await talk.say("I am Ada."))[0].data["chat"]
    await talk.close()
    talk = open_talk(echo)
    echo.errors = [HistoryMissing("It cannot be resumed.")]
    events = await talk.say("recall", chat=chat)
    assert LOST in of_kind(events, "notice")[0]["text"]
    assert events[-1].data["text"] == ""
    assert any("I am Ada." in kept for kept in echo.kept.values())
    await talk.chats.delete(USER, chat)
    assert echo.kept == {}


async def test_an_agent_that_cannot_remove_its_data_answers(open_talk: Open) -> None:
    echo = Failing(unforgettable=True)
    talk = open_talk(echo)
    first = await talk.say("I am Ada.")
    chat = first[0].data["chat"]
    replacement = await talk.say("I am Grace.", chat=chat, replaces=first[0].turn)
    assert replacement[-1].data["end"] == "done"
    await talk.chats.delete(USER, chat)


@pytest.mark.parametrize("seed", range(4))
async def test_what_stands_before_a_replaced_message_is_known_or_the_chat_says_so(
    open_talk: Open, seed: int
) -> None:
    """Some answers end early: then the agent may know them as long as its session goes on."""
    randomness = random.Random(seed)
    talk = open_talk(Failing())
    sent: list[str] = []
    fields: dict[str, Any] = {}
    for number in range(5):
        text = "die" if randomness.random() < 0.4 else f"Message {number}."
        turn = (await talk.say(text, **fields))[0]
        fields["chat"] = turn.data["chat"]
        sent.append(text)
    last = (await talk.say("The last one.", **fields))[0].turn
    recalled = await talk.say("recall", **fields, replaces=last)
    known = recalled[-1].data["text"].splitlines()
    said = LOST in str(of_kind(recalled, "notice"))
    assert known == sent[: len(known)]
    assert said == (known != sent)
