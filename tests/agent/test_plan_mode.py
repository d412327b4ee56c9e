"""The mode `plan`: a plan is made, a person answers it, and it is carried out in the same chat."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.agent.conftest import USER, Open, Talk, kinds, of_kind, rest
from tests.harness import ToolHarness
from tests.support.chat_requests import parse_request
from tests.support.scripted_model import Answer, ToolUse
from tk_ai_extension.agent.chat_events import ChatEvent
from tk_ai_extension.agent.chat_requests import APPROVED
from tk_ai_extension.agent.chats import TurnStream
from tk_ai_extension.model.errors import (
    NotFound,
    PermissionDenied,
)
from tk_ai_extension.workspace.permissions import PermissionPolicy

INSERT = ToolUse("insert_cell", {"source": "x = 1"})


async def planned(talk: Talk, **fields: Any) -> list[ChatEvent]:
    """A turn that ends with a plan."""
    talk.model.add(Answer.of(ToolUse("list_cells")), Answer.of("I would add a cell at the end."))
    return await talk.say("Plan it.", mode="plan", **fields)


async def answer(talk: Talk, plan: ChatEvent, user: str = USER, **fields: Any) -> TurnStream:
    chat = of_kind([plan], "message")[0]["chat"]
    body = {"message": "", "chat": chat, "approves": plan.turn, **fields}
    return await talk.chats.send(user, parse_request(body))


async def revise(talk: Talk, plan: ChatEvent, words: str) -> list[ChatEvent]:
    chat = of_kind([plan], "message")[0]["chat"]
    return await talk.say(words, chat=chat, notebook_of=plan.turn, mode="plan")


@pytest.mark.proves("perm:plan-approval")
async def test_an_approved_plan_is_carried_out_in_the_same_chat_and_notebook_by_the_next_server(
    open_chats: Open, harness: ToolHarness
) -> None:
    harness.write("a.ipynb", "1")
    talk = open_chats()
    plan = await planned(talk, notebook="a.ipynb")
    assert plan[-1].data == {"end": "planned", "text": "I would add a cell at the end."}
    assert harness.sources("a.ipynb") == ["1"]

    await talk.close()
    talk = open_chats()
    talk.model.add(Answer.of(INSERT), Answer.of("Done."))
    begun = await answer(talk, plan[0], mode="edit", message="At the top.")
    events = await rest(begun)
    assert begun.chat == plan[0].data["chat"]
    assert kinds(events)[:2] == ["message", "began"]
    assert (events[0].data["mode"], events[0].data["notebook"]) == ("edit", "a.ipynb")
    assert events[-1].data == {"end": "done", "text": "Done."}
    assert harness.sources("a.ipynb") == ["1", "x = 1"]
    asked = talk.model.requests[-1].prompts
    assert "Plan it." in asked[0]
    assert asked[-1].endswith(f"{APPROVED} At the top.")
    # The turn is taken back as one: the plan changed nothing.
    await talk.chats.undo_turn(USER, begun.chat, turn=begun.turn)
    assert harness.sources("a.ipynb") == ["1"]


@pytest.mark.proves("perm:plan-approval", "perm:modes")
async def test_the_approval_of_a_plan_approves_nothing_that_its_mode_asks_about(
    talk: Talk, harness: ToolHarness
) -> None:
    path = harness.write("a.ipynb", "1")
    before = path.read_bytes()
    plan = await planned(talk, notebook="a.ipynb")
    talk.model.add(Answer.of(INSERT), Answer.of("As you wish."))
    events = await talk.answered(await answer(talk, plan[0]), "deny")
    assert len(of_kind(events, "permission")) == 1
    assert path.read_bytes() == before


@pytest.mark.proves("perm:plan-approval")
async def test_a_plan_is_answered_once(echoing: Talk) -> None:
    plan = await echoing.say("Plan it.", mode="plan")
    both = await asyncio.gather(
        answer(echoing, plan[0]), answer(echoing, plan[0]), return_exceptions=True
    )
    (begun,) = [each for each in both if isinstance(each, TurnStream)]
    assert [type(each) for each in both if not isinstance(each, TurnStream)] == [NotFound]
    await rest(begun)
    with pytest.raises(NotFound):
        await answer(echoing, plan[0])


@pytest.mark.proves("perm:cap")
async def test_where_only_plans_are_allowed_none_is_carried_out(
    echoing: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(echoing.services.workspace, "policy", PermissionPolicy("plan"))
    # Whatever is asked for, it becomes a plan.
    plan = await echoing.say("Count.", mode="auto")
    assert plan[-1].data["end"] == "planned"
    with pytest.raises(PermissionDenied):
        await answer(echoing, plan[0], mode="auto")
    revised = await revise(echoing, plan[0], "Faster.")
    assert revised[-1].data == {"end": "planned", "text": "Faster."}
