"""The load of a chat on a server is bounded, and errors name the bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.conftest import USER, Talk, talk_with, until
from tests.harness import ToolHarness
from tests.support.echo_agent import EchoBackend
from tk_ai_extension.agent import live_chat
from tk_ai_extension.model.errors import LimitReached

pytestmark = pytest.mark.proves("threat:exhaustion")


async def test_so_many_chats_are_answered_at_once_and_idle_ones_make_room(
    harness: ToolHarness, tmp_path: Path
) -> None:
    talk = talk_with(harness, EchoBackend(), tmp_path, max_live=1)
    first = await talk.send("wait")
    await until(first, "text")
    with pytest.raises(LimitReached) as refused:
        await talk.send("And me?")
    assert refused.value.retryable
    await talk.chats.stop(USER, first.chat)
    await until(first, "done")
    assert (await talk.say("And me?"))[-1].data["text"] == "And me?"
    await talk.close()


async def test_so_many_messages_wait_in_a_chat(
    echoing: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_chat, "MAX_TURNS", 1)
    first = await echoing.send("wait")
    await until(first, "text")
    await echoing.send("And?", chat=first.chat)
    with pytest.raises(LimitReached):
        await echoing.send("And then?", chat=first.chat)
