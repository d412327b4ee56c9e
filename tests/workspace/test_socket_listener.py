"""Folders for sockets are private, and those of killed servers do not stay."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tk_ai_extension.workspace.socket_listener import PREFIX, SocketListener, sockets_folder


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:  # short, as pytest's own is not
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def test_the_folder_of_a_killed_server_is_removed_and_a_running_ones_is_not(
    temporary: Path,
) -> None:
    left, lives = sockets_folder(), sockets_folder()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(left / "test.sock"))
    with socket.socket(socket.AF_UNIX) as living:
        living.bind(str(lives / "test.sock"))
        living.listen()
        made = sockets_folder()
    assert sorted(temporary.iterdir()) == sorted([lives, made])
    assert stat.S_IMODE(made.stat().st_mode) == 0o700


def test_a_folder_without_sockets_stays(temporary: Path) -> None:
    (temporary / f"{PREFIX}notes").write_text("mine", encoding="utf-8")
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(elsewhere / "test.sock"))
    (temporary / f"{PREFIX}link").symlink_to(elsewhere)
    empty = sockets_folder()
    sockets_folder()
    assert (temporary / f"{PREFIX}notes").exists()
    assert (elsewhere / "test.sock").exists()
    assert empty.exists()


@pytest.mark.parametrize("turns", range(8))
async def test_a_client_that_connects_while_it_closes_is_disconnected(
    temporary: Path, turns: int
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    listener = SocketListener("test.sock", answer, 1000)
    path = await listener.open()
    assert path is not None
    with socket.socket(socket.AF_UNIX) as connection:
        connection.setblocking(False)
        connection.connect(str(path))
        # It is accepted in some turns of the loop, and served some turns later.
        for _ in range(turns):
            await asyncio.sleep(0)
        await listener.close()
        loop = asyncio.get_running_loop()
        # One that was in the queue of the socket is reset.
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.wait_for(loop.sock_recv(connection, 1), 5) == b""
    assert not path.parent.exists()
    assert await listener.open() is None
    assert len(listener) == 0
