"""A server at its limit of open files refuses a connection at once."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest.mock import Mock

import pytest
from tornado.httpserver import HTTPServer
from tornado.web import Application

from tests.harness import loop_turns
from tk_ai_extension.server import listening
from tk_ai_extension.server.listening import RefusingListener

if sys.platform != "win32":
    import resource

DEADLINE = 20

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="needs Unix sockets")


@contextmanager
def no_more_files() -> Generator[None]:
    """No file can be opened in this process."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(each.name) for each in Path("/dev/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, before[1]))
    opened: list[int] = []
    try:
        with suppress(OSError):
            while True:
                opened.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for each in opened:
            os.close(each)


@pytest.mark.proves("fault:too-many-files")
def test_a_connection_is_refused_with_its_error_as_often_as_it_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bound = socket.socket(socket.AF_UNIX)
    bound.bind("s")
    bound.listen()
    bound.setblocking(False)
    with RefusingListener(bound) as listener:
        with pytest.raises(BlockingIOError):
            listener.accept()
        for _ in range(3):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect("s")
                client.sendall(b"GET / HTTP/1.1\r\n\r\n")
                with no_more_files(), pytest.raises(BlockingIOError):
                    listener.accept()
                head, _, body = client.makefile("rb").read().partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503 ")
            assert json.loads(body)["error"]["code"] == "too_many_open_files"
        # It accepts again as soon as it can.
        with socket.socket(socket.AF_UNIX) as client:
            client.connect("s")
            connection, _ = listener.accept()
            connection.close()


@contextmanager
def listening_at(path: str) -> Generator[RefusingListener]:
    """A server of nothing at a socket."""
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(path)
    bound.listen()
    bound.setblocking(False)
    listener = RefusingListener(bound)
    server = HTTPServer(Application())
    server.add_socket(listener)
    yield listener
    server.stop()


@contextmanager
def clients(count: int) -> Generator[list[socket.socket]]:
    """Connections, which send nothing by themselves."""
    made = [socket.socket(socket.AF_UNIX) for _ in range(count)]
    for each in made:
        each.setblocking(False)
    yield made
    for each in made:
        each.close()


@pytest.mark.proves("fault:too-many-files")
async def test_clients_that_send_nothing_are_refused_one_after_the_other_and_hold_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(listening, "GRACE_PERIOD", 0.01)
    loop = asyncio.get_running_loop()
    set_timeout, waits = socket.socket.settimeout, list[float | None]()

    def recorded(connection: socket.socket, seconds: float | None) -> None:
        waits.append(seconds)
        set_timeout(connection, seconds)

    monkeypatch.setattr(socket.socket, "settimeout", recorded)
    with listening_at("s") as listener, clients(5) as silent:
        accept = Mock(wraps=listener.accept)
        monkeypatch.setattr(listener, "accept", accept)
        with no_more_files():
            for each in silent:
                each.connect("s")
            async with asyncio.timeout(DEADLINE):
                for each in silent:
                    assert (await loop.sock_recv(each, 4096)).startswith(b"HTTP/1.1 503 ")
                    assert await loop.sock_recv(each, 4096) == b""
        # Once for each and at most once without one: not on every turn of the loop.
        assert len(accept.mock_calls) <= len(silent) + 1
    assert waits == [], "the loop waits for a client"


@pytest.mark.proves("fault:too-many-files")
async def test_a_slow_client_is_answered_and_ends_the_pause_and_a_stop_ends_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(listening, "GRACE_PERIOD", 5.0)
    loop = asyncio.get_running_loop()
    with clients(3) as (slow, gone, last):
        with listening_at("s") as listener, no_more_files():
            async with asyncio.timeout(DEADLINE):
                for client in (slow, gone):
                    client.connect("s")
                    assert (await loop.sock_recv(client, 4096)).startswith(b"HTTP/1.1 503 ")
                    assert listener._reserve is None
                    if client is slow:
                        await loop.sock_sendall(client, b"GET / HTTP/1.1\r\n\r\n")
                    else:
                        client.shutdown(socket.SHUT_WR)
                    await loop_turns()
                    assert listener._reserve is not None
                last.connect("s")
                assert (await loop.sock_recv(last, 4096)).startswith(b"HTTP/1.1 503 ")
        assert listener.fileno() == -1
        with pytest.raises(BrokenPipeError):
            last.send(b"x")
