"""The tour, through the whole chain, from message to notebook."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tornado.iostream import IOStream
from tornado.netutil import bind_sockets
from tornado.tcpserver import TCPServer

from tests.agent.conftest import USER, Talk, of_kind
from tests.harness import ToolHarness
from tests.support.chat_requests import parse_plan_answer
from tests.support.scripted_model import ScriptedModel
from tk_ai_extension.agent.chat import ChatServices, ChatSettings
from tk_ai_extension.agent.chats import Chats
from tk_ai_extension.agent.claude.client import ClaudeBackend
from tk_ai_extension.agent.claude.connections import ClaudeModels
from tk_ai_extension.agent.claude.providers import ProviderSettings
from tk_ai_extension.agent.events import Event
from tk_ai_extension.agent.store import ChatStore
from tk_ai_extension.agent.tour import read_script
from tk_ai_extension.workspace.permissions import Answer as PermissionAnswer

SCRIPT = read_script()
TITLE_CELL = SCRIPT["steps"][0]["arguments"]["source"]
FIXED_CELL = SCRIPT["steps"][-1]["fix"][0]["arguments"]["source"]


@pytest.fixture
def models(tmp_path: Path) -> ClaudeModels:
    return ClaudeModels(ProviderSettings(secrets_file=".secrets.env"), tmp_path, environment={})


@pytest.fixture
async def tour(harness: ToolHarness, models: ClaudeModels, tmp_path: Path) -> AsyncIterator[Talk]:
    """A person in a server with no model connected."""
    services = ChatServices(
        workspace=harness.workspace,
        registry=harness.registry,
        store=ChatStore(tmp_path / "chats" / "chats.sqlite"),
        backend=ClaudeBackend(tmp_path / "claude", models.provider, "/nowhere/claude"),
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

    assert SCRIPT["intro"] in text_of(events)
    assert [(answer["tool"], answer["ok"]) for answer in of_kind(events, "tool_result")] == [
        ("read_notebook", True),
        ("insert_cell", True),
        ("insert_and_execute_cell", True),
        ("insert_and_execute_cell", True),
        ("insert_and_execute_cell", False),
        ("overwrite_cell", True),
        ("execute_cell", True),
    ]
    assert events[-1].data == {"end": "done", "text": SCRIPT["end"]}
    mine, title, data, plot, fixed = harness.on_disk("mine.ipynb").cells
    assert mine.source == "prices = [3, 4, 5]"
    assert title.source == TITLE_CELL
    assert data.outputs[0].text.startswith(" 0 min  84.0 °C\n")
    assert "image/png" in plot.outputs[0].data
    assert fixed.source == FIXED_CELL
    assert "°C in 30 minutes" in fixed.outputs[0].text


@pytest.mark.parametrize(
    ("message", "begins", "said"),
    [
        ("Hello", False, SCRIPT["menu"]),
        ("connect", False, SCRIPT["connect"]),
        ("start", True, SCRIPT["end"]),
    ],
)
async def test_each_answer_says_that_it_is_the_tour_which_starts_when_asked(
    tour: Talk, harness: ToolHarness, message: str, begins: bool, said: str
) -> None:
    harness.write("mine.ipynb", "prices = [3, 4, 5]")
    begun = await tour.send(message, notebook="mine.ipynb", mode="edit")
    events: list[Event] = []
    async for event in begun.events:
        events.append(event)
        if event.kind == "permission":
            harness.workspace.policy.answer(USER, event.data["id"], "once")
    text = text_of(events)
    assert text.startswith(SCRIPT["label"])
    assert SCRIPT["intro"] in text
    assert text.endswith(said)
    assert bool(of_kind(events, "tool_call")) == begins


@pytest.mark.proves("perm:modes")
async def test_the_plan_of_the_tour_is_approved_and_carried_out(
    tour: Talk, harness: ToolHarness
) -> None:
    harness.write("mine.ipynb", "prices = [3, 4, 5]")
    plan = await tour.say("start", notebook="mine.ipynb", mode="plan")
    assert plan[-1].data["end"] == "planned"
    assert plan[-1].data["text"].endswith(SCRIPT["plan"])
    answer = parse_plan_answer({"plan": plan[0].turn, "answer": "approve", "mode": "edit"})
    begun = await tour.chats.answer_plan(USER, plan[0].data["chat"], answer)
    events: list[Event] = []
    async for event in begun.events:
        events.append(event)
        if event.kind == "permission":
            harness.workspace.policy.answer(USER, event.data["id"], "notebook")
    # In this mode only running is asked for.
    assert [asked["effect"] for asked in of_kind(events, "permission")] == ["EXECUTE"]
    assert events[-1].data == {"end": "done", "text": SCRIPT["end"]}


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
    assert TITLE_CELL.splitlines()[0] in asked["preview"]
    assert events[-1].data["text"] == SCRIPT["refused"]
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
    assert events[-1].data["text"] == SCRIPT["end"]
    assert [cell.source for cell in harness.on_disk("tour.ipynb").cells][-1] == FIXED_CELL


async def test_in_a_kernel_of_another_language_the_tour_says_why_it_ends(
    tour: Talk, harness: ToolHarness, bash_kernelspec: str
) -> None:
    kernelspec = {"name": bash_kernelspec, "display_name": "Bash", "language": "bash"}
    harness.write("shell.ipynb", "ls", kernelspec=kernelspec)
    events = await tour.say("start", notebook="shell.ipynb", mode="auto")
    *_, ran = of_kind(events, "tool_result")
    assert (ran["tool"], ran["ok"]) == ("insert_and_execute_cell", False)
    assert events[-1].data == {"end": "done", "text": SCRIPT["broken"]}


async def test_a_key_is_used_as_soon_as_it_is_there(models: ClaudeModels, tmp_path: Path) -> None:
    assert (await models.provider()).name == "tour"
    (tmp_path / ".secrets.env").write_text("ANTHROPIC_API_KEY=k\n", encoding="utf-8")
    assert (await models.provider()).name == "anthropic"
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
