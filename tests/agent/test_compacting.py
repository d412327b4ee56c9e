"""Claude's CLI compacts a chat, and says how much of the model's context it takes.

The messages are those of the CLI 2.1.332.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import claude_agent_sdk as sdk
import pytest

from tk_ai_extension.agent.backend import (
    COMPACTING,
    AgentEvent,
    Checkpoint,
    TextBlock,
    TurnEnded,
    Working,
)
from tk_ai_extension.agent.claude.client import ClaudeSession, _TurnToken
from tk_ai_extension.agent.claude.translator import CostMeter, Translator
from tk_ai_extension.agent.events import Noticed, Used
from tk_ai_extension.model.sentences import sentence_info
from tk_ai_extension.workspace.turn_credentials import TurnCredential

MODEL = "claude-known-1"


def streamed(kind: str, **event: Any) -> sdk.StreamEvent:
    return sdk.StreamEvent("event", "session", {"type": kind, **event})


def asked(tokens: int, cached: int = 0) -> sdk.StreamEvent:
    usage = {"input_tokens": tokens, "cache_read_input_tokens": cached, "output_tokens": 1}
    return streamed("message_start", message={"model": MODEL, "usage": usage})


def answered(tokens: int, **more: int) -> sdk.StreamEvent:
    delta = {"stop_reason": "end_turn"}
    return streamed("message_delta", delta=delta, usage={"output_tokens": tokens, **more})


def result(text: str = "", **model: Any) -> sdk.ResultMessage:
    usage: Any = {MODEL: {"contextWindow": 200_000, "inputTokens": 1, **model}}
    return sdk.ResultMessage(
        *("success", 1, 1),
        is_error=False,
        num_turns=1,
        session_id="session",
        result=text,
        usage={},
        model_usage=usage,
    )


BOUNDARY = sdk.SystemMessage(
    "compact_boundary", {"compact_metadata": {"trigger": "manual", "post_tokens": 468}}
)
DONE = sdk.UserMessage("<local-command-stdout>Compacted </local-command-stdout>", uuid="last")


def events(*messages: Any, compacts: bool = False) -> list[AgentEvent]:
    translator = Translator(CostMeter(), lambda text: text.replace("KEY", "…"), compacts=compacts)
    return [event for message in messages for event in translator.translate(message)]


def used(*messages: Any) -> tuple[int | None, int | None]:
    (usage,) = [each for each in events(*messages) if isinstance(each, Used)]
    assert usage.compacts
    return usage.context_tokens, usage.context_window


@pytest.mark.proves("ui:context-meter")
@pytest.mark.parametrize(
    ("messages", "tokens"),
    [
        ([], None),
        ([asked(10, 30), answered(5)], 45),
        # The last request of a turn with calls has everything.
        ([asked(10), answered(5), asked(100, 40), answered(7)], 147),
        # A provider that counts the input at the end, and one whose stream was cut.
        ([asked(0), answered(5, input_tokens=90)], 95),
        ([asked(10, 30)], 41),
        ([asked(900), answered(5), BOUNDARY], 468),
    ],
)
def test_the_context_is_that_of_the_last_request(messages: list[Any], tokens: int | None) -> None:
    assert used(*messages, result()) == (tokens, 200_000)


@pytest.mark.proves("ui:context-meter")
def test_the_size_for_an_unknown_model_is_not_taken() -> None:
    assert used(result(contextWindow=1_000_000, costBasis="unknown"))[1] is None
    assert used(result(contextWindow=1_000_000, costBasis="list"))[1] == 1_000_000


@pytest.mark.proves("ui:context-meter")
def test_a_chat_is_compacted_and_continues_after_the_summary() -> None:
    found = events(BOUNDARY, DONE, result(), compacts=True)
    (notice,) = [each for each in found if isinstance(each, Noticed)]
    info = sentence_info(notice.text)
    assert info is not None
    assert info.code == "compacted"
    assert Checkpoint("session", "last") in found
    assert found[-1] == TurnEnded()


@pytest.mark.proves("ui:context-meter")
def test_a_chat_that_could_not_be_compacted_says_why_without_secrets() -> None:
    said = "Error: No messages to compact with KEY"
    message = sdk.AssistantMessage([sdk.TextBlock(said)], "<synthetic>")
    ended = events(message, result(), compacts=True)[-1]
    assert isinstance(ended, TurnEnded)
    assert ended.error is not None
    assert ended.error.message == "The chat could not be compacted: No messages to compact with …."
    assert events(message, result())[-1] == TurnEnded()


def test_a_summary_may_take_longer_than_an_answer() -> None:
    """Also where the CLI compacts by itself, it streams nothing until the summary is there."""
    status = sdk.SystemMessage("status", {"status": "compacting"})
    assert events(status) == [Working(COMPACTING)]
    assert events(sdk.SystemMessage("status", {"status": "requesting"})) == [Working()]


class Client:
    """A client that keeps what it is asked to send."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    async def query(self, messages: AsyncIterator[dict[str, Any]]) -> None:
        self.sent += [each async for each in messages]

    async def receive_messages(self) -> AsyncIterator[Any]:
        return
        yield

    async def disconnect(self) -> None: ...


async def test_a_message_is_delivered_as_written_and_only_the_command_is_carried_out() -> None:
    client: Any = Client()
    session = ClaudeSession(client, MODEL, _TurnToken(), CostMeter(), str)
    credential = TurnCredential("token", "user")
    await session.send([TextBlock("/compact @/etc/passwd")], model=MODEL, credential=credential)
    await session.compact(model=MODEL, credential=credential)
    await session.close()
    message, command = client.sent
    assert message["client_composed"] is True
    assert "client_composed" not in command
    assert command["message"]["content"] == [{"type": "text", "text": "/compact"}]
