"""Folders for local sockets: this user's alone, and no killed server's stays behind."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from tk_ai_extension.model.local_sockets import is_dead_socket

PREFIX = "tk-ai-"

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Serves one connection, and raises nothing but what is a defect."""


class SocketListener:
    """A local socket in a folder of its own, with a task for each connection.

    Args:
        name: The socket's file name, which ends in ``.sock``.
        serve: Serves a connection, which is closed after it.
        longest: Bytes of the longest line that a reader takes.
    """

    def __init__(self, name: str, serve: Serve, longest: int) -> None:
        self._name = name
        self._serve = serve
        self._longest = longest
        self._folder: Path | None = None
        self._server: asyncio.Server | None = None
        self._opening = asyncio.Lock()
        self._connections: set[asyncio.Task[None]] = set()
        self._closed = False

    def __len__(self) -> int:
        """How many connections there are."""
        return len(self._connections)

    @property
    def folder(self) -> Path:
        """Where the socket is; made at first use, which blocks for a moment."""
        if self._folder is None:
            self._folder = sockets_folder()
        return self._folder

    @property
    def has_folder(self) -> bool:
        """Whether its folder was made, and is there."""
        return self._folder is not None

    async def open(self) -> Path | None:
        """Listens, unless it does already; where. None once it was closed.

        Raises:
            OSError: there can be no such socket.
        """
        async with self._opening:
            if self._closed:
                return None
            if self._folder is None:
                self._folder = await asyncio.to_thread(sockets_folder)
            path = self._folder / self._name
            if self._server is None:
                self._server = await asyncio.start_unix_server(
                    self._accept, path, limit=self._longest
                )
            return path

    async def close(self) -> None:
        """End all connections and removes the folder."""
        self._closed = True
        # Nobody opens it meanwhile, or after.
        async with self._opening:
            if self._server is not None:
                # One that is closed between a connection's acceptance and its first turn leaks it.
                loop = asyncio.get_running_loop()
                for listening in self._server.sockets:
                    loop.remove_reader(listening.fileno())
                await asyncio.sleep(0)
                self._server.close()
            for connection in list(self._connections):
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)
            if self._folder is not None:
                await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
                self._folder = None

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._closed:
            # It was accepted while the others were ended.
            writer.close()
            return
        connection = asyncio.ensure_future(self._attend(reader, writer))
        self._connections.add(connection)

        def ended(connection: asyncio.Task[None]) -> None:
            self._connections.discard(connection)
            # Also of one that was cancelled before it began.
            writer.close()

        connection.add_done_callback(ended)

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._serve(reader, writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def sockets_folder() -> Path:
    """A new folder of mode 0700, with a path that is short enough for the socket in it. Blocks.

    What servers have left that were killed is removed first: this user's folders whose sockets
    nobody listens to.

    Raises:
        OSError: it cannot be made, or the system has no such sockets (Windows).
    """
    if not hasattr(socket, "AF_UNIX"):
        raise OSError(errno.EAFNOSUPPORT, "This system has no Unix sockets")
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if _is_abandoned(folder):
            shutil.rmtree(folder, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=PREFIX))


def _is_abandoned(folder: Path) -> bool:
    try:
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            return False
        # One that is empty has just been made.
        sockets = list(folder.glob("*.sock"))
    except OSError:
        return False
    return bool(sockets) and all(map(is_dead_socket, sockets))
