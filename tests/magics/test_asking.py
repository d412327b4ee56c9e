"""An input that becomes needless ends; one that is answered stays answered, whatever comes at once."""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import select
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tk_ai_extension.magics.asking import ask_unless_settled
from tk_ai_extension.magics.magic import Magic
from tk_ai_extension.magics.server_connection import ServerConnection, Stopped, TkError

pytestmark = [
    pytest.mark.proves("ext:magics"),
    pytest.mark.skipif(
        threading.current_thread() is not threading.main_thread(), reason="signals end an input"
    ),
]

SETTLED = {"kind": "permission_settled", "id": "mine"}
OTHERS = [{"kind": "permission_settled", "id": "another"}, {"kind": "text", "text": "."}]


class Server:
    """The other end of a connection."""

    def __init__(self, listening: socket.socket, address: str) -> None:
        self.connection = ServerConnection({"TK_AI_SOCKET": address})
        self.socket, _ = listening.accept()

    def send(self, *events: object) -> None:
        """Sends events."""
        self.socket.sendall(b"".join(json.dumps(event).encode() + b"\n" for event in events))


@pytest.fixture(autouse=True)
def interrupts() -> Iterator[list[int]]:
    """The interrupts outside of an input; pytest's handler would end all tests."""
    received: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: received.append(number))
    yield received
    signal.signal(signal.SIGINT, before)
    assert received == []


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    address = os.path.relpath(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        made = Server(listening, address)
        with made.connection, made.socket:
            yield made


@pytest.mark.parametrize("event", [SETTLED, {"kind": "done"}, {"error": {}}])
def test_what_has_been_settled_is_not_asked(
    server: Server, monkeypatch: pytest.MonkeyPatch, event: object
) -> None:
    monkeypatch.setattr("builtins.input", pytest.fail)
    server.send(*OTHERS, event)
    assert ask_unless_settled("? ", server.connection, "mine") is None
    assert [server.connection.receive() for _ in OTHERS] == OTHERS


def test_the_end_of_the_connection_ends_the_input(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(_: str) -> str:
        server.socket.close()
        return str(os.read(read, 1))

    read, write = os.pipe()
    monkeypatch.setattr("builtins.input", ask)
    assert ask_unless_settled("? ", server.connection, "mine") is None
    with pytest.raises(TkError, match="lost"):
        server.connection.receive()
    os.close(read)
    os.close(write)


def test_a_request_is_watched_by_a_kernel_with_many_open_files(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(_: str) -> str:
        server.send(*OTHERS, SETTLED)
        return str(select.poll().poll(5_000))

    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr("builtins.input", ask)
    with contextlib.ExitStack() as opened:
        opened.callback(resource.setrlimit, resource.RLIMIT_NOFILE, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, most[1]), most[1]))
        while opened.enter_context(Path(os.devnull).open()).fileno() < 1024:
            pass
        assert ask_unless_settled("? ", server.connection, "mine") is None


def test_an_interrupt_stops_a_turn_where_the_kernel_would_only_schedule_a_cancellation(
    server: Server, interrupts: list[int]
) -> None:
    def interrupt() -> None:
        server.socket.recv(1)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        server.send({"kind": "done", "end": "completed"})

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(Stopped):
        Magic(None, lambda: server.connection).ask("--plain Change everything.")
    thread.join()
    assert signal.getsignal(signal.SIGINT) is before
    server.socket.settimeout(5)
    with contextlib.suppress(ConnectionResetError):
        while server.socket.recv(1 << 16):
            pass  # until the kernel closes the connection


def test_an_answer_and_a_settlement_at_once_leave_no_interrupt(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(1)
    read, write = os.pipe()
    begins, begin = os.pipe()
    results: set[object] = set()

    def act(*, settles: bool) -> None:
        os.read(begins, 1)
        if settles:
            server.send(*OTHERS, SETTLED)
        else:
            os.write(write, b"y")

    def ask(prompt: str) -> str:
        os.write(begin, prompt.encode())
        return os.read(read, 1).decode()

    monkeypatch.setattr("builtins.input", ask)
    for turn in range(60):
        kinds = chance.choice([[True], [False], [True, False], [False, True]])
        threads = [threading.Thread(target=act, kwargs={"settles": kind}) for kind in kinds]
        for thread in threads:
            thread.start()
        result = ask_unless_settled("?" * len(threads), server.connection, "mine")
        results.add(result)
        for thread in threads:
            thread.join()
        # The next one begins without what is left of this one.
        server.send({"kind": "text", "text": str(turn)})
        while server.connection.receive() != {"kind": "text", "text": str(turn)}:
            pass
        os.write(write, b"-")
        while os.read(read, 1) != b"-":
            pass
    assert results == {None, "y"}
    for end in (read, write, begins, begin):
        os.close(end)
