"""Unix sockets in private folders, and the removal of folders of killed servers."""

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
"""Serves one connection. It must handle all expected errors."""


class SocketListener:
    """A Unix socket in a private folder, with a task for each connection.

    Args:
        name: The socket's file name, which ends in ``.sock``.
        serve: Serves a connection, which is closed afterwards.
        longest: Maximum bytes of a line that a reader accepts.
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
        """Return the number of connections."""
        return len(self._connections)

    @property
    def folder(self) -> Path:
        """The folder of the socket, created at first use, which blocks briefly."""
        if self._folder is None:
            self._folder = sockets_folder()
        return self._folder

    @property
    def has_folder(self) -> bool:
        """Whether the folder was created and exists."""
        return self._folder is not None

    async def open(self) -> Path | None:
        """Start to listen and return the socket's path; None after `close`. Idempotent.

        Raises:
            OSError: The socket cannot be created.
        """
        # Imported late: the server loads this module at its start.
        from tk_ai_extension.model.background import run_to_completion

        # A caller that is cancelled would lose the folder or the server.
        return await run_to_completion(self._open())

    async def _open(self) -> Path | None:
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
        """End all connections and remove the folder."""
        self._closed = True
        async with self._opening:
            if self._server is not None:
                # Closing a server right after it accepts a connection would leak the connection.
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
            # It was accepted while the other connections were ended.
            writer.close()
            return
        connection = asyncio.ensure_future(self._attend(reader, writer))
        self._connections.add(connection)

        def ended(connection: asyncio.Task[None]) -> None:
            self._connections.discard(connection)
            # Close it here too, in case the task was cancelled before it started.
            writer.close()

        connection.add_done_callback(ended)

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._serve(reader, writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def sockets_folder() -> Path:
    """Create a folder of mode 0700 whose path is short enough for a socket in it. Blocks.

    Folders of killed servers are removed first: those of this user with stale sockets only.

    Raises:
        OSError: The folder cannot be created, or the system has no Unix sockets (Windows).
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
        # An empty folder was just created by another server.
        sockets = list(folder.glob("*.sock"))
    except OSError:
        return False
    return bool(sockets) and all(map(is_dead_socket, sockets))
