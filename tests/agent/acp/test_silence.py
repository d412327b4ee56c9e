"""How long an agent may be silent: while a call of its own is running, longer than otherwise."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.agent.acp.conftest import AcpTalk, OpenAcp
from tests.agent.conftest import after, of_kind
from tk_ai_extension.agent.acp import session
from tk_ai_extension.agent.chats import StartedTurn
from tk_ai_extension.agent.events import Event
from tk_ai_extension.model.callers import Mode

pytestmark = pytest.mark.proves("ext:any-agent", "chat:one-end")

SILENCE = 1.0


@dataclass(frozen=True)
class Fifo:
    """What the agent's command waits for."""

    path: Path
    descriptor: int

    def end_command(self) -> None:
        os.write(self.descriptor, b"\n")


@pytest.fixture
def fifo(tmp_path: Path) -> Iterator[Fifo]:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    # Also for reading: it waits for no reader.
    descriptor = os.open(path, os.O_RDWR)
    yield Fifo(path, descriptor)
    os.close(descriptor)


@pytest.fixture
def quiet(open_acp: OpenAcp) -> AcpTalk:
    """Chats with an agent that may be silent for a moment only."""
    script = Path(__file__).with_name("asking_agent.py")
    return open_acp(agents={"asking": [sys.executable, str(script)]}, silence=SILENCE)


async def begun(talk: AcpTalk, fifo: Fifo, *how: str, mode: Mode = "auto") -> StartedTurn:
    """A turn in which the agent runs a command."""
    message = f"command {json.dumps({'fifo': str(fifo.path), **dict.fromkeys(how, True)})}"
    return await talk.send(message, model="asking", mode=mode)


async def rest(started: StartedTurn) -> list[Event]:
    """The events of a turn that were not received yet."""
    async with asyncio.timeout(20):
        return [event async for event in started.events]


def silent(events: list[Event]) -> None:
    """The turn has failed, and its only call has one result."""
    (error,) = of_kind(events, "error")
    assert error["error"]["code"] == "model_failed"
    assert events[-1].data["end"] == "failed"
    assert len(of_kind(events, "tool_call")) == 1
    assert len(of_kind(events, "tool_result")) == 1


@pytest.mark.parametrize("how", [("asks", "begins"), ("asks",), ("asks", "begins", "says"), ()])
async def test_a_command_may_be_silent_while_it_runs(
    quiet: AcpTalk, fifo: Fifo, how: Sequence[str]
) -> None:
    started = await begun(quiet, fifo, *how)
    await quiet.until(started, "tool_call")
    await after(1.3 * SILENCE)
    fifo.end_command()
    events = await rest(started)
    (result,) = of_kind(events, "tool_result")
    assert result["ok"]
    assert events[-1].data["end"] == "done"
    assert events[-1].data["text"].endswith("Built.")


async def test_a_command_that_was_refused_or_has_ended_does_not_run(
    quiet: AcpTalk, fifo: Fifo
) -> None:
    refused = await rest(await begun(quiet, fifo, "asks", "begins", mode="plan"))
    silent(refused)
    assert not of_kind(refused, "tool_result")[0]["ok"]
    started = await begun(quiet, fifo, "hangs")
    fifo.end_command()
    ended = await rest(started)
    silent(ended)
    assert of_kind(ended, "tool_result")[0]["ok"]


async def test_a_command_whose_end_is_not_reported_ends_with_the_turn(
    quiet: AcpTalk, fifo: Fifo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "OWN_CALL", 0.1)
    events = await rest(await begun(quiet, fifo, "asks", "begins"))
    silent(events)
    (result,) = of_kind(events, "tool_result")
    assert (result["ok"], result["structured"]["error"]["code"]) == (False, "stopped")
    answered = await quiet.say("Hello.", model="asking", chat=events[0].data["chat"])
    assert answered[-1].data["text"] == "Hello."


@pytest.mark.proves("chat:one-end")
async def test_a_command_of_an_agent_that_dies_has_a_result(quiet: AcpTalk, fifo: Fifo) -> None:
    started = await begun(quiet, fifo, "begins", "dies")
    fifo.end_command()
    events = await rest(started)
    assert [each["ok"] for each in of_kind(events, "tool_result")] == [False]
    assert of_kind(events, "error")[0]["error"]["code"] == "agent_died"
