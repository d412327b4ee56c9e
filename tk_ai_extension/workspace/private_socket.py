"""A Unix socket for the processes of one kernel or agent."""

from __future__ import annotations

import asyncio
import errno
import shutil
import socket
import struct
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Serves one connection. It must handle all expected errors."""

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid (unix(7))


class PrivateSocket:
    """A Unix socket in a folder of mode 0700, with a task for each connection.

    Args:
        serve: Serves a connection, which is closed afterwards.
        longest: Maximum bytes of a line that a reader accepts.
    """

    def __init__(self, serve: Serve, longest: int) -> None:
        self._serve = serve
        self._longest = longest
        self._path: Path | None = None
        self._server: asyncio.Server | None = None
        self._connected: set[asyncio.StreamWriter] = set()

    async def open(self) -> Path:
        """Listen, unless it does, and return the socket's path.

        Raises:
            OSError: The socket cannot be created, or the system has none (Windows).
        """
        if self._path is None:
            if not hasattr(socket, "AF_UNIX"):
                raise OSError(errno.EAFNOSUPPORT, "This system has no Unix sockets")
            listener = socket.socket(socket.AF_UNIX)
            path = Path(tempfile.mkdtemp(prefix="tk-ai-"), "socket")
            listener.bind(str(path))
            # Before anything is awaited: another caller gets the same path.
            self._path = path
            self._server = await asyncio.start_unix_server(
                self._attend, sock=listener, limit=self._longest
            )
        return self._path

    def close(self) -> None:
        """Accept no further connection, close the open ones, and remove the folder."""
        if self._server is not None:
            self._server.close()
        for writer in self._connected:
            writer.close()
        if self._path is not None:
            shutil.rmtree(self._path.parent, ignore_errors=True)

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connected.add(writer)
        try:
            await self._serve(reader, writer)
        finally:
            self._connected.discard(writer)
            writer.close()


async def comes_from(writer: asyncio.StreamWriter, ancestor: int) -> bool:
    """Return whether a process or its descendant is at the other end of a Unix socket.

    It is also true if the system does not provide the peer's process (macOS).
    """
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    connection: socket.socket = writer.get_extra_info("socket")
    found = connection.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)
    peer = _CREDENTIALS.unpack(found)[0]
    if peer in (0, ancestor):  # 0: in another namespace
        return True
    try:
        parents = await asyncio.to_thread(psutil.Process(peer).parents)
    except psutil.NoSuchProcess:
        return False
    return any(parent.pid == ancestor for parent in parents)
