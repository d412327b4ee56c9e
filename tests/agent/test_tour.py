"""The tour: as a script that is asked, and through the whole chain, from message to notebook."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tornado.httpclient import AsyncHTTPClient
from tornado.iostream import IOStream
from tornado.netutil import bind_sockets
from tornado.tcpserver import TCPServer

from tests.agent.conftest import USER, Talk, of_kind
from tests.desk import Desk
from tk_ai_extension.agent.chats import Chats
from tk_ai_extension.agent.claude import tour_texts as texts
from tk_ai_extension.agent.claude.client import ClaudeBackend, ClaudeConfig
from tk_ai_extension.agent.claude.messages import Answer, MessagesRequest, Text, ToolUse
from tk_ai_extension.agent.claude.providers import ProviderSettings
from tk_ai_extension.agent.claude.provision import Provision
from tk_ai_extension.agent.claude.tour import STEPS, Tour
from tk_ai_extension.agent.events import Event
from tk_ai_extension.agent.requests import parse_plan_answer
from tk_ai_extension.agent.session import ChatServices, ChatSettings
from tk_ai_extension.agent.transcripts import Transcripts
from tk_ai_extension.testing.scripted_model import ScriptedModel
from tk_ai_extension.workspace.permissions import Answer as PermissionAnswer

NOTEBOOK = "Notebook a.ipynb: 2 cells"


class Conversation:
    """A chat with the tour, as the CLI carries it."""

    def __init__(self, mode: str, notebook: str = NOTEBOOK) -> None:
        self._seen = f"<seen>\nPermission mode: {mode}. And so on.\n\n{notebook}\n</seen>"
        self._messages: list[dict[str, Any]] = []

    def say(self, text: str) -> Answer:
        blocks = [{"type": "text", "text": each} for each in (self._seen, text)]
        return self._answered(blocks)

    def result(self, text: str, *, is_error: bool = False) -> Answer:
        """What the tour does when its call was answered with this."""
        call = self._messages[-1]["content"][-1]["id"]
        content = [{"type": "text", "text": text}]
        block = {"type": "tool_result", "tool_use_id": call, "content": content}
        return self._answered([{**block, "is_error": is_error}])

    def _answered(self, blocks: list[dict[str, Any]]) -> Answer:
        self._messages.append({"role": "user", "content": blocks})
        request = MessagesRequest({}, {"model": "tk-tour", "messages": self._messages})
        answer = Tour().reply(request)
        assert isinstance(answer, Answer)
        # The tour is called a script at the beginning of each turn, and once.
        begins = "tool_result" not in str(blocks)
        assert text_of(answer).startswith(texts.LABEL) == begins
        assert text_of(answer).count(texts.LABEL) == begins
        self._messages.append(answer.message(request))
        return answer


def text_of(answer: Answer) -> str:
    return "".join(block.text for block in answer.blocks if isinstance(block, Text))


def call_of(answer: Answer) -> tuple[str, Mapping[str, Any]] | None:
    calls = [block for block in answer.blocks if isinstance(block, ToolUse)]
    return (calls[0].name, calls[0].input) if calls else None


@pytest.mark.parametrize("mode", ["plan", "ask", "edit", "auto"])
@pytest.mark.parametrize("message", ["Hello", "How warm is it?", "start", "connect", "数"])
def test_the_first_answer_to_any_message_says_that_it_is_the_tour(mode: str, message: str) -> None:
    assert texts.INTRO in text_of(Conversation(mode).say(message))


@pytest.mark.parametrize(
    ("mode", "message", "tool"),
    [
        ("auto", "How warm is it?", "read_notebook"),
        ("auto", "connect my model", "read_notebook"),
        ("ask", "How warm is it?", None),
        ("ask", "start", "read_notebook"),
        ("edit", "Yes, please.", "read_notebook"),
        ("plan", "Start!", "read_notebook"),
        ("ask", "How do I connect a model?", None),
    ],
)
def test_it_starts_right_away_in_auto_mode_and_when_asked_in_the_others(
    mode: str, message: str, tool: str | None
) -> None:
    call = call_of(Conversation(mode).say(message))
    assert (call[0] if call else None) == tool


def test_without_a_notebook_it_makes_one() -> None:
    conversation = Conversation("ask", notebook="")
    assert call_of(conversation.say("start")) == (
        "use_notebook",
        {"notebook": "tour.ipynb", "mode": "create"},
    )
    assert call_of(conversation.result("made")) == ("read_notebook", {"view": "reading"})


@pytest.mark.parametrize("notebook", [NOTEBOOK, ""])
def test_in_plan_mode_it_ends_with_a_plan(notebook: str) -> None:
    conversation = Conversation("plan", notebook)
    answer = conversation.say("start")
    if call_of(answer):
        answer = conversation.result("cells")
    assert texts.PLAN in text_of(answer)
    assert call_of(answer) is None


@pytest.mark.parametrize("code", ["permission_denied", "permission_required"])
def test_a_call_that_was_refused_ends_it(code: str) -> None:
    conversation = Conversation("ask")
    conversation.say("start")
    conversation.result("cells")
    answer = conversation.result(f"Error [{code}]: no\nhint", is_error=True)
    assert texts.REFUSED in text_of(answer)
    assert call_of(answer) is None


def test_what_fails_unplanned_ends_it_and_it_can_begin_again() -> None:
    conversation = Conversation("auto")
    conversation.say("start")
    assert call_of(conversation.result("Error [conflict]: changed", is_error=True)) is None
    answer = conversation.say("start")
    assert texts.INTRO not in text_of(answer)
    assert call_of(answer) == ("read_notebook", {"view": "reading"})


def test_a_message_after_a_call_that_was_cut_off_is_heard() -> None:
    conversation = Conversation("auto")
    conversation.say("start")
    conversation.result("cells")
    assert texts.CONNECT in text_of(conversation.say("connect"))


def test_without_matplotlib_it_draws_by_other_means() -> None:
    conversation = Conversation("auto")
    conversation.say("start")
    conversation.result("cells")
    conversation.result("insert 2 @abcd")
    answer = conversation.result("@abcd ok")
    assert call_of(answer) == ("insert_and_execute_cell", {"source": texts.PLOT_CELL})
    answer = conversation.result("@efgh [2] error\nModuleNotFoundError", is_error=True)
    assert call_of(answer) == ("overwrite_cell", {"cell": "efgh", "source": texts.DRAWING_CELL})
    assert call_of(conversation.result("Overwritten")) == ("execute_cell", {"cell": "efgh"})
    answer = conversation.result("@efgh [3] ok")
    assert call_of(answer) == ("insert_and_execute_cell", {"source": texts.FAILING_CELL})


def test_every_step_leads_to_a_step_that_exists() -> None:
    following = {each for step in STEPS.values() for each in (step.then, step.on_error)}
    assert following - {None} <= STEPS.keys()


# -- the whole chain


@pytest.fixture
async def provision(tmp_path: Path) -> AsyncIterator[Provision]:
    provision = Provision(ProviderSettings(trust_folder=True), dict, tmp_path)
    yield provision
    await provision.close()


@pytest.fixture
async def tour(desk: Desk, provision: Provision, tmp_path: Path) -> AsyncIterator[Talk]:
    """A person in a server with no model connected."""
    services = ChatServices(
        workspace=desk.workspace,
        registry=desk.registry,
        transcripts=Transcripts(tmp_path / "chats" / "chats.sqlite"),
        backend=ClaudeBackend(ClaudeConfig(tmp_path / "claude", retries=0), provision.provider),
        settings=ChatSettings(),
    )
    talk = Talk(Chats(services), services, ScriptedModel())
    yield talk
    await talk.chats.close()


def said(events: list[Event]) -> str:
    return "".join(event["text"] for event in of_kind(events, "text"))


async def test_the_whole_tour_works_in_the_active_notebook(tour: Talk, desk: Desk) -> None:
    desk.write("mine.ipynb", "prices = [3, 4, 5]")
    events = await tour.say("What is this?", notebook="mine.ipynb", mode="auto")

    assert texts.INTRO in said(events)
    assert [(answer["tool"], answer["ok"]) for answer in of_kind(events, "tool_result")] == [
        ("read_notebook", True),
        ("insert_cell", True),
        ("insert_and_execute_cell", True),
        ("insert_and_execute_cell", True),
        ("insert_and_execute_cell", False),
        ("overwrite_cell", True),
        ("execute_cell", True),
    ]
    assert events[-1].data == {"end": "done", "text": texts.END}
    mine, title, data, plot, mended = desk.on_disk("mine.ipynb").cells
    assert mine.source == "prices = [3, 4, 5]"
    assert title.source == texts.TITLE_CELL
    assert data.outputs[0].text.startswith(" 0 min  84.0 °C\n")
    assert "image/png" in plot.outputs[0].data
    assert mended.source == texts.MENDED_CELL
    assert "°C in 30 minutes" in mended.outputs[0].text


@pytest.mark.proves("perm:plan")
async def test_the_plan_of_the_tour_is_approved_and_carried_out(tour: Talk, desk: Desk) -> None:
    desk.write("mine.ipynb", "prices = [3, 4, 5]")
    plan = await tour.say("start", notebook="mine.ipynb", mode="plan")
    (made,) = of_kind(plan, "plan")
    assert made["text"].endswith(texts.PLAN)
    answer = parse_plan_answer({"plan": plan[0].turn, "answer": "approve", "mode": "edit"})
    begun = await tour.chats.answer_plan(USER, plan[0].data["chat"], answer)
    events: list[Event] = []
    async for event in begun.events:
        events.append(event)
        if event.kind == "permission":
            desk.workspace.policy.answer(USER, event.data["id"], "notebook")
    # In this mode only running is asked for.
    assert [asked["effect"] for asked in of_kind(events, "permission")] == ["EXECUTE"]
    assert events[-1].data == {"end": "done", "text": texts.END}


async def answered(tour: Talk, desk: Desk, answer: PermissionAnswer, **fields: Any) -> list[Event]:
    """What comes of `start` in the mode that asks, when each question gets this answer."""
    begun = await tour.send("start", mode="ask", **fields)
    events: list[Event] = []
    async for event in begun.events:
        events.append(event)
        if event.kind == "permission":
            desk.workspace.policy.answer(USER, event.data["id"], answer)
    return events


async def test_a_refusal_holds_and_ends_the_tour(tour: Talk, desk: Desk) -> None:
    path = desk.write("mine.ipynb", "prices = [3, 4, 5]")
    before = path.read_bytes()
    events = await answered(tour, desk, "deny", notebook="mine.ipynb")
    [asked] = of_kind(events, "permission")
    assert texts.TITLE_CELL.splitlines()[0] in asked["preview"]
    assert events[-1].data["text"] == texts.REFUSED
    assert path.read_bytes() == before


async def test_a_person_without_a_notebook_gets_one_and_is_asked_before_each_change(
    tour: Talk, desk: Desk
) -> None:
    events = await answered(tour, desk, "once")
    assert [asked["tool"] for asked in of_kind(events, "permission")] == [
        "use_notebook",
        "insert_cell",
        *("insert_and_execute_cell",) * 3,
        "overwrite_cell",
        "execute_cell",
    ]
    assert events[-1].data["text"] == texts.END
    assert [cell.source for cell in desk.on_disk("tour.ipynb").cells][-1] == texts.MENDED_CELL


async def test_in_a_kernel_of_another_language_the_tour_says_why_it_ends(
    tour: Talk, desk: Desk, bash_kernelspec: str
) -> None:
    kernelspec = {"name": bash_kernelspec, "display_name": "Bash", "language": "bash"}
    desk.write("shell.ipynb", "ls", kernelspec=kernelspec)
    events = await tour.say("start", notebook="shell.ipynb", mode="auto")
    *_, ran = of_kind(events, "tool_result")
    assert (ran["tool"], ran["ok"]) == ("insert_and_execute_cell", False)
    assert events[-1].data == {"end": "done", "text": texts.BROKEN}


async def test_the_tour_answers_nobody_else(provision: Provision) -> None:
    environment = (await provision.provider()).environment
    url = f"{environment['ANTHROPIC_BASE_URL']}/v1/messages"
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "start"}]})
    client = AsyncHTTPClient(force_instance=True)
    for key, code in ((environment["ANTHROPIC_API_KEY"], 200), ("guess", 401), ("", 401)):
        headers = {"x-api-key": key}
        response = await client.fetch(
            url, method="POST", headers=headers, body=body, raise_error=False
        )
        assert response.code == code


async def test_a_key_is_used_as_soon_as_it_is_there(provision: Provision, tmp_path: Path) -> None:
    assert (await provision.health())["provider"] == "tour"
    (tmp_path / ".secrets.env").write_text("ANTHROPIC_API_KEY=k\n", encoding="utf-8")
    assert (await provision.health())["provider"] == "anthropic"
    assert (await provision.provider()).environment["ANTHROPIC_API_KEY"] == "k"


class Recorder(TCPServer):
    """A proxy that takes note of who comes, and lets nobody through."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[bytes] = []

    async def handle_stream(self, stream: IOStream, address: tuple[str, int]) -> None:  # noqa: ARG002 - tornado's
        self.asked.append(await stream.read_until(b"\n", max_bytes=4096))
        stream.close()


async def test_nothing_leaves_the_machine_while_the_tour_answers(
    tour: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder, sockets = Recorder(), bind_sockets(0, "127.0.0.1")
    recorder.add_sockets(sockets)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{sockets[0].getsockname()[1]}")
    try:
        events = await tour.say("Hello", mode="ask")
    finally:
        recorder.stop()
    assert events[-1].data["end"] == "done"
    assert recorder.asked == []
