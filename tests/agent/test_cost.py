"""What a turn costs is counted once, whatever Claude's process adds up."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agent.conftest import Open, Talk, of_kind
from tests.support.scripted_model import UNAUTHORIZED, Answer, ToolUse, Turn

pytestmark = pytest.mark.real_cli


async def cost(talk: Talk, *answers: Turn, **fields: Any) -> float:
    """The cost of one message, in dollars; the model's prices for all answers are equal."""
    talk.model.add(*(answers or [Answer.of("Hello.")]))
    events = await talk.say("Hello.", **fields)
    return of_kind(events, "usage")[0]["cost_usd"]


@pytest.mark.proves("ui:turn-cost")
async def test_the_cost_of_a_turn_is_its_own(open_chats: Open) -> None:
    talk = open_chats()
    talk.model.add(Answer.of("Hello."))
    first = await talk.say("Hello.")
    (usage,) = of_kind(first, "usage")
    price = usage["cost_usd"]
    assert price > 0
    chat = first[0].data["chat"]
    assert await cost(talk, chat=chat) == pytest.approx(price)
    tool = Answer.of(ToolUse("list_files", {}))
    assert await cost(talk, tool, Answer.of("."), chat=chat) == pytest.approx(2 * price)
    assert await cost(talk, UNAUTHORIZED, chat=chat) == 0
    assert await cost(talk, chat=chat) == pytest.approx(price)

    # Its process resumes the session, and continues its total.
    await talk.close()
    talk = open_chats()
    assert await cost(talk, chat=chat) == pytest.approx(price)
    assert await cost(talk, chat=chat) == pytest.approx(price)
    assert await cost(talk, chat=chat, replaces=first[0].turn) == pytest.approx(price)

    # Another chat's process was the last: the session resumes at 0.
    await talk.close()
    talk = open_chats()
    assert await cost(talk) == pytest.approx(price)
    await talk.close()
    talk = open_chats()
    assert await cost(talk, chat=chat) == pytest.approx(price)
    assert await cost(talk, chat=chat) == pytest.approx(price)
