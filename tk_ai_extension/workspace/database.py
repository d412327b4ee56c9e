"""A SQLite file with a schema version, used on a thread of its own; its failures are typed."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeVar

from tk_ai_extension.model.errors import (
    DiskFull,
    ReadOnly,
    SaveFailed,
    StateTooNew,
    StateUnavailable,
    ToolError,
)
from tk_ai_extension.workspace.state_folder import make_private

logger = logging.getLogger(__name__)

T = TypeVar("T")

BUSY_TIMEOUT = 10.0
"""Seconds for which a transaction waits for another process's to end."""

BUSY_INTERVAL = 0.01
"""Seconds between two attempts where SQLite itself does not wait."""

PROBE_BYTES = 65_536
"""Bytes that are written in order to see whether there is room."""


class Database:
    """A SQLite file of mode 0600 in a folder of mode 0700, opened at first use.

    Several servers may use one file. One that is no database is put aside and a new one created.
    ``PRAGMA user_version`` is the number of migrations that a file has; a file of a newer version
    of this package is neither read nor written.

    Args:
        path: The file.
        migrations: SQL scripts, applied in order, each in one transaction and once for each file. A
            released one is never changed; a change of the schema is one more at the end.
        on_open: Called each time the file is opened for writing, in a transaction.
    """

    def __init__(
        self,
        path: Path,
        migrations: Sequence[str],
        on_open: Callable[[sqlite3.Connection], None] | None = None,
    ) -> None:
        self._path = path
        self._migrations = migrations
        self._on_open = on_open
        self._connection: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tk-ai-database")

    async def close(self) -> None:
        """End what is under way and closes the file."""

        def close() -> None:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

        await asyncio.get_running_loop().run_in_executor(self._thread, close)
        self._thread.shutdown(wait=False)

    async def run(
        self, work: Callable[[sqlite3.Connection], T], consequence: str = "Nothing was changed."
    ) -> T:
        """Run work on the thread as one transaction; to its end, also if the caller is cancelled.

        Otherwise a cancellation just after a change would take the change out of the journal.

        Raises:
            DiskFull, ReadOnly, SaveFailed, StateTooNew, StateUnavailable.
        """
        return await self._on_thread(lambda: self._transact(work, consequence))

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run work that only reads, also where the file cannot be written or created.

        Raises:
            SaveFailed, StateTooNew, StateUnavailable.
        """
        return await self._on_thread(lambda: self._look(work))

    async def check(self) -> None:
        """Open the file, and finds out whether something could be written beside it now.

        Raises:
            DiskFull, ReadOnly, SaveFailed, StateTooNew, StateUnavailable.
        """

        def probe() -> None:
            with self._typed_errors("Changes and chats are not kept."):
                if self._connection is None:
                    self._open()
                check_folder(self._path.parent)

        await self._on_thread(probe)

    async def _on_thread(self, work: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        return await asyncio.shield(loop.run_in_executor(self._thread, work))

    def _transact(self, work: Callable[[sqlite3.Connection], T], consequence: str) -> T:
        with self._typed_errors(consequence):
            connection = self._connection or self._open()
            with connection:
                return _of_this_thread(work(connection))

    def _look(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._typed_errors("Nothing was read."):
            if self._connection is None:
                try:
                    self._open()
                except (sqlite3.OperationalError, OSError, StateUnavailable):
                    with closing(self._read_only()) as connection:
                        return _of_this_thread(work(connection))
            assert self._connection is not None
            return _of_this_thread(work(self._connection))

    def _typed_errors(self, consequence: str) -> _TypedErrors:
        return _TypedErrors(self._path, consequence)

    def _open(self) -> sqlite3.Connection:
        make_private(self._path.parent)
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
        check_locks(self._path.parent)
        # SQLite would make the file with the umask's mode; its side files take the mode of this
        # one.
        with suppress(FileExistsError):
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        connection = sqlite3.connect(self._path, timeout=BUSY_TIMEOUT)
        try:
            self._refuse_newer(connection)
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            _use_wal(connection)
            # In WAL mode this survives the death of the process; only a power cut may lose the
            # last.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            self._migrate(connection)
            if self._on_open is not None:
                with connection:
                    self._on_open(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _read_only(self) -> sqlite3.Connection:
        """A connection that writes nothing: for a full disk, a read-only folder, one without locks."""
        if not os.path.exists(self._path):  # noqa: PTH110 (False where the folder is not readable)
            connection = sqlite3.connect(":memory:")
            self._migrate(connection)
            return connection
        address = f"{self._path.absolute().as_uri()}?mode=ro"
        wal = self._path.with_name(f"{self._path.name}-wal")
        # Without its index in shared memory, which may not be creatable, a WAL file is read by none.
        # Where there is no WAL, the file alone is all there is.
        immutable = not (wal.exists() and wal.stat().st_size)
        connection = sqlite3.connect(address + "&immutable=1" * immutable, uri=True, timeout=0)
        try:
            self._refuse_newer(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _refuse_newer(self, connection: sqlite3.Connection) -> None:
        version, known = _version(connection), len(self._migrations)
        if version > known:
            raise StateTooNew(
                f"{self._path} was written by a newer version of tk-ai-extension "
                f"(schema {version}; this version knows {known})."
            )

    def _migrate(self, connection: sqlite3.Connection) -> None:
        """Bring the file to this version's schema; several processes may do it at once."""
        while (version := _version(connection)) < len(self._migrations):
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                if _version(connection) != version:
                    continue
                for statement in _statements(self._migrations[version]):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {version + 1}")
        self._refuse_newer(connection)


def _use_wal(connection: sqlite3.Connection) -> None:
    """Set WAL mode. SQLite does not wait for others here, whatever the connection's time-out.

    Raises:
        sqlite3.OperationalError: Others kept the file locked for `BUSY_TIMEOUT`, or the disk failed.
    """
    deadline = time.monotonic() + BUSY_TIMEOUT
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(BUSY_INTERVAL)
        else:
            return


class _TypedErrors:
    """Raises SQLite's and the system's errors as ours.

    Args:
        path: The database file.
        consequence: What did not happen.
    """

    def __init__(self, path: Path, consequence: str) -> None:
        self._path = path
        self._consequence = consequence

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, sqlite3.Error):
            raise self._of_sqlite(error) from error
        if isinstance(error, OSError):
            raise _of_system(error, self._path, self._consequence) from error

    def _of_sqlite(self, error: sqlite3.Error) -> ToolError:
        # The last byte of the extended code is the kind.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_FULL:
            return DiskFull(f"There is no room for {self._path}.", hint=self._consequence)
        if code == sqlite3.SQLITE_READONLY:
            return ReadOnly(f"{self._path} may not be written.", hint=self._consequence)
        if code == sqlite3.SQLITE_CANTOPEN:
            return StateUnavailable(f"{self._path} cannot be opened. {self._consequence}")
        return SaveFailed(f"{self._path} failed: {error}.", hint=self._consequence)


def _of_this_thread(result: T) -> T:
    """Return a result that may be freed on any thread: a cursor is closed.

    An open one of ``executemany`` shares its statement with later cursors. Freed elsewhere, it would
    reset the statement that the database's thread is using, which SQLite calls a misuse.
    """
    if isinstance(result, sqlite3.Cursor):
        result.close()
    return result


def _of_system(error: OSError, path: Path, consequence: str) -> ToolError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"There is no room for {path}.", hint=consequence)
    return StateUnavailable(f"{path} cannot be opened: {error.strerror}. {consequence}")


def check_folder(folder: Path) -> None:
    """Find out whether files can be created, locked and written in a folder.

    Raises:
        DiskFull, StateUnavailable.
    """
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            file.write(bytes(PROBE_BYTES))
            os.fsync(file.fileno())
    except OSError as error:
        raise _of_system(error, folder, "Changes and chats are not kept.") from error
    check_locks(folder)


def check_locks(folder: Path) -> None:
    """Find out whether files in a folder can be locked.

    SQLite takes ENOLCK for a lock that somebody else holds, and waits for it. The database itself is
    not tried: closing any descriptor of a file releases all POSIX locks of the process on it.

    Raises:
        StateUnavailable: the file system has no locks.
        OSError: no file can be created there.
    """
    try:
        import fcntl
    except ImportError:  # Windows, whose locks SQLite uses without a probe.
        return
    with tempfile.TemporaryFile(dir=folder) as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StateUnavailable(
                f"The file system of {folder} has no locks ({error.strerror})."
            ) from error


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _statements(script: str) -> Iterator[str]:
    """The statements of a script one by one: `executescript` would end the transaction first."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    assert not statement.strip(), statement
