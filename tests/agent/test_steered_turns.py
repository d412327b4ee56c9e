"""A message that Claude's process takes into a running turn, or answers after it: one turn."""

from __future__ import annotations

from typing import Any

import claude_agent_sdk as sdk
import pytest

from tk_ai_extension.agent.backend import TurnEnded
from tk_ai_extension.agent.claude.translator import CostMeter, Translator
from tk_ai_extension.agent.events import Used

pytestmark = pytest.mark.proves("rest:chat")


def result(cost: float) -> sdk.ResultMessage:
    """The result of an answer; the cost is the session's so far."""
    return sdk.ResultMessage(
        subtype="success",
        duration_ms=500,
        duration_api_ms=500,
        is_error=False,
        num_turns=1,
        session_id="s",
        total_cost_usd=cost,
        usage={"input_tokens": 3, "output_tokens": 5},
    )


def taken(message_id: str) -> sdk.UserMessage:
    """What the process says when it takes a message."""
    return sdk.UserMessage(content=[sdk.TextBlock("Faster.")], uuid=message_id)


def ends(translator: Translator, messages: list[Any]) -> list[bool]:
    """Of each message, whether it ends the turn."""
    return [
        any(isinstance(event, TurnEnded) for event in translator.translate(message))
        for message in messages
    ]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        # Within the turn, beside the result of a tool.
        ([taken("1"), result(1)], [False, True]),
        # After the answer that was being written.
        ([result(1), taken("1"), result(2)], [False, False, True]),
        # Of another process's messages, none is waited for.
        ([taken("other"), result(1), taken("1"), result(2)], [False, False, False, True]),
    ],
)
def test_the_turn_ends_once_its_messages_are_answered(
    messages: list[Any], expected: list[bool]
) -> None:
    translator = Translator(CostMeter())
    translator.steered.add("1")
    assert ends(translator, messages) == expected
    assert not translator.running
    assert not translator.abandoned


def test_an_interrupted_turn_ends_at_once_and_its_process_is_not_used_again() -> None:
    translator = Translator(CostMeter())
    translator.steered.add("1")
    translator.interrupted = True
    assert ends(translator, [result(1)]) == [True]
    assert translator.abandoned


def test_the_usage_of_both_answers_is_the_turns() -> None:
    translator = Translator(CostMeter())
    translator.steered.add("1")
    messages = [result(1), taken("1"), result(3)]
    used = [event for each in messages for event in translator.translate(each)]
    last = [event for event in used if isinstance(event, Used)][-1]
    assert (last.input_tokens, last.output_tokens, last.requests) == (6, 10, 2)
    assert (last.cost_usd, last.seconds) == (3.0, 1.0)
