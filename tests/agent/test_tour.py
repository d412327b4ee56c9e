"""The tour: as a script that is asked, and through the whole chain, from message to notebook."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from tornado.iostream import IOStream
from tornado.netutil import bind_sockets
from tornado.tcpserver import TCPServer

from tests.agent.conftest import USER, Talk, of_kind
from tests.harness import ToolHarness
from tests.support.scripted_model import ScriptedModel
from tk_ai_extension.agent import tour as texts
from tk_ai_extension.agent.backend import TextBlock, TurnEnded
from tk_ai_extension.agent.chat import ChatServices, ChatSettings
from tk_ai_extension.agent.chats import Chats
from tk_ai_extension.agent.claude.client import ClaudeBackend, ClaudeConfig
from tk_ai_extension.agent.claude.models import ClaudeModels
from tk_ai_extension.agent.claude.providers import ProviderSettings
from tk_ai_extension.agent.events import Event, TextDelta, ToolCalled
from tk_ai_extension.agent.requests import parse_plan_answer
from tk_ai_extension.agent.store import ChatStore
from tk_ai_extension.agent.tour import TourSession
from tk_ai_extension.workspace.permissions import Answer as PermissionAnswer
from tk_ai_extension.workspace.turn_credentials import TurnCredential

NOTEBOOK = "Notebook a.ipynb: 2 cells"


CREDENTIAL = TurnCredential("turn", "token")


@dataclass(frozen=True)
class Reply:
    """What the tour says, and the call that it waits for; None at the end of its turn."""

    text: str
    call: tuple[str, Mapping[str, Any]] | None


class Conversation:
    """A chat with the tour, whose calls the test answers."""

    def __init__(self, mode: str, notebook: str = NOTEBOOK) -> None:
        self._seen = f"<seen>\nPermission mode: {mode}. And so on.\n\n{notebook}\n</seen>"
        self._session = TourSession(self._carry_out)
        self._results: asyncio.Queue[types.CallToolResult] = asyncio.Queue()

    async def say(self, text: str) -> Reply:
        content = [TextBlock(self._seen), TextBlock(text)]
        await self._session.interrupt()
        await self._session.send(content, model="tk-tour", credential=CREDENTIAL)
        return await self._reply(begins=True)

    async def result(self, cell: str = "", **structured: Any) -> Reply:
        """What the tour does when its call was answered with this; a cell's key: its code failed."""
        failed = {"runs": [{"cell": cell, "status": "error"}]} if cell else {}
        self._results.put_nowait(
            types.CallToolResult(
                content=[],
                structured_content=structured | failed,
                is_error=bool(cell or structured),
            )
        )
        return await self._reply(begins=False)

    async def _carry_out(self, token: str, *_call: object) -> types.CallToolResult:
        assert token == CREDENTIAL.token
        return await self._results.get()

    async def _reply(self, *, begins: bool) -> Reply:
        answer = ""
        call = None
        async with asyncio.timeout(20):
            while True:
                match await self._session.receive():
                    case TextDelta(text=text):
                        answer += text
                    case ToolCalled(tool=tool, arguments=arguments):
                        call = (tool, arguments)
                        break
                    case TurnEnded(error=error):
                        assert error is None
                        # Of the turn that was interrupted.
                        if answer:
                            break
                    case event:
                        raise AssertionError(event)
        # The tour is called a script at the beginning of each turn, and once.
        assert answer.startswith(texts.LABEL) == begins
        assert answer.count(texts.LABEL) == begins
        return Reply(answer, call)


@pytest.mark.parametrize("mode", ["plan", "ask", "edit", "auto"])
@pytest.mark.parametrize("message", ["Hello", "How warm is it?", "start", "connect", "数"])
async def test_the_first_answer_to_any_message_says_that_it_is_the_tour(
    mode: str, message: str
) -> None:
    assert texts.INTRO in (await Conversation(mode).say(message)).text


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
async def test_it_starts_right_away_in_auto_mode_and_when_asked_in_the_others(
    mode: str, message: str, tool: str | None
) -> None:
    reply = await Conversation(mode).say(message)
    assert (reply.call[0] if reply.call else None) == tool


async def test_without_a_notebook_it_makes_one() -> None:
    conversation = Conversation("ask", notebook="")
    assert (await conversation.say("start")).call == (
        "use_notebook",
        {"notebook": "tour.ipynb", "mode": "create"},
    )
    assert (await conversation.result()).call == ("read_notebook", {"view": "reading"})


@pytest.mark.parametrize("notebook", [NOTEBOOK, ""])
async def test_in_plan_mode_it_ends_with_a_plan(notebook: str) -> None:
    conversation = Conversation("plan", notebook)
    answer = await conversation.say("start")
    if answer.call:
        answer = await conversation.result()
    assert texts.PLAN in answer.text
    assert answer.call is None


@pytest.mark.parametrize("code", ["permission_denied", "permission_required"])
async def test_a_call_that_was_refused_ends_it(code: str) -> None:
    conversation = Conversation("ask")
    await conversation.say("start")
    await conversation.result()
    answer = await conversation.result(error={"code": code})
    assert texts.REFUSED in answer.text
    assert answer.call is None


async def test_an_unexpected_error_ends_the_tour_and_it_can_start_again() -> None:
    conversation = Conversation("auto")
    await conversation.say("start")
    assert (await conversation.result(error={"code": "conflict"})).call is None
    answer = await conversation.say("start")
    assert texts.INTRO not in answer.text
    assert answer.call == ("read_notebook", {"view": "reading"})


async def test_a_message_after_a_call_that_was_cut_off_is_answered() -> None:
    conversation = Conversation("auto")
    await conversation.say("start")
    await conversation.result()
    assert texts.CONNECT in (await conversation.say("connect")).text


async def test_without_matplotlib_it_draws_by_other_means() -> None:
    conversation = Conversation("auto")
    await conversation.say("start")
    await conversation.result()
    await conversation.result()
    answer = await conversation.result()
    assert answer.call == ("insert_and_execute_cell", {"source": texts.PLOT_CELL})
    answer = await conversation.result("efgh")
    assert answer.call == ("overwrite_cell", {"cell": "efgh", "source": texts.DRAWING_CELL})
    assert (await conversation.result()).call == ("execute_cell", {"cell": "efgh"})
    answer = await conversation.result()
    assert answer.call == ("insert_and_execute_cell", {"source": texts.FAILING_CELL})


async def test_a_turn_that_is_interrupted_before_it_begins_ends() -> None:
    async def call(*_call: object) -> types.CallToolResult:
        raise AssertionError("it was interrupted")

    session = TourSession(call)
    content = [TextBlock("<seen>\nPermission mode: auto.\n</seen>"), TextBlock("start")]
    await session.send(content, model="tk-tour", credential=CREDENTIAL)
    await session.interrupt()
    async with asyncio.timeout(20):
        assert await session.receive() == TurnEnded()


# -- the whole chain


@pytest.fixture
def models(tmp_path: Path) -> ClaudeModels:
    return ClaudeModels(ProviderSettings(secrets_file=".secrets.env"), dict, tmp_path)


@pytest.fixture
async def tour(harness: ToolHarness, models: ClaudeModels, tmp_path: Path) -> AsyncIterator[Talk]:
    """A person in a server with no model connected."""
    config = ClaudeConfig(tmp_path / "claude", cli="/nowhere/claude")
    services = ChatServices(
        workspace=harness.workspace,
        registry=harness.registry,
        store=ChatStore(tmp_path / "chats" / "chats.sqlite"),
        backend=ClaudeBackend(config, models.provider),
        settings=ChatSettings(),
    )
    talk = Talk(Chats(services), services, ScriptedModel())
    yield talk
    await talk.chats.close()


def text_of(events: list[Event]) -> str:
    return "".join(event["text"] for event in of_kind(events, "text"))


async def test_the_whole_tour_works_in_the_active_notebook(
    tour: Talk, harness: ToolHarness
) -> None:
    harness.write("mine.ipynb", "prices = [3, 4, 5]")
    events = await tour.say("What is this?", notebook="mine.ipynb", mode="auto")

    assert texts.INTRO in text_of(events)
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
    mine, title, data, plot, fixed = harness.on_disk("mine.ipynb").cells
    assert mine.source == "prices = [3, 4, 5]"
    assert title.source == texts.TITLE_CELL
    assert data.outputs[0].text.startswith(" 0 min  84.0 °C\n")
    assert "image/png" in plot.outputs[0].data
    assert fixed.source == texts.FIXED_CELL
    assert "°C in 30 minutes" in fixed.outputs[0].text


@pytest.mark.proves("perm:modes")
async def test_the_plan_of_the_tour_is_approved_and_carried_out(
    tour: Talk, harness: ToolHarness
) -> None:
    harness.write("mine.ipynb", "prices = [3, 4, 5]")
    plan = await tour.say("start", notebook="mine.ipynb", mode="plan")
    (made,) = of_kind(plan, "plan")
    assert made["text"].endswith(texts.PLAN)
    answer = parse_plan_answer({"plan": plan[0].turn, "answer": "approve", "mode": "edit"})
    begun = await tour.chats.answer_plan(USER, plan[0].data["chat"], answer)
    events: list[Event] = []
    async for event in begun.events:
        events.append(event)
        if event.kind == "permission":
            harness.workspace.policy.answer(USER, event.data["id"], "notebook")
    # In this mode only running is asked for.
    assert [asked["effect"] for asked in of_kind(events, "permission")] == ["EXECUTE"]
    assert events[-1].data == {"end": "done", "text": texts.END}


async def answered(
    tour: Talk, harness: ToolHarness, answer: PermissionAnswer, **fields: Any
) -> list[Event]:
    """What comes of `start` in the mode that asks, when each question gets this answer."""
    begun = await tour.send("start", mode="ask", **fields)
    events: list[Event] = []
    async for event in begun.events:
        events.append(event)
        if event.kind == "permission":
            harness.workspace.policy.answer(USER, event.data["id"], answer)
    return events


async def test_a_refusal_holds_and_ends_the_tour(tour: Talk, harness: ToolHarness) -> None:
    path = harness.write("mine.ipynb", "prices = [3, 4, 5]")
    before = path.read_bytes()
    events = await answered(tour, harness, "deny", notebook="mine.ipynb")
    [asked] = of_kind(events, "permission")
    assert texts.TITLE_CELL.splitlines()[0] in asked["preview"]
    assert events[-1].data["text"] == texts.REFUSED
    assert path.read_bytes() == before


async def test_a_person_without_a_notebook_gets_one_and_is_asked_before_each_change(
    tour: Talk, harness: ToolHarness
) -> None:
    events = await answered(tour, harness, "once")
    assert [asked["tool"] for asked in of_kind(events, "permission")] == [
        "use_notebook",
        "insert_cell",
        *("insert_and_execute_cell",) * 3,
        "overwrite_cell",
        "execute_cell",
    ]
    assert events[-1].data["text"] == texts.END
    assert [cell.source for cell in harness.on_disk("tour.ipynb").cells][-1] == texts.FIXED_CELL


async def test_in_a_kernel_of_another_language_the_tour_says_why_it_ends(
    tour: Talk, harness: ToolHarness, bash_kernelspec: str
) -> None:
    kernelspec = {"name": bash_kernelspec, "display_name": "Bash", "language": "bash"}
    harness.write("shell.ipynb", "ls", kernelspec=kernelspec)
    events = await tour.say("start", notebook="shell.ipynb", mode="auto")
    *_, ran = of_kind(events, "tool_result")
    assert (ran["tool"], ran["ok"]) == ("insert_and_execute_cell", False)
    assert events[-1].data == {"end": "done", "text": texts.BROKEN}


async def test_a_key_is_used_as_soon_as_it_is_there(models: ClaudeModels, tmp_path: Path) -> None:
    assert (await models.health())["provider"] == "tour"
    (tmp_path / ".secrets.env").write_text("ANTHROPIC_API_KEY=k\n", encoding="utf-8")
    assert (await models.health())["provider"] == "anthropic"
    assert (await models.provider()).environment["ANTHROPIC_API_KEY"] == "k"


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
