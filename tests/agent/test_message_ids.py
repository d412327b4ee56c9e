"""The event of a message names the message, so that its sender knows that it has arrived."""

from __future__ import annotations

import pytest

from tests.agent.conftest import USER, Talk
from tests.agent.test_backend_contract import echo, talk
from tk_ai_extension.agent.requests import parse_request

__all__ = ["echo", "talk"]


@pytest.mark.proves("rest:chat")
@pytest.mark.parametrize("message", ["3b241101-e2bb-4255-8caf-4136c566a962", None])
async def test_the_event_of_a_message_has_the_id_that_its_sender_chose(
    talk: Talk, message: str | None
) -> None:
    named = {} if message is None else {"id": message}
    begun = await talk.chats.send(USER, parse_request({"message": "Count.", **named}))
    first, *_ = [event async for event in begun.events]
    assert (first.kind, first.data["message"]) == ("message", message)
    assert first.as_dict()["message"] == message
    # A page reads it, too, if it connects again.
    stored = await talk.chats.events(USER, begun.chat)
    assert stored[0] == first
