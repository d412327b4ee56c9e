"""A Unix socket in a private folder."""

from __future__ import annotations

import asyncio
import errno
import shutil
import socket
import tempfile
from collections.abc import Awaitable, Callable
from functools import cached_property
from pathlib import Path

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Serves one connection. It must handle all expected errors."""


class SocketListener:
    """A Unix socket in a private folder, with a task for each connection.

    Args:
        name: The socket's file name.
        serve: Serves a connection, which is closed afterwards.
        longest: Maximum bytes of a line that a reader accepts.
    """

    def __init__(self, name: str, serve: Serve, longest: int) -> None:
        self._name = name
        self._serve = serve
        self._longest = longest
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._lock = asyncio.Lock()

    def __len__(self) -> int:
        """Return the number of connections."""
        return len(self._connections)

    @cached_property
    def folder(self) -> Path:
        """The folder of the socket, of mode 0700, created at first use.

        Raises:
            OSError: It cannot be created, or the system has no Unix sockets (Windows).
        """
        if not hasattr(socket, "AF_UNIX"):
            raise OSError(errno.EAFNOSUPPORT, "This system has no Unix sockets")
        return Path(tempfile.mkdtemp(prefix="tk-ai-"))

    async def open(self) -> Path:
        """Start to listen and return the socket's path. Idempotent.

        Raises:
            OSError: The socket cannot be created.
        """
        path = self.folder / self._name
        async with self._lock:
            if self._server is None:
                self._server = await asyncio.start_unix_server(
                    self._attend, path, limit=self._longest
                )
        return path

    async def close(self) -> None:
        """End all connections and remove the folder."""
        async with self._lock:
            if self._server is not None:
                self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        if "folder" in vars(self):
            shutil.rmtree(self.folder, ignore_errors=True)

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        finally:
            self._connections.discard(task)
            writer.close()
