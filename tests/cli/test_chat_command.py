"""`nb chat`: Claude in a terminal, by the real SDK and CLI, in a project's host and in a server."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import psutil
import pytest
from tornado.netutil import bind_sockets

from tests.cli.conftest import DEADLINE, NB, Ended, Nb, once, project_in
from tests.servers import StartServer, start_server
from tests.support.messages_api import HOST
from tests.support.scripted_model import (
    MODEL,
    UNAUTHORIZED,
    Answer,
    Held,
    ScriptedModel,
    ToolUse,
)

__all__ = ["start_server"]

pytestmark = pytest.mark.proves("rest:chat")

COUNTED = "One, two, three, four, five, six, seven, eight."
INSERT = ToolUse("insert_cell", {"source": "x = 1"})
OPTIONS = [{"label": "Line", "description": ""}, {"label": "Bars", "description": "Of days"}]
PLOT = {"question": "Which plot?", "header": "Plot", "options": OPTIONS, "multiSelect": False}
DAYS = PLOT | {"question": "Which days?", "multiSelect": True}
ASKS = ToolUse("AskUserQuestion", {"questions": [PLOT, DAYS]})


@pytest.fixture(scope="module")
def listener() -> Iterator[socket.socket]:
    """Where the models of all tests listen: their host knows one address."""
    (listener,) = bind_sockets(0, HOST)
    with listener:
        yield listener


@pytest.fixture
async def model(listener: socket.socket) -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel().running(listener) as model:
        yield model


@pytest.fixture(scope="module")
def talkative(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nb]:
    with project_in(tmp_path_factory.mktemp("chat")) as nb:
        yield nb


@pytest.fixture
def chatting(talkative: Nb, model: ScriptedModel) -> Iterator[Nb]:
    """`nb` in a project with a notebook, with the scripted model as every command's.

    Its host, which has the chats, goes on from one test to the next.
    """
    with_model = {**model.environment, "ANTHROPIC_MODEL": MODEL}
    nb = replace(talkative, environment=talkative.environment | with_model)
    nb.notebook("a.ipynb", "6 * 7")
    yield nb
    nb.clear()


async def run(nb: Nb, *words: str, **options: Any) -> Ended:
    """Runs a command, while the model answers."""
    return await asyncio.to_thread(nb, *words, **options)


def events_of(ended: Ended) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ended.out.splitlines()]


async def test_a_message_is_answered_and_what_was_done_stands_in_the_notebook(
    chatting: Nb, model: ScriptedModel
) -> None:
    model.add(
        Answer.of("Let me see.", ToolUse("insert_and_execute_cell", {"source": "print(6 * 7)"})),
        Answer.of("It is 42."),
    )
    words = ("chat", "-n", "a.ipynb", "--mode", "auto", "What is", "six by seven?")
    ended = await run(chatting, *words)
    assert ended.out == "Let me see.\nIt is 42.\n"
    assert "● insert_and_execute_cell(source=" in ended.err
    assert "✔ insert_and_execute_cell" in ended.err
    assert "+print(6 * 7)" in ended.err
    assert chatting.read("a.ipynb").cells[-1].outputs[0].text == "42\n"
    assert "What is six by seven?" in str(model.requests[0].body["messages"])

    model.add(Answer.of("Six by seven."), Answer.of("No idea."))
    assert (await run(chatting, "chat", "-n", "a.ipynb", "And I asked?")).out == "Six by seven.\n"
    assert "It is 42." in str(model.requests[-1].body["messages"])
    await run(chatting, "chat", "-n", "a.ipynb", "--new", "And I asked?")
    assert "It is 42." not in str(model.requests[-1].body["messages"])
    model.add(Answer.of("Once more."))
    again = await run(chatting, "chat", "-n", "a.ipynb", "-", stdin="Again.\n")
    assert again.out == "Once more.\n"
    assert "And I asked?" in str(model.requests[-1].body["messages"])


async def test_where_nobody_can_be_asked_the_answer_is_no_and_events_are_json_for_programs(
    chatting: Nb, model: ScriptedModel
) -> None:
    model.add(Answer.of(INSERT), Answer.of("I may not."))
    ended = await run(chatting, "chat", "-n", "a.ipynb", "Set x.")
    assert ended.out == "I may not.\n"
    assert "nobody can be asked here" in ended.err
    assert "+x = 1" in ended.err
    assert len(chatting.read("a.ipynb").cells) == 1

    model.add(Answer.of(ASKS), Answer.of("As I like."))
    assert (await run(chatting, "chat", "-n", "a.ipynb", "Plot.")).out == "As I like.\n"
    assert "did not answer" in model.requests[-1].tool_results[-1].text

    model.add(Answer.of(INSERT), Answer.of("Done."))
    ended = await run(chatting, "chat", "-n", "a.ipynb", "--mode", "edit", "Set x.", "--json")
    events = events_of(ended)
    kinds = [event["kind"] for event in events]
    assert kinds[:2] == ["message", "began"]
    assert kinds[-2:] == ["usage", "done"]
    assert {"tool_call", "tool_result", "cell_change", "text"} <= set(kinds)
    assert (events[-1]["end"], events[-1]["text"]) == ("done", "Done.")
    assert ended.err == ""


async def test_failures_are_reported_with_a_status(chatting: Nb, model: ScriptedModel) -> None:
    model.add(*[UNAUTHORIZED] * 6)
    ended = await run(chatting, "chat", "Hello.", status=2)
    assert "model_unauthorized" in ended.err
    refused = await run(chatting, "chat", "--model", "another", "Hello.", "--json", status=2)
    assert refused.json["error"]["code"] == "no_model"
    assert "the message is empty" in (await run(chatting, "chat", status=2)).err
    missing = await run(chatting, "chat", "-n", "missing.ipynb", "Hello.", status=2)
    assert "notebook_not_found" in missing.err


async def test_an_interrupt_stops_the_turn(chatting: Nb, model: ScriptedModel) -> None:
    held = Held(Answer.of(COUNTED), after=3)
    model.add(held)
    process = await chatting.start("chat", "Count.")
    assert process.stdout is not None
    async with asyncio.timeout(DEADLINE):
        assert (await process.stdout.read(1)) == b"O"
        process.send_signal(signal.SIGINT)
        out, err = await process.communicate()
        await held.gone.wait()
    assert process.returncode == 130
    assert (b"eight" in out, b"Stopped." in err) == (False, True)


async def test_the_same_chats_go_on_in_a_server_of_the_folder(
    nb: Nb, model: ScriptedModel, start_server: StartServer
) -> None:
    """A notebook that belongs to a running server is talked about there, and the chat is the server's."""
    data = nb.root / "data"
    config = (
        f"c.TkAIExtensionApp.chat_model = {MODEL!r}\nc.TkAIExtensionApp.data_dir = {str(data)!r}\n"
    )
    server = await start_server(config=config, **model.environment)
    nb.root = server.root
    nb.environment["JUPYTER_RUNTIME_DIR"] = str(server.home / "runtime")
    below = nb.root / "deep"
    nb.notebook("deep/a.ipynb", "1")
    model.add(Answer.of(INSERT), Answer.of("I may not."), Answer.of("You asked for x."))
    ended = await run(nb, "chat", "-n", "a.ipynb", "Set x.", cwd=below)
    assert ended.out == "I may not.\n"
    ended = await run(nb, "chat", "-n", "deep/a.ipynb", "What did I ask?")
    assert ended.out == "You asked for x.\n"
    assert "Set x." in str(model.requests[-1].body["messages"])
    assert any(data.rglob("chats.sqlite"))
    refused = await run(nb, "chat", "--model", "another", "-n", "deep/a.ipynb", "x", status=2)
    assert "no_model" in refused.err


@dataclass
class Screen:
    """A terminal in which `nb chat` runs: what it shows, and what a person types."""

    terminal: int
    process: asyncio.subprocess.Process
    shown: str = ""
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def arrived(self) -> None:
        """Takes what the terminal shows."""
        try:
            self.shown += os.read(self.terminal, 1 << 16).decode()
        except OSError:  # its other end is closed
            asyncio.get_running_loop().remove_reader(self.terminal)
        self._arrived.set()

    async def until(self, text: str) -> str:
        """Waits until this is shown; what was shown before it is gone then."""
        async with asyncio.timeout(DEADLINE):
            while text not in self.shown:
                self._arrived.clear()
                await self._arrived.wait()
        before, _, self.shown = self.shown.partition(text)
        return before

    def type(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    async def end(self) -> int:
        """Presses Ctrl-C at the prompt and waits for the end; the exit status.

        `input` loses a signal that arrives between its prompt and its read: then it is pressed again.
        """
        dialogue = psutil.Process(self.process.pid)
        for _ in range(3):
            await once(lambda: dialogue.status() == psutil.STATUS_SLEEPING)
            self.process.send_signal(signal.SIGINT)
            with suppress(TimeoutError):
                return await asyncio.wait_for(self.process.wait(), DEADLINE / 4)
        raise AssertionError(f"It does not end:\n{self.shown}")


@pytest.fixture
async def screen(chatting: Nb) -> AsyncIterator[Screen]:
    """A dialogue about the notebook."""
    terminal, inside = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *NB,
        *("chat", "-n", "a.ipynb"),
        stdin=inside,
        stdout=inside,
        stderr=inside,
        cwd=chatting.root,
        env=chatting.environment,
        start_new_session=True,
    )
    os.close(inside)
    screen = Screen(terminal, process)
    loop = asyncio.get_running_loop()
    loop.add_reader(terminal, screen.arrived)
    yield screen
    loop.remove_reader(terminal)
    if process.returncode is None:
        process.kill()
        await process.wait()
    os.close(terminal)


async def test_a_dialogue_goes_on_in_one_chat_until_it_is_ended(
    screen: Screen, chatting: Nb, model: ScriptedModel
) -> None:
    model.add(Answer.of("Hello."), Answer.of("You said hello."))
    await screen.until("ask> ")
    screen.type("Hello?\n")
    await screen.until("Hello.")
    await screen.until("ask> ")
    screen.type("What did I say?\n")
    await screen.until("You said hello.")
    assert "Hello?" in str(model.requests[-1].body["messages"])
    await screen.until("ask> ")
    screen.type("\x04")
    async with asyncio.timeout(DEADLINE):
        assert await screen.process.wait() == 0


async def test_in_a_dialogue_a_key_answers_a_question_and_ctrl_c_stops_and_ends(
    screen: Screen, chatting: Nb, model: ScriptedModel
) -> None:
    model.add(Answer.of(INSERT), Answer.of("Added."), Answer.of(INSERT), Answer.of("Not added."))
    await screen.until("ask> ")
    screen.type("Set x.\n")
    assert "+x = 1" in await screen.until("insert_cell: yes, chat, always, no? ")
    screen.type("maybe\n")
    await screen.until("insert_cell: yes, chat, always, no? ")
    screen.type("y\n")
    await screen.until("Added.")
    await screen.until("ask> ")
    screen.type("Once more.\n")
    await screen.until("insert_cell: yes, chat, always, no? ")
    screen.type("n\n")
    await screen.until("Not added.")
    assert [cell.source for cell in chatting.read("a.ipynb").cells] == ["6 * 7", "x = 1"]

    model.add(Answer.of(ASKS), Answer.of("Bars."))
    await screen.until("ask> ")
    screen.type("Plot it.\n")
    assert "2. Bars  Of days" in await screen.until("Number: ")
    screen.type("2\n")
    await screen.until("Numbers with commas: ")
    screen.type("1, mine\n")
    await screen.until("Bars.")
    answers = '"Which plot?"="Bars", "Which days?"="Line, mine"'
    assert answers in model.requests[-1].tool_results[-1].text

    held = Held(Answer.of(COUNTED), after=3)
    model.add(held)
    await screen.until("ask> ")
    screen.type("Count.\n")
    await screen.until("One")
    screen.process.send_signal(signal.SIGINT)
    assert "eight" not in await screen.until("Stopped.")
    await screen.until("ask> ")
    assert await screen.end() == 0


async def test_a_host_that_is_shut_down_ends_what_it_was_asked_and_leaves_nothing(
    chatting: Nb, model: ScriptedModel
) -> None:
    held = Held(Answer.of(COUNTED), after=3)
    model.add(held)
    process = await chatting.start("chat", "Count.")
    assert process.stdout is not None
    async with asyncio.timeout(DEADLINE):
        await process.stdout.read(1)
    host = psutil.Process((await run(chatting, "status", "--json")).json["host"])
    running = [host, *host.children(recursive=True)]
    assert any("claude" in each.name() for each in running)
    await run(chatting, "shutdown")
    async with asyncio.timeout(DEADLINE):
        await process.communicate()
        await held.gone.wait()
    _, alive = await asyncio.to_thread(psutil.wait_procs, running, DEADLINE)
    assert alive == []
    model.add(Answer.of("I counted."))
    assert (await run(chatting, "chat", "What was that?")).out == "I counted.\n"
