"""A SQLite database that is used on a dedicated thread, with typed errors."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import psutil

from tk_ai_extension.model.errors import DiskFull, ReadOnly, SaveFailed, StateUnavailable, ToolError
from tk_ai_extension.model.private_files import make_private

logger = logging.getLogger(__name__)

T = TypeVar("T")

VERSION = 3
"""The version of the schemas, in ``PRAGMA user_version``."""

BUSY_TIMEOUT = 10.0
"""Seconds for which a transaction waits for that of another process."""

DAMAGED = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)

KINDS: dict[int, type[ToolError]] = {
    sqlite3.SQLITE_FULL: DiskFull,
    sqlite3.SQLITE_READONLY: ReadOnly,
    sqlite3.SQLITE_CANTOPEN: StateUnavailable,
}

CLOCK_TOLERANCE = 2.0
"""Seconds by which a process's start time may differ, because the system's clock may be adjusted."""


class Database:
    """A SQLite file of mode 0600 in a folder of mode 0700, opened at first use.

    Several servers may use the same file. A damaged file, or one with another version of the schema, is
    renamed with a warning, and a new one is created.

    Args:
        path: The file.
        schema: An SQL script that creates the tables.
        on_open: Called in a transaction each time the file is opened.
    """

    def __init__(
        self,
        path: Path,
        schema: str,
        on_open: Callable[[sqlite3.Connection], None] = lambda _: None,
    ) -> None:
        self._path = path
        self._schema = schema
        self._on_open = on_open
        self._connection: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tk-ai-database")

    async def close(self) -> None:
        """Wait for running work and close the file."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
        self._thread.shutdown(wait=False)

    def run(
        self, work: Callable[[sqlite3.Connection], T], consequence: str = "Nothing was changed."
    ) -> asyncio.Future[T]:
        """Run work on the database's thread as one transaction, to completion even if cancelled.

        Otherwise a cancellation just after a change would keep the change out of the journal. Work runs
        in the order of the calls, not of the awaits.

        Args:
            work: Receives the connection. It must not return a cursor: freed on another thread, that
                would reset a statement of this one.
            consequence: The hint of an error: what the failure means.

        Raises (when awaited):
            DiskFull, ReadOnly, SaveFailed, StateUnavailable: The transaction failed.
        """
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()
        # `run_in_executor` would cancel work that waits in the queue, and needs two more futures.
        self._thread.submit(self._carry_out, work, consequence).add_done_callback(
            lambda done: loop.call_soon_threadsafe(_settle, outcome, done)
        )
        return outcome

    async def open(self) -> None:
        """Open the file, unless it is open. Raises as `run`."""
        if self._connection is None:
            await self.run(lambda _: None)

    def _carry_out(self, work: Callable[[sqlite3.Connection], T], consequence: str) -> T:
        try:
            connection = self._connection or self._open()
            with connection:
                return work(connection)
        except sqlite3.Error as error:
            # The low byte of an extended result code is the primary result code.
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            if code in DAMAGED:
                self._set_aside(str(error))
                return self._carry_out(work, consequence)
            kind = KINDS.get(code, SaveFailed)
            raise kind(f"{self._path}: {error}. {consequence}") from error
        except OSError as error:
            kind = DiskFull if error.errno == errno.ENOSPC else StateUnavailable
            raise kind(f"{self._path}: {error.strerror}. {consequence}") from error

    def _open(self) -> sqlite3.Connection:
        make_private(self._path.parent)
        # SQLite would create the file with the umask's mode. Its side files get this file's mode.
        self._path.touch(mode=0o600)
        connection = sqlite3.connect(self._path, timeout=BUSY_TIMEOUT)
        try:
            [version] = connection.execute("PRAGMA user_version").fetchone()
            if version not in (0, VERSION):
                connection.close()
                self._set_aside(f"its schema is {version}")
                return self._open()
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            with suppress(sqlite3.OperationalError):  # Another process may be setting it.
                connection.execute("PRAGMA journal_mode = WAL")
            # In WAL mode, a commit survives the end of the process; a power failure may lose it.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            if version == 0:
                connection.executescript(f"{self._schema}; PRAGMA user_version = {VERSION};")
            with connection:
                self._on_open(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _set_aside(self, why: str) -> None:
        """Rename the file, so that the next use creates a new one."""
        self._disconnect()
        aside = self._path.with_name(f"{self._path.name}.{time.time_ns()}.broken")
        with suppress(FileNotFoundError):  # Another server has done it.
            self._path.rename(aside)
        for suffix in ("-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        logger.warning("%s is not usable (%s): it was moved to %s", self._path, why, aside)


def _settle(outcome: asyncio.Future[T], done: Future[T]) -> None:
    if outcome.cancelled():
        return
    if (error := done.exception()) is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(done.result())


def process_of(pid: int) -> str:
    """Return the name of a running process for `is_alive`."""
    return f"{socket.gethostname()}:{pid}:{psutil.Process(pid).create_time()}"


def is_alive(owner: str) -> bool:
    """Return whether a process is alive on this host.

    Those of another host count as ended: a container has another name after each start. The start
    time is compared because a pid is reused, for example after a restart of the host.

    Args:
        owner: The process as ``host:pid:start``, with the start in seconds since the epoch.
    """
    host, pid, started = owner.rsplit(":", 2)
    if host != socket.gethostname():
        return False
    try:
        process = psutil.Process(int(pid))
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return abs(process.create_time() - float(started)) <= CLOCK_TOLERANCE
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
