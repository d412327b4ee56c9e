"""A SQLite database with schema migrations, used on its own thread, with typed errors."""

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
from tk_ai_extension.model.private_files import make_private

logger = logging.getLogger(__name__)

T = TypeVar("T")

BUSY_TIMEOUT = 10.0
"""Seconds for which a transaction waits for one of another process."""

BUSY_INTERVAL = 0.01
"""Seconds between two attempts in cases where SQLite itself does not wait."""

PROBE_BYTES = 65_536
"""Bytes that a probe writes to check for free disk space."""


def storable(text: str) -> str:
    """Return text that SQLite can store: lone surrogates become question marks."""
    return text.encode(errors="replace").decode()


class Database:
    """A SQLite file of mode 0600 in a folder of mode 0700, opened at first use.

    Several servers may use the same file. A file that is not a database is renamed, and a new one is
    created; damaged indexes are built again when they are found. ``PRAGMA user_version`` is the number of
    applied migrations. A file of a newer version of this package is neither read nor written.

    Args:
        path: The file.
        migrations: SQL scripts, applied in order, each in one transaction. Never change a released
            one; append a new one to change the schema.
        on_open: Called in a transaction each time the file is opened for writing.
        expendable: Whether a file with a damaged table is renamed as well, so that work goes on.
    """

    def __init__(
        self,
        path: Path,
        migrations: Sequence[str],
        on_open: Callable[[sqlite3.Connection], None] | None = None,
        *,
        expendable: bool = False,
    ) -> None:
        self._path = path
        self._migrations = migrations
        self._on_open = on_open
        self._expendable = expendable
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tk-ai-database")

    async def close(self) -> None:
        """Wait for running work and close the file."""

        def close() -> None:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

        await asyncio.get_running_loop().run_in_executor(self._thread, close)
        self._thread.shutdown(wait=False)

    def run(
        self,
        work: Callable[[sqlite3.Connection], T],
        consequence: str = "Nothing was changed.",
        stored: Callable[[], None] = lambda: None,
    ) -> asyncio.Future[T]:
        """Run work on the database's thread as one transaction, to completion even if cancelled.

        Otherwise a cancellation just after a change would keep the change out of the journal. Work is run
        in the order of the calls, whatever is awaited first.

        Args:
            work: Receives the connection.
            consequence: The hint of an error: what the failure means.
            stored: Called on the thread once the transaction is committed.

        Raises (when awaited):
            DiskFull, ReadOnly, SaveFailed, StateTooNew, StateUnavailable: The transaction failed.
        """

        def carry_out() -> T:
            result = self._transact(work, consequence)
            stored()
            return result

        return self._on_thread(carry_out)

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run work that only reads, even if the file cannot be written or created.

        Raises:
            SaveFailed, StateTooNew, StateUnavailable: The file cannot be read.
        """
        return await self._on_thread(lambda: self._read(work))

    async def check(self) -> None:
        """Open the file and check that its folder can be written.

        Raises:
            DiskFull, ReadOnly, SaveFailed, StateTooNew, StateUnavailable: It cannot.
        """

        def probe() -> None:
            with self._typed_errors("Changes and chats are not saved."):
                if self._connection is None:
                    self._open()
                check_folder(self._path.parent)

        await self._on_thread(probe)

    def _on_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        running: asyncio.Future[T]
        try:
            running = loop.run_in_executor(self._thread, work)
        except RuntimeError:
            running = loop.create_future()
            why = f"{self._path} is closed: the server is stopping."
            running.set_exception(StateUnavailable(why))
        return asyncio.shield(running)

    def _transact(self, work: Callable[[sqlite3.Connection], T], consequence: str) -> T:
        def transaction() -> T:
            connection = self._connection or self._open()
            with connection:
                return _of_this_thread(work(connection))

        with self._typed_errors(consequence):
            return self._repaired(transaction)

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._typed_errors("Nothing was read."):
            if self._connection is None:
                try:
                    self._open()
                except (sqlite3.OperationalError, OSError, StateUnavailable):
                    with closing(self._read_only()) as connection:
                        return _of_this_thread(work(connection))

            def reading() -> T:
                assert self._connection is not None
                return _of_this_thread(work(self._connection))

            return self._repaired(reading)

    def _repaired(self, work: Callable[[], T]) -> T:
        """Do work; if the file is damaged, again with new indexes, then with a new file if it may be."""
        repairs = [self._build_indexes, *([self._renew] if self._expendable else [])]
        while True:
            try:
                return work()
            except sqlite3.DatabaseError as error:
                if not _is_damaged(error) or not repairs:
                    raise
                logger.warning("%s is damaged: %s", self._path, error)
            repairs.pop(0)()

    def _build_indexes(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.DatabaseError), self._connection:
                self._connection.execute("REINDEX")

    def _renew(self) -> None:
        """Open a new file. The damaged one is set aside, unless another process has done so."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        with suppress(FileNotFoundError):
            if _identity(self._path) == self._identity:
                self._set_aside()
        self._open()

    def _typed_errors(self, consequence: str) -> _TypedErrors:
        return _TypedErrors(self._path, consequence)

    def _open(self) -> sqlite3.Connection:
        make_private(self._path.parent)
        try:
            self._connection = self._connect()
        except sqlite3.DatabaseError as error:
            if not _is_damaged(error):
                raise
            logger.warning("%s is not readable: %s", self._path, error)
            self._set_aside()
            self._connection = self._connect()
        self._identity = _identity(self._path)
        return self._connection

    def _set_aside(self) -> None:
        aside = self._path.with_name(f"{self._path.name}.{time.time_ns()}.broken")
        self._path.rename(aside)
        for suffix in ("-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        logger.warning("The database was moved to %s", aside)

    def _connect(self) -> sqlite3.Connection:
        check_locks(self._path.parent)
        # SQLite would create the file with the umask's mode. Its side files get this file's mode.
        with suppress(FileExistsError):
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        connection = sqlite3.connect(self._path, timeout=BUSY_TIMEOUT)
        try:
            self._refuse_newer(connection)
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            _use_wal(connection)
            # In WAL mode, a commit survives the end of the process; a power failure may lose it.
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
        """Return a read-only connection, for a full disk, a read-only folder or one without locks."""
        if not os.path.exists(self._path):  # noqa: PTH110 (False if the folder is not readable)
            connection = sqlite3.connect(":memory:")
            self._migrate(connection)
            return connection
        address = f"{self._path.absolute().as_uri()}?mode=ro"
        wal = self._path.with_name(f"{self._path.name}-wal")
        # Reading a WAL needs its shared-memory index, which may be impossible to create. Without a
        # WAL, the file is complete and can be opened as immutable.
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
        """Apply the missing migrations. Several processes may do so concurrently."""
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
    """Set WAL mode. Here SQLite ignores the connection's timeout and does not wait for locks.

    Raises:
        sqlite3.OperationalError: The file was locked for `BUSY_TIMEOUT`, or the disk failed.
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
    """Converts errors of SQLite and the system to `ToolError`.

    Args:
        path: The database file.
        consequence: What the failure means, for the hint.
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
        # The low byte of an extended result code is the primary result code.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_FULL:
            return DiskFull(f"No disk space for {self._path}.", hint=self._consequence)
        if code == sqlite3.SQLITE_READONLY:
            return ReadOnly(f"{self._path} is read-only.", hint=self._consequence)
        if code == sqlite3.SQLITE_CANTOPEN:
            return StateUnavailable(f"{self._path} cannot be opened. {self._consequence}")
        return SaveFailed(f"{self._path} failed: {error}.", hint=self._consequence)


def _is_damaged(error: sqlite3.DatabaseError) -> bool:
    # Errors of the module itself have no code. The low byte of an extended code is the primary one.
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)


def _identity(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_dev, status.st_ino


def _of_this_thread(result: T) -> T:
    """Close the result if it is a cursor, so that it can be freed on any thread.

    An open cursor of ``executemany`` shares its statement with later cursors. Freeing it on another
    thread would reset the statement that this thread is using (SQLITE_MISUSE).
    """
    if isinstance(result, sqlite3.Cursor):
        result.close()
    return result


def _of_system(error: OSError, path: Path, consequence: str) -> ToolError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"No disk space for {path}.", hint=consequence)
    return StateUnavailable(f"{path} cannot be opened: {error.strerror}. {consequence}")


def check_folder(folder: Path) -> None:
    """Check that files can be created, locked and written in a folder.

    Raises:
        DiskFull, StateUnavailable: They cannot.
    """
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            file.write(bytes(PROBE_BYTES))
            os.fsync(file.fileno())
    except OSError as error:
        raise _of_system(error, folder, "Changes and chats are not saved.") from error
    check_locks(folder)


def check_locks(folder: Path) -> None:
    """Check that files in a folder can be locked.

    SQLite treats ENOLCK as a lock of another process and waits for it. A temporary file is used for
    the check, because closing any descriptor of a file releases all POSIX locks of the process on it.

    Raises:
        StateUnavailable: The file system has no locks.
        OSError: No file can be created in the folder.
    """
    try:
        import fcntl
    except ImportError:  # Windows always has locks.
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
    """Yield the statements of a script. `executescript` would commit the transaction first."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    assert not statement.strip(), statement
