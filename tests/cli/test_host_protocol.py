"""The protocol between a command and its host: lost connections, oversized or invalid messages, Ctrl-C."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tornado.iostream import IOStream

from tests.cli.conftest import DEADLINE, Nb
from tests.cli.test_concurrent_commands import in_terminal, shows
from tk_ai_extension import __version__
from tk_ai_extension.cli import client, wire
from tk_ai_extension.cli.commands.table import Commands
from tk_ai_extension.cli.connecting import COMMANDS, PROTOCOLS, own_server
from tk_ai_extension.cli.messages import Messages
from tk_ai_extension.cli.project import Project
from tk_ai_extension.cli.serverless import local_context
from tk_ai_extension.server.commands import CommandServer, RemoteTerminal
from tk_ai_extension.server.handlers.upgrades import LineStream, LineTooLong


@pytest.fixture
def opened(shared: Nb) -> Nb:
    """A project with a host, and a notebook whose cell this caller has read."""
    shared.notebook("a.ipynb", "x = 1")
    shared("open", "a.ipynb")
    shared("cell", "0")
    return shared


def talk(nb: Nb, *sent: bytes) -> list[Any]:
    """Sends lines to the host as a command does, and returns all its answers."""
    server = own_server(Project(str(nb.root)))
    assert server is not None
    connection = server.open(COMMANDS)
    connection.settimeout(60)
    with connection, connection.makefile("rb") as received:
        with suppress(BrokenPipeError, ConnectionResetError):
            for line in sent:
                connection.sendall(line)
        answers: list[Any] = []
        # Where the host has not read all, the system says so after its answer.
        with suppress(ConnectionResetError):
            answers.extend(json.loads(line) for line in received)
        return answers


@pytest.mark.parametrize("protocol", [*PROTOCOLS, "websocket"])
def test_a_connection_is_upgraded_to_either_name_of_the_protocol(opened: Nb, protocol: str) -> None:
    server = own_server(Project(str(opened.root)))
    assert server is not None
    connection = server.connect()
    assert connection is not None
    head = (
        f"GET /{COMMANDS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: token {server.token}\r\n"
        f"Upgrade: {protocol}\r\n\r\n"
    )
    connection.settimeout(60)
    with connection, connection.makefile("rb") as received:
        connection.sendall(head.encode())
        status, headers = received.readline(), set(iter(received.readline, b"\r\n"))
    is_known = protocol in PROTOCOLS
    assert (b" 101 " in status, b" 426 " in status) == (is_known, not is_known), status
    assert f"Upgrade: {protocol if is_known else PROTOCOLS[0]}\r\n".encode() in headers


def greeting(nb: Nb, *argv: str) -> bytes:
    here = str(nb.root)
    fields = {"argv": argv, "cwd": here, "project": here, "columns": 0, "tty": False, "env": {}}
    return json.dumps({**fields, "version": __version__}).encode() + b"\n"


@pytest.mark.parametrize("answer", [b"no JSON\n", b"[]\n", b"\xff\n", b"7\n"])
def test_an_answer_that_is_none_is_refused_and_changes_nothing(opened: Nb, answer: bytes) -> None:
    asked, output, ended = talk(opened, greeting(opened, "edit", "0", "-"), answer)
    assert asked == {"ask": "stdin"}
    assert "sent an invalid message" in output["err"]
    assert ended == {"exit": wire.REFUSED}
    assert opened.read("a.ipynb").cells[0].source == "x = 1"


def test_an_answer_that_is_too_long_is_refused_by_both_sides(opened: Nb) -> None:
    words = greeting(opened, "edit", "0", "-", "--json")
    _, output, ended = talk(opened, words, b'{"too_long": true}\n')
    assert json.loads(output["out"])["error"]["code"] == "invalid_arguments"
    assert ended == {"exit": wire.REFUSED}
    endless = (b"x" * (1 << 20) for _ in range((wire.LONGEST_LINE >> 20) + 1))
    _, output, ended = talk(opened, words, *endless, b"\n")
    assert "longer than 256 MB" in json.loads(output["out"])["error"]["message"]
    assert opened.read("a.ipynb").cells[0].source == "x = 1"


def test_a_command_says_that_its_input_is_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wire, "LONGEST_LINE", 100)
    here, there = socket.socketpair()
    with here, there:
        client._send(here, {"answer": "x" * 100})
        assert there.recv(1000) == b'{"too_long": true}\n'


@pytest.mark.parametrize("words", [b"GET / HTTP/1.1\r\n", b"{}\n", b"[]\n"])
def test_a_client_that_is_no_command_gets_an_error(opened: Nb, words: bytes) -> None:
    (answer,) = talk(opened, words)
    assert answer["exit"] == wire.REFUSED
    assert "1 cells" in opened("cells").out


@pytest.mark.parametrize("sent", [b"", b"no JSON\n", b'{"out": "half', b"[]\n"])
def test_a_host_that_breaks_off_or_is_none_ends_the_command_with_3(
    sent: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there = socket.socketpair()
    there.sendall(sent)
    there.close()
    with here:
        assert client.forward(here, ["cells"], "/", client.Console(), own=True) == wire.UNREACHABLE
    assert "The server stopped before it answered" in capsys.readouterr().err


def test_ctrl_c_at_any_moment_loses_no_message() -> None:
    here, there = socket.socketpair()
    handled, is_over = threading.Event(), threading.Event()
    sent = [{"out": "x" * (number % 997), "number": number} for number in range(30_000)]

    def flood() -> None:
        there.sendall(b"".join(json.dumps(message).encode() + b"\n" for message in sent))
        there.close()

    def interrupt() -> None:
        while not is_over.is_set():
            os.kill(os.getpid(), signal.SIGINT)
            handled.wait(DEADLINE)
            handled.clear()

    threads = [threading.Thread(target=each) for each in (flood, interrupt)]
    got: list[Any] = []
    interrupts = 0
    with here, Messages(here) as messages:
        for thread in threads:
            thread.start()
        while len(got) < len(sent):
            try:
                got.append(messages.receive())
            except KeyboardInterrupt:
                interrupts += 1
                handled.set()
        is_over.set()
        handled.set()
        for thread in threads:
            thread.join()
    assert got == sent
    assert interrupts > 20


@pytest.mark.parametrize(
    "asks",
    [
        {"ask": "file", "path": "/etc/passwd"},
        {"ask": "file", "path": "~/.ssh/id_rsa"},
        {"ask": "stdin"},
        {"ask": "edit", "text": "x", "name": "../../x"},
        {"ask": "secrets"},
        {"ask": "file", "path": ["cells"]},
    ],
)
def test_a_server_gets_what_the_command_names_and_nothing_else(
    asks: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "JUPYTER_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"):
        monkeypatch.setenv(name, "canary")
    monkeypatch.setattr("webbrowser.open", lambda _: pytest.fail("a page was opened"))
    here, there = socket.socketpair()
    frames = ({"browse": "http://x/"}, asks, {"exit": 0})
    there.sendall(b"".join(json.dumps(frame).encode() + b"\n" for frame in frames))
    with here, there:
        ended = client.forward(here, ["chat", "hello"], "/", client.Console(), own=False)
        assert ended == wire.OK
        greeting, answer = (json.loads(line) for line in there.recv(100_000).splitlines())
    assert "canary" not in json.dumps(greeting)
    assert answer == {"problem": "The command does not name this file."}


async def test_ctrl_c_while_a_command_reads_ends_it_and_nothing_is_changed(opened: Nb) -> None:
    process, screen = await in_terminal(opened, "edit", "0", "-")
    await shows(screen, b"Ctrl-C discards it")
    os.write(screen, b"x = 2\n\x03")
    assert b"Nothing was changed" in await shows(screen, b"Nothing was changed")
    assert await process.wait() == wire.INTERRUPTED
    os.close(screen)
    assert opened.read("a.ipynb").cells[0].source == "x = 1"


async def test_ctrl_c_without_a_host_ends_a_command_at_once(nb: Nb) -> None:
    nb.notebook("a.ipynb", "x = 1")
    process, screen = await in_terminal(nb, "insert", "0", "-", "-n", "a.ipynb")
    await shows(screen, b"Ctrl-C discards it")
    os.write(screen, b"\x03")
    assert await process.wait() == wire.INTERRUPTED
    assert b"Traceback" not in os.read(screen, 65536)
    os.close(screen)
    assert len(nb.read("a.ipynb").cells) == 1


async def test_ctrl_c_in_an_editor_is_the_editors(
    opened: Nb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "editor"
    editor.write_text(
        '#!/bin/sh\ntrap \'echo "x = 3" > "$1"; exit 0\' INT\necho edits\nread line\n'
    )
    editor.chmod(0o755)
    monkeypatch.setitem(opened.environment, "EDITOR", str(editor))
    process, screen = await in_terminal(opened, "edit", "0", "--editor")
    await shows(screen, b"edits")
    os.write(screen, b"\x03")
    assert await process.wait() == 0
    os.close(screen)
    assert opened.read("a.ipynb").cells[0].source == "x = 3"


def test_a_reader_that_closes_the_pipe_early_breaks_nothing(nb: Nb) -> None:
    nb.notebook("a.ipynb", *(f"x{n} = {n}" for n in range(100)))
    # Without a host, so that the command itself prints.
    read, write = os.pipe()
    os.close(read)
    process = asyncio.run(_piped(nb, write))
    assert process == (0, b"")


async def _piped(nb: Nb, write: int) -> tuple[int | None, bytes]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tk_ai_extension.cli",
        "cells",
        "a.ipynb",
        stdout=write,
        stderr=asyncio.subprocess.PIPE,
        cwd=nb.root,
        env=nb.environment,
    )
    os.close(write)
    _, err = await process.communicate()
    return process.returncode, err


class RecordingTerminal(RemoteTerminal):
    """The terminal at the other end of a connection, which records the frames."""

    def __init__(self) -> None:
        greeting = {"cwd": "/", "project": "/", "columns": 0, "tty": False, "env": {}}
        super().__init__(greeting, cast("LineStream", None))
        self.frames: list[dict[str, Any]] = []

    def send(self, **frame: Any) -> None:
        self.frames.append(frame)


@pytest.mark.proves("doc:errors")
async def test_a_defect_is_an_error_like_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> int:
        raise ZeroDivisionError("\x1b[2J")

    monkeypatch.setattr(Commands, "run", broken)
    context = local_context(Project(str(tmp_path)))
    terminal = RecordingTerminal()
    usage = SimpleNamespace(is_unused=lambda *, ending: False)  # noqa: ARG005
    commands = CommandServer(context, cast("Any", None), usage)
    try:
        for words in (["cells"], ["cells", "--json"]):
            await commands._run(words, terminal, context.user)
    finally:
        await context.workspace.close()
    output, ended, as_json, _ = terminal.frames
    assert "Error [internal_error]: nb cells failed: ZeroDivisionError: ␛[2J" in output["err"]
    assert "the server's log has the traceback" in output["err"]
    assert ended == {"exit": wire.REFUSED}
    assert json.loads(as_json["out"])["error"]["code"] == "internal_error"


async def test_a_message_of_mcp_that_is_too_long_ends_its_connection_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tk_ai_extension.server.handlers.upgrades.LONGEST_LINE", 10)
    here, there = socket.socketpair()
    lines = LineStream(IOStream(here))
    there.sendall(b"short\n" + b"x" * 30 + b"\n")
    try:
        assert await lines.read_line() == b"short\n"
        with pytest.raises(LineTooLong):
            await lines.read_line()
    finally:
        lines.close()
        there.close()
