"""What goes wrong with a message after it was sent, and answers that come late: the chat goes on."""

from __future__ import annotations

import asyncio

import pytest

from tests.agent.conftest import USER, Talk, kinds, of_kind
from tests.agent.test_chat_permissions import INSERT
from tests.agent.test_stop_turn import WITHIN, goes_on, rest, until
from tests.harness import ToolHarness
from tests.support.scripted_model import Answer, Held, ToolUse
from tk_ai_extension.model.agent_errors import ChatNotFound
from tk_ai_extension.model.errors import PermissionNotFound, ToolError

COUNTING = Answer.of("One, two, three, four.")


async def held(talk: Talk) -> Held:
    """The next answer stops in its middle."""
    answer = Held(COUNTING, after=4)
    talk.model.add(answer)
    return answer


async def test_a_notebook_that_is_gone_when_its_turn_comes_is_reported(
    talk: Talk, harness: ToolHarness
) -> None:
    path = harness.write("a.ipynb", "1")
    counting = await held(talk)
    first = await talk.send("Count.")
    async with asyncio.timeout(WITHIN):
        await counting.held.wait()
    second = await talk.send("And this?", chat=first.chat, notebook="a.ipynb")
    path.unlink()
    counting.go_on.set()
    assert (await rest(first))[-1].data["end"] == "done"
    events = await rest(second)
    assert of_kind(events, "error")[0]["error"]["code"] == "notebook_not_found"
    assert events[-1].data["end"] == "failed"
    assert len(talk.model.requests) == 1
    await goes_on(talk, first.chat)


async def test_a_notebook_that_goes_while_claude_works_is_an_answer_to_claude(
    talk: Talk, harness: ToolHarness
) -> None:
    path = harness.write("a.ipynb", "1")
    counting = Held(Answer.of("I look.", ToolUse("read_cell", {"cell": 0})), after=4)
    talk.model.add(counting, Answer.of("It is gone."))
    begun = await talk.send("Look.", notebook="a.ipynb", mode="auto")
    async with asyncio.timeout(WITHIN):
        await counting.held.wait()
    path.unlink()
    counting.go_on.set()
    events = await rest(begun)
    (answered,) = of_kind(events, "tool_result")
    assert answered["structured"]["error"]["code"] == "notebook_not_found"
    assert events[-1].data == {"end": "done", "text": "It is gone."}


async def test_a_stop_where_nothing_goes_on_stops_nothing(talk: Talk) -> None:
    talk.model.add(Answer.of("Hello."))
    chat = (await talk.say("Hello."))[0].data["chat"]
    assert not await talk.chats.stop(USER, chat)
    await goes_on(talk, chat)


@pytest.mark.real_cli
async def test_a_stop_that_comes_at_once_stops_before_the_model_is_asked(talk: Talk) -> None:
    begun = await talk.send("Count.")
    assert await talk.chats.stop(USER, begun.chat)
    events = await rest(begun)
    assert events[-1].data["end"] == "stopped"
    assert of_kind(events, "error") == []
    await goes_on(talk, begun.chat)


async def test_two_stops_are_one(talk: Talk) -> None:
    counting = await held(talk)
    begun = await talk.send("Count.")
    async with asyncio.timeout(WITHIN):
        await counting.held.wait()
    await asyncio.gather(*(talk.chats.stop(USER, begun.chat) for _ in range(3)))
    events = await rest(begun)
    assert kinds(events).count("done") == 1
    assert events[-1].data["end"] == "stopped"
    await goes_on(talk, begun.chat)


@pytest.mark.real_cli
async def test_an_answer_and_a_stop_at_once_leave_nothing_that_waits(
    talk: Talk, harness: ToolHarness
) -> None:
    """The call was allowed, and is stopped wherever it is: what it did is in the journal, or nothing."""
    harness.write("a.ipynb", "1")
    talk.model.add(Answer.of(INSERT))
    begun = await talk.send("Add a cell.", notebook="a.ipynb")
    asked = await until(begun, "permission")
    harness.workspace.policy.answer(USER, asked.data["id"], "once")
    await talk.chats.stop(USER, begun.chat)
    events = await rest(begun)
    assert events[-1].data["end"] == "stopped"
    assert of_kind(events, "permission_settled") == [
        {"call": asked.data["call"], "id": asked.data["id"]}
    ]
    assert len(of_kind(events, "tool_result")) == 1
    assert harness.workspace.policy.pending(USER) == []
    entries = await harness.workspace.journal.history("a.ipynb", 10, USER)
    states = [entry.state for entry in entries if entry.kind == "change"]
    if harness.sources("a.ipynb") == ["1"]:
        assert "done" not in states
    else:
        assert (harness.sources("a.ipynb"), len(states)) == (["1", "x = 1"], 1)
    await goes_on(talk, begun.chat)


async def test_an_answer_after_a_stop_is_refused_and_allows_nothing(
    talk: Talk, harness: ToolHarness
) -> None:
    harness.write("a.ipynb", "1")
    talk.model.add(Answer.of(INSERT))
    begun = await talk.send("Add a cell.", notebook="a.ipynb")
    asked = await until(begun, "permission")
    await talk.chats.stop(USER, begun.chat)
    await rest(begun)
    with pytest.raises(PermissionNotFound):
        harness.workspace.policy.answer(USER, asked.data["id"], "chat")
    talk.model.add(Answer.of(INSERT))
    again = await talk.send("Add a cell.", notebook="a.ipynb", chat=begun.chat)
    assert (await until(again, "permission")).data["id"] != asked.data["id"]
    await talk.chats.stop(USER, begun.chat)
    await rest(again)
    assert harness.sources("a.ipynb") == ["1"]


async def test_a_chat_that_is_deleted_in_the_middle_of_a_turn_ends_and_is_gone(talk: Talk) -> None:
    counting = await held(talk)
    begun = await talk.send("Count.")
    async with asyncio.timeout(WITHIN):
        await counting.held.wait()
    await talk.chats.delete(USER, begun.chat)
    assert (await rest(begun))[-1].data["end"] == "stopped"
    assert await talk.services.transcripts.events(begun.chat) == []
    with pytest.raises(ChatNotFound):
        await talk.send("And now?", chat=begun.chat)


async def test_a_chat_that_is_deleted_while_a_message_comes_has_an_end(talk: Talk) -> None:
    talk.model.add(*[Answer.of("Hello.")] * 2)
    chat = (await talk.say("Hello."))[0].data["chat"]
    sent, _ = await asyncio.gather(
        talk.send("Still there?", chat=chat), talk.chats.delete(USER, chat), return_exceptions=True
    )
    if not isinstance(sent, BaseException):
        assert (await rest(sent))[-1].kind == "done"
    else:
        assert isinstance(sent, ToolError)
    with pytest.raises(ChatNotFound):
        await talk.chats.get(USER, chat)
