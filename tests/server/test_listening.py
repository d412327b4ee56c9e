"""A server at its limit of open files refuses a connection at once."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tk_ai_extension.server.listening import RefusingListener

if sys.platform != "win32":
    import resource

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
