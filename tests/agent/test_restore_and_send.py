"""A message that is sent while a chat is restored, or while a turn is replaced, comes after it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.agent.conftest import USER, Talk
from tests.agent.test_backend_contract import echo, talk, until
from tests.harness import ToolHarness
from tk_ai_extension.agent import transcripts
from tk_ai_extension.agent.chat_changes import ChatChanges
from tk_ai_extension.agent.requests import parse_plan_answer
from tk_ai_extension.agent.session import ChatSession
from tk_ai_extension.agent.transcripts import Chat, Transcripts
from tk_ai_extension.model.agent_errors import PlanNotFound
from tk_ai_extension.model.errors import LimitReached

__all__ = ["echo", "talk"]

pytestmark = pytest.mark.proves("rest:restore")

WITHIN = 20.0
MEANWHILE = 0.3
"""Longer than a message takes that does not wait."""


class Gate:
    """A point that a restore or a replacement waits at."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.open = asyncio.Event()

    def before(self, work: Callable[..., Awaitable[Any]]) -> Any:
        async def gated(*arguments: Any) -> Any:
            self.reached.set()
            await self.open.wait()
            return await work(*arguments)

        return gated

    def after(self, work: Callable[..., Awaitable[Any]]) -> Any:
        async def gated(*arguments: Any) -> Any:
            found = await work(*arguments)
            self.reached.set()
            await self.open.wait()
            return found

        return gated


def gate(monkeypatch: pytest.MonkeyPatch, point: str) -> Gate:
    made = Gate()
    match point:
        case "stop":
            monkeypatch.setattr(ChatSession, "stop", made.after(ChatSession.stop))
        case "undo":
            monkeypatch.setattr(ChatChanges, "undo_from", made.before(ChatChanges.undo_from))
        case _:
            monkeypatch.setattr(ChatChanges, "undo_from", made.after(ChatChanges.undo_from))
    return made


@pytest.mark.parametrize("doing", ["restore", "try again", "replace"])
@pytest.mark.parametrize("fields", [{}, {"latest": True}], ids=["message", "latest"])
async def test_a_message_that_is_sent_meanwhile_counts(
    talk: Talk, harness: ToolHarness, monkeypatch: pytest.MonkeyPatch, doing: str, fields: Any
) -> None:
    harness.write("a.ipynb", "a = 1")
    about = {"notebook": "a.ipynb"}
    chat = (await talk.say("One.", **about))[0].data["chat"]
    for point in ("stop",) if doing == "replace" else ("stop", "undo", "undone"):
        with monkeypatch.context() as patch:
            running = await talk.send("wait", **about, chat=chat)
            await until(running, "text")
            held = gate(patch, point)
            if doing == "restore":
                work = asyncio.create_task(talk.chats.restore(USER, chat, running.turn))
            else:
                replaces = {"replaces": running.turn, "undo_replaced": doing == "try again"}
                work = asyncio.create_task(talk.send("Instead.", **about, chat=chat, **replaces))
            await held.reached.wait()
            where = fields or {"chat": chat}
            sending = asyncio.create_task(talk.say("Meanwhile.", **about, **where))
            await asyncio.wait((sending,), timeout=MEANWHILE)
            held.open.set()
            async with asyncio.timeout(WITHIN):
                await work
                sent = await sending
        assert sent[-1].data == {"end": "done", "text": "Meanwhile."}
        assert sent[0].turn in await talk.services.transcripts.turns(chat)
        recalled = (await talk.say("recall", **about, chat=chat))[-1].data["text"].splitlines()
        assert recalled[-1] == "Meanwhile."
        assert "wait" not in recalled


@pytest.mark.proves("perm:plan-approval")
async def test_a_plan_that_is_being_restored_is_not_carried_out(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = (await talk.say("Two.", mode="plan"))[0]
    held = gate(monkeypatch, "undo")
    work = asyncio.create_task(talk.chats.restore(USER, plan.data["chat"], plan.turn))
    await held.reached.wait()
    answer = parse_plan_answer({"plan": plan.turn, "answer": "approve"})
    answering = asyncio.create_task(talk.chats.answer_plan(USER, plan.data["chat"], answer))
    await asyncio.wait((answering,), timeout=MEANWHILE)
    held.open.set()
    await work
    with pytest.raises(PlanNotFound):
        await answering


@pytest.mark.proves("threat:exhaustion")
async def test_a_replacement_that_is_refused_stops_and_undoes_nothing(
    talk: Talk, harness: ToolHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.write("a.ipynb", "a = 1")
    about = {"notebook": "a.ipynb", "mode": "auto"}
    first = (await talk.say('call insert_cell {"source": "b = 1"}', **about))[0]
    about["chat"] = first.data["chat"]
    running = await talk.send("wait", **about)
    await until(running, "text")
    again = {**about, "replaces": first.turn, "undo_replaced": True}
    with monkeypatch.context() as patch:
        patch.setattr(transcripts, "MAX_CHAT", 10)
        with pytest.raises(LimitReached):
            await talk.send("Again.", **again)
        assert harness.sources("a.ipynb") == ["a = 1", "b = 1"]
        assert [each.busy for each in talk.chats.working] == [True]
        await talk.chats.stop(USER, first.data["chat"])
        await until(running, "done")
        with pytest.raises(LimitReached):
            await talk.send("Again.", **again)
    assert harness.sources("a.ipynb") == ["a = 1", "b = 1"]
    await talk.chats._background.join()
    other = Transcripts(tmp_path / "chats" / "chats.sqlite")
    chat: Chat = await other.claim(await other.get(USER, first.data["chat"]))
    await other.release(chat.id)
    await other.close()
