"""Turns of an agent in another process, over the Agent Client Protocol."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agent.acp.conftest import AGENT, AcpTalk, OpenAcp
from tests.agent.conftest import USER, kinds, of_kind, rest, until
from tests.harness import ToolHarness
from tk_ai_extension.agent.chat_requests import QuestionAnswer

EXAMPLE = Path(__file__).parents[3] / "examples" / "shout_agent.py"
INSERT = 'insert_cell {"source": "b = 1"}'


@pytest.mark.proves("ext:any-agent")
async def test_a_turn_and_its_usage(acp: AcpTalk) -> None:
    events = await acp.say("Hello.")
    assert kinds(events) == ["message", "began", "text", "usage", "done"]
    assert events[0].data["model"] == "scripted"
    assert of_kind(events, "usage")[0]["input_tokens"] == 10
    assert events[-1].data == {"end": "done", "text": "Hello."}


@pytest.mark.proves("ext:any-agent")
async def test_the_example_of_an_agent_answers_in_capitals(open_acp: OpenAcp) -> None:
    acp = open_acp(agents={"shout": [sys.executable, str(EXAMPLE)]})
    assert await acp.text("hello", model="shout") == "HELLO"


@pytest.mark.proves("ext:any-agent")
@pytest.mark.parametrize("word", ["call", "quiet"])
async def test_a_reported_or_unreported_call_is_one_card_with_one_approval_and_one_undo(
    acp: AcpTalk, harness: ToolHarness, word: str
) -> None:
    harness.write("a.ipynb", "a = 1")
    events = await acp.approved(f"{word} {INSERT}", notebook="a.ipynb", mode="ask")
    assert harness.sources("a.ipynb") == ["a = 1", "b = 1"]
    (called,) = of_kind(events, "tool_call")
    assert (called["tool"], called["arguments"]) == ("insert_cell", {"source": "b = 1"})
    (asked,) = of_kind(events, "permission")
    (result,) = of_kind(events, "tool_result")
    assert called["call"] == asked["call"] == result["call"]
    assert result["ok"]
    assert of_kind(events, "cell_change")[0]["action"] == "insert"
    (entry,) = await harness.workspace.journal.pending("a.ipynb", USER)
    assert (entry.author, entry.turn) == ("Scripted", events[0].turn)
    await acp.chats.undo_turn(USER, events[0].data["chat"], turn=events[0].turn)
    assert harness.sources("a.ipynb") == ["a = 1"]


async def test_a_plan_is_shown_and_an_update_of_tomorrow_is_ignored(acp: AcpTalk) -> None:
    events = await acp.say("plan", mode="plan")
    assert of_kind(events, "todo_list") == [
        {
            "items": [
                {"text": "Look", "status": "completed"},
                {"text": "Act", "status": "pending"},
            ]
        }
    ]
    assert events[-1].data == {"end": "planned", "text": "Planned."}


@pytest.mark.parametrize(("arguments", "count"), [((), "1"), (("--no-images",), "0")])
async def test_a_picture_reaches_an_agent_that_accepts_it(
    open_acp: OpenAcp, arguments: tuple[str, ...], count: str
) -> None:
    picture = {"kind": "image", "mime": "image/png", "data": "aGk="}
    assert await open_acp(*arguments).text("picture", attachments=[picture]) == count


async def test_a_session_is_resumed_after_the_process_has_ended(open_acp: OpenAcp) -> None:
    acp = open_acp()
    chat = (await acp.say("One."))[0].data["chat"]
    await acp.close()
    events = await open_acp().say("recall", chat=chat)
    assert json.loads(events[-1].data["text"][:-2]) == ["One."]
    assert of_kind(events, "notice") == []


async def test_an_agent_that_cannot_resume_says_so(open_acp: OpenAcp) -> None:
    acp = open_acp("--no-load")
    chat = (await acp.say("One."))[0].data["chat"]
    await acp.close()
    events = await open_acp("--no-load").say("recall", chat=chat)
    assert events[-1].data["text"] == "[] 1"
    assert "Scripted" in of_kind(events, "notice")[0]["text"]


async def test_another_agent_may_continue_a_chat(acp: AcpTalk) -> None:
    first = await acp.say("One.")
    chat = first[0].data["chat"]
    second = await acp.say("Two.", chat=chat, model="echo")
    assert second[-1].data["text"] == "Two."
    assert "Echo" in of_kind(second, "notice")[0]["text"]


@pytest.mark.proves("ext:any-agent", "threat:secrets")
async def test_only_what_the_agent_needs_is_in_its_environment(open_acp: OpenAcp) -> None:
    given = dict(os.environ) | {
        "OWN_KEY": "canary-1",
        "ANTHROPIC_API_KEY": "canary-2",
        "JUPYTER_TOKEN": "canary-3",
        "TK_AI_CREDENTIAL": "canary-4",
        "HTTPS_PROXY": "",
    }
    said = json.loads(await open_acp(environment=given, variables=("OWN_*",)).text("env"))
    assert {"OWN_KEY", "HTTPS_PROXY", "PATH", "HOME"} <= set(said["variables"])
    assert not {"ANTHROPIC_API_KEY", "JUPYTER_TOKEN", "TK_AI_CREDENTIAL"} & set(said["variables"])


@pytest.mark.parametrize("key", ["", "k"])
async def test_it_logs_in_with_a_key_of_the_environment_if_there_is_one(
    open_acp: OpenAcp, key: str
) -> None:
    acp = open_acp(
        "--login",
        environment=dict(os.environ) | {"OWN_KEY": key},
        variables=("OWN_*",),
        logins={"api-key": ["OWN_KEY"]},
    )
    events = await acp.say("Hello.")
    if key:
        assert events[-1].data["text"] == "Hello."
        return
    error: Any = of_kind(events, "error")[0]["error"]
    assert error["code"] == "agent_unavailable"
    assert "not logged in" in error["message"]


@pytest.mark.proves("ext:any-agent")
async def test_the_agents_settings_are_offered_and_chosen_but_not_its_mode(
    open_acp: OpenAcp,
) -> None:
    """It is put into the mode in which it asks, whatever a message says."""
    acp = open_acp("--settings")
    events = await acp.say("settings", options={"effort": "high", "mode": "auto", "gone": "x"})
    first, second = of_kind(events, "offer")
    assert [(each["id"], each["value"]) for each in first["settings"]] == [
        ("model", "small"),
        ("effort", "high"),
    ]
    assert first["settings"][1]["choices"][0] == {"value": "low", "name": "Low"}
    assert [each["name"] for each in first["commands"] + second["commands"]] == ["shout", "whisper"]
    chosen = {"mode": "default", "model": "small", "effort": "high"}
    assert json.loads(events[-1].data["text"]) == chosen
    chat = events[0].data["chat"]
    later = await acp.say(
        "settings", chat=chat, options={"effort": "unknown"}, model=f"{AGENT}:large"
    )
    assert json.loads(later[-1].data["text"]) == chosen | {"model": "large"}


@pytest.mark.proves("ext:any-agent")
async def test_a_command_of_the_agent_arrives_as_the_whole_message(open_acp: OpenAcp) -> None:
    acp = open_acp("--settings")
    events = await acp.say("/shout hello")
    assert "".join(each["text"] for each in of_kind(events, "text")) == "HELLO 1/shout hello"
    assert "recall" not in str(events)
    recalled = await acp.text("recall", chat=events[0].data["chat"])
    assert recalled.endswith(" 1")  # The instructions come with the next message.


PLOT = {
    "type": "string",
    "title": "Plot",
    "oneOf": [
        {"const": "l", "title": "Line", "description": "Over time"},
        {"const": "b", "title": "Bars"},
    ],
}
DAYS = {"anyOf": [{"const": "mon", "title": "Monday"}, {"const": "tue", "title": "Tuesday"}]}
FIELDS = {
    "plot": PLOT,
    "size": {"type": "string", "enum": ["small", "large"], "description": "Which size?"},
    "grid": {"type": "boolean"},
    "bins": {"type": "integer", "title": "Bins"},
    "width": {"type": "number"},
    "days": {"type": "array", "items": DAYS},
    "tags": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}},
    "note": {"type": "string"},
}


def elicit(fields: dict[str, Any], **other: Any) -> str:
    """The message at which the agent asks the person with a form."""
    schema = {"type": "object", "properties": fields}
    form = {"mode": "form", "message": "How to plot it?", "requestedSchema": schema}
    return f"elicit {json.dumps(form | other)}"


async def recalled(acp: AcpTalk, chat: str) -> Any:
    """The response that the agent got."""
    said = await acp.text("recall", chat=chat)
    return json.loads(said.rpartition(" ")[0])[-1]


@pytest.mark.proves("ext:any-agent")
@pytest.mark.parametrize("call", [{}, {"toolCallId": "survey"}], ids=["alone", "in a call"])
async def test_an_agent_asks_the_person_in_a_form(acp: AcpTalk, call: dict[str, str]) -> None:
    """Each answer has the type of its field; other words arrive as they are."""
    begun = await acp.send(elicit(FIELDS, **call))
    asked = (await until(begun, "question")).data
    texts = [(each["text"], each["header"]) for each in asked["questions"]]
    assert texts[:4] == [
        ("How to plot it?", "Plot"),
        ("Which size?", "size"),
        ("grid", ""),
        ("Bins", ""),
    ]
    plot, size, grid, bins, _, days, *_ = asked["questions"]
    assert plot["options"][0] == {"label": "Line", "description": "Over time"}
    offered = [[one["label"] for one in each["options"]] for each in (size, grid, bins, days)]
    assert offered == [["small", "large"], ["Yes", "No"], [], ["Monday", "Tuesday"]]
    assert [each["multiple"] for each in (plot, days)] == [False, True]
    given = [["Line"], ["huge"], ["No"], ["12"], ["1e999"], ["Monday", "Friday"], ["y"], []]
    await acp.chats.answer(USER, begun.chat, QuestionAnswer(call=asked["call"], answers=given))
    events = await rest(begun)
    assert of_kind(events, "question_settled") == [{"call": asked["call"], "given": given}]
    results = [(each["call"], each["ok"]) for each in of_kind(events, "tool_result")]
    assert results == [(asked["call"], not call)]
    content = {"plot": "l", "size": "huge", "grid": False, "bins": 12, "width": "1e999"}
    content |= {"days": ["mon", "Friday"], "tags": ["y"]}
    assert await recalled(acp, begun.chat) == {"action": "accept", "content": content}


@pytest.mark.proves("ext:any-agent")
@pytest.mark.parametrize(
    ("answers", "action"), [(["Yes"], "accept"), (["No"], "decline"), ([], "decline")]
)
async def test_a_form_without_fields_asks_to_agree(
    acp: AcpTalk, answers: list[str], action: str
) -> None:
    begun = await acp.send(elicit({}))
    call = (await until(begun, "question")).data["call"]
    await acp.chats.answer(USER, begun.chat, QuestionAnswer(call=call, answers=[answers]))
    assert (await rest(begun))[-1].data["end"] == "done"
    assert (await recalled(acp, begun.chat))["action"] == action


@pytest.mark.proves("ext:any-agent")
async def test_a_form_of_a_stopped_turn_is_cancelled(acp: AcpTalk) -> None:
    begun = await acp.send(elicit(FIELDS))
    await until(begun, "question")
    await acp.chats.stop(USER, begun.chat)
    assert (await rest(begun))[-1].data["end"] == "stopped"
    assert await recalled(acp, begun.chat) == {"action": "cancel"}


async def test_nothing_else_is_asked_of_a_person(acp: AcpTalk) -> None:
    """An address to visit, and more text than anyone would read."""
    address = {"mode": "url", "url": "https://example.org", "elicitationId": "1"}
    for other, action in ((address, "decline"), ({"message": "x" * 30_000}, "cancel")):
        events = await acp.say(elicit(FIELDS, **other))
        assert of_kind(events, "question") == []
        assert await recalled(acp, events[0].data["chat"]) == {"action": action}
