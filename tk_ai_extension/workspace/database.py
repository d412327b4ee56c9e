"""A SQLite file that is used on a thread of its own, and whose failures are typed."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from tk_ai_extension.model.errors import DiskFull, ReadOnly, SaveFailed, ToolError

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Database:
    """A SQLite file of mode 0600 in a folder of mode 0700, opened at first use.

    Several servers may use one file. One that is no database is put aside and a new one begun.

    Args:
        path: The file.
        script: What is run each time when it is opened: the schema, and what it needs besides.
    """

    def __init__(self, path: Path, script: str) -> None:
        self._path = path
        self._script = script
        self._connection: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tk-ai-database")

    async def close(self) -> None:
        """Ends what is under way and closes the file."""

        def close() -> None:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

        await asyncio.get_running_loop().run_in_executor(self._thread, close)
        self._thread.shutdown(wait=False)

    async def run(
        self, work: Callable[[sqlite3.Connection], T], consequence: str = "Nothing was changed."
    ) -> T:
        """Runs work on the thread as one transaction; to its end, also if the caller is cancelled.

        Otherwise a cancellation just after a change would take the change out of the journal.
        """
        loop = asyncio.get_running_loop()
        return await asyncio.shield(
            loop.run_in_executor(self._thread, self._transact, work, consequence)
        )

    def _transact(self, work: Callable[[sqlite3.Connection], T], consequence: str) -> T:
        try:
            connection = self._connection or self._open()
            with connection:
                return work(connection)
        except sqlite3.Error as error:
            raise _typed(error, consequence) from error
        except OSError as error:
            raise SaveFailed(
                f"The journal could not be opened: {error.strerror}.", hint=consequence
            ) from error

    def _open(self) -> sqlite3.Connection:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._connection = self._connect()
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode not in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                raise
            aside = self._path.with_name(f"{self._path.name}.{time.time_ns()}.broken")
            self._path.rename(aside)
            for suffix in ("-wal", "-shm"):
                self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
            logger.warning("The database was not readable (%s); it is now at %s", error, aside)
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        # SQLite would make the file with the umask's mode; its side files take the mode of this
        # one.
        with suppress(FileExistsError):
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        connection = sqlite3.connect(self._path, timeout=10)
        try:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
            # In WAL mode this survives the death of the process; only a power cut may lose the
            # last.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.executescript(self._script)
        except BaseException:
            connection.close()
            raise
        return connection


def _typed(error: sqlite3.Error, consequence: str) -> ToolError:
    """SQLite's error as one of ours; its extended code's last byte is the kind."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return DiskFull("There is no room for the journal.", hint=consequence)
    if code == sqlite3.SQLITE_READONLY:
        return ReadOnly("The journal may not be written.", hint=consequence)
    return SaveFailed(f"The journal failed: {error}.", hint=consequence)
