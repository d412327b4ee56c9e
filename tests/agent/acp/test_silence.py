"""How long an agent may be silent: longer while one of its calls is running."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.agent.acp.conftest import AcpTalk, OpenAcp
from tests.agent.conftest import after, of_kind, rest, until
from tk_ai_extension.agent.chat_events import ChatEvent
from tk_ai_extension.agent.chats import TurnStream
from tk_ai_extension.model.callers import Mode

pytestmark = pytest.mark.proves("ext:any-agent", "chat:one-end")

SILENCE = 1.0


@dataclass(frozen=True)
class Fifo:
    """The FIFO for which the agent's command waits."""

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
    """Chats with an agent that has a short inactivity timeout."""
    return open_acp(silence=SILENCE)


async def begun(talk: AcpTalk, fifo: Fifo, *how: str, mode: Mode = "auto") -> TurnStream:
    """A turn in which the agent runs a command."""
    message = f"command {json.dumps({'fifo': str(fifo.path), **dict.fromkeys(how, True)})}"
    return await talk.send(message, mode=mode)


def silent(events: list[ChatEvent]) -> None:
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
    await until(started, "tool_call")
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
