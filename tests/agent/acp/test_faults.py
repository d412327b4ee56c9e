"""Agents that hang, die, flood, send invalid messages, or ask after the end of a turn."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.agent.acp.conftest import AcpTalk, OpenAcp
from tests.agent.conftest import USER, of_kind, until
from tk_ai_extension.agent.acp import event_translator, session
from tk_ai_extension.agent.chat_events import ChatEvent


def error_of(events: list[ChatEvent]) -> dict[str, Any]:
    """The error of a turn that failed."""
    (error,) = of_kind(events, "error")
    assert events[-1].data["end"] == "failed"
    return error["error"]


@pytest.mark.proves("ext:any-agent")
async def test_a_death_is_a_typed_error_and_the_next_turn_is_answered(acp: AcpTalk) -> None:
    events = await acp.say("die")
    error = error_of(events)
    assert error["code"] == "agent_died"
    assert "status 3: the last words" in error["message"]
    after = await acp.say("Hello.", chat=events[0].data["chat"])
    assert after[-1].data["text"] == "Hello."


@pytest.mark.proves("ext:any-agent")
@pytest.mark.parametrize("message", ["wait", "garbage", "flood"])
async def test_an_agent_that_says_nothing_or_too_much_is_ended(
    open_acp: OpenAcp, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_translator, "MAX_TURN", 3_000_000)
    acp = open_acp(silence=0.3)
    assert error_of(await acp.say(message))["code"] == "model_failed"


async def test_an_agent_that_never_answers_its_start_is_ended(
    open_acp: OpenAcp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "START", 0.3)
    error = error_of(await open_acp("--no-start").say("Hello."))
    assert error["code"] == "agent_unavailable"
    assert "did not answer" in error["message"]


@pytest.mark.proves("ext:any-agent")
async def test_a_state_folder_that_cannot_be_created_is_a_typed_error(
    open_acp: OpenAcp, tmp_path: Path
) -> None:
    (tmp_path / "acp").write_text("", encoding="utf-8")
    error = error_of(await open_acp().say("Hello."))
    assert error["code"] == "agent_unavailable"
    assert "cannot be used: File exists" in error["message"]
    assert "disk" in error["hint"]


async def test_a_program_that_is_no_agent_is_a_typed_error(open_acp: OpenAcp) -> None:
    acp = open_acp(agents={"none": ["false"]})
    error = error_of(await acp.say("Hello.", model="none"))
    assert error["code"] == "agent_unavailable"
    assert "status 1" in error["message"]


@pytest.mark.proves("ext:any-agent")
async def test_a_stop_cancels_the_turn_and_the_session_goes_on(acp: AcpTalk) -> None:
    begun = await acp.send("wait")
    await until(begun, "text")
    assert await acp.chats.stop(USER, begun.chat)
    assert (await until(begun, "done")).data["end"] == "stopped"
    events = await acp.say("recall", chat=begun.chat)
    assert events[-1].data["text"] == '["wait"] 0'


@pytest.mark.proves("ext:any-agent")
async def test_no_process_is_left_behind(acp: AcpTalk) -> None:
    begun = await acp.send("child")
    text = await until(begun, "text")
    agent, child = (psutil.Process(int(pid)) for pid in text.data["text"].split())
    await acp.close()
    assert not agent.is_running()
    # A killed process ends a moment later, and is a zombie until its new parent waits for it.
    with suppress(psutil.NoSuchProcess):
        async with asyncio.timeout(10):
            while child.status() != psutil.STATUS_ZOMBIE:  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(0.02)


@pytest.mark.proves("ext:any-agent")
async def test_what_is_asked_after_the_end_is_refused(acp: AcpTalk) -> None:
    chat = (await acp.say("late"))[0].data["chat"]
    events = await acp.say("recall", chat=chat)
    # The answer to the late request was read before that message, and is written in a separate thread.
    path = acp.folder / "late.json"
    while not path.exists():
        await acp.say("recall", chat=chat)
    late = json.loads(path.read_text())
    assert late["result"] == {"outcome": {"outcome": "cancelled"}}
    assert events[-1].data["text"] == '["late"] 0'
