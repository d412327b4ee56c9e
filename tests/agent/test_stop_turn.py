"""A turn is stopped wherever it is, and the chat goes on."""

from __future__ import annotations

import json

import pytest

from tests.agent.conftest import USER, Talk, goes_on, of_kind, rest, seen_by_echo, until
from tests.harness import ToolHarness
from tests.support.scripted_model import Answer, Held, ToolUse


async def test_in_text_the_written_part_stays_and_the_chat_goes_on(talk: Talk) -> None:
    held = Held(Answer.of("One, two, three, four, five, six, seven."), after=4)
    talk.model.add(held)
    begun = await talk.send("Count.")
    await until(begun, "text")
    assert await talk.chats.stop(USER, begun.chat)
    events = await rest(begun)
    assert events[-1].data["end"] == "stopped"
    assert events[-1].data["text"]
    await goes_on(talk, begun.chat)


async def test_in_a_tool_its_cell_is_interrupted(talk: Talk, harness: ToolHarness) -> None:
    harness.write("long.ipynb", "import time\nprint('begun', flush=True)\ntime.sleep(600)")
    talk.model.add(Answer.of(ToolUse("execute_cell", {"cell": 0, "wait": 60})))
    begun = await talk.send("Run it.", notebook="long.ipynb", mode="auto")
    progress = await until(begun, "tool_progress")
    while "begun" not in progress.data["message"]:
        progress = await until(begun, "tool_progress")
    await talk.chats.stop(USER, begun.chat)
    events = await rest(begun)
    (answer,) = of_kind(events, "tool_result")
    assert not answer["ok"]
    assert events[-1].data["end"] == "stopped"
    saved = await harness.saved("long.ipynb", lambda nb: len(nb.cells[0].outputs) == 2)
    assert saved.cells[0].outputs[1].ename == "KeyboardInterrupt"
    await goes_on(talk, begun.chat)


@pytest.mark.proves("rest:restore")
async def test_the_changes_of_a_stopped_call_are_reported(
    echoing: Talk, harness: ToolHarness
) -> None:
    harness.write("long.ipynb", "1")
    source = "import time\nprint('begun', flush=True)\ntime.sleep(600)"
    arguments = {"index": 1, "source": source, "wait": 60}
    call = f"call insert_and_execute_cell {json.dumps(arguments)}"
    begun = await echoing.send(call, notebook="long.ipynb", mode="auto")
    progress = await until(begun, "tool_progress")
    while "begun" not in progress.data["message"]:
        progress = await until(begun, "tool_progress")
    await echoing.chats.stop(USER, begun.chat)
    events = await rest(begun)
    (answer,) = of_kind(events, "tool_result")
    assert answer["structured"]["error"]["code"] == "stopped"
    (change,) = of_kind(events, "cell_change")
    assert (change["call"], change["action"]) == (answer["call"], "insert")
    net = await echoing.chats.changes_of(USER, begun.chat, begun.turn)
    assert [(each.entries, each.cell) for each in net] == [([change["entry"]], change["cell"])]


async def test_at_a_permission_prompt_the_question_is_withdrawn(
    talk: Talk, harness: ToolHarness
) -> None:
    path = harness.write("a.ipynb", "1")
    before = path.read_bytes()
    talk.model.add(Answer.of(ToolUse("insert_cell", {"source": "2"})))
    begun = await talk.send("Add a cell.", notebook="a.ipynb")
    asked = await until(begun, "permission")
    assert [request.id for request in harness.workspace.policy.pending(USER)] == [asked.data["id"]]
    await talk.chats.stop(USER, begun.chat)
    events = await rest(begun)
    assert of_kind(events, "permission_settled") == [
        {"call": asked.data["call"], "id": asked.data["id"]}
    ]
    assert events[-1].data["end"] == "stopped"
    assert harness.workspace.policy.pending(USER) == []
    assert path.read_bytes() == before
    await goes_on(talk, begun.chat)


async def test_messages_are_queued_and_a_stop_removes_them(echoing: Talk) -> None:
    first = await echoing.send("wait")
    await until(first, "text")
    second = await echoing.send("And then?", chat=first.chat)
    await echoing.chats.stop(USER, first.chat)
    assert (await rest(first))[-1].data["end"] == "stopped"
    waited = await rest(second)
    assert [event.kind for event in waited] == ["message", "done"]
    assert waited[0].data["waits"] == 1
    assert waited[-1].data["end"] == "stopped"
    assert seen_by_echo(echoing).endswith("wait")
