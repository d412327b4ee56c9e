"""A database that is used by many at once."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tk_ai_extension.workspace.database import Database

CALLS = 10_000


@pytest.fixture
def fast_thread_switching() -> Iterator[None]:
    """Threads that take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.proves("fault:state-in-use")
@pytest.mark.usefixtures("fast_thread_switching")
async def test_a_cursor_of_one_call_never_disturbs_another(tmp_path: Path) -> None:
    database = Database(tmp_path / "a.sqlite", ["CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT);"])
    await database.run(lambda db: db.executemany("INSERT INTO t VALUES (?, '')", [(0,), (1,)]))

    async def write() -> None:
        # Its cursor is freed on this thread, while the database's is at the next statement.
        await database.run(
            lambda db: db.executemany("UPDATE t SET a = a + 1 WHERE id = ?", [(0,), (1,)])
        )

    for _ in range(CALLS // 50):
        await asyncio.gather(*(write() for _ in range(50)))
    rows = await database.read(lambda db: db.execute("SELECT a FROM t").fetchall())
    assert rows == [(str(CALLS),)] * 2
    await database.close()


@pytest.mark.proves("fault:state-in-use")
def test_processes_that_open_a_new_database_at_once_wait_for_each_other(tmp_path: Path) -> None:
    # Two that switch to WAL at once lock each other out, and SQLite then waits for neither.
    count = 4
    together = threading.Barrier(count)

    def open_(path: Path) -> None:
        database = Database(path, ["CREATE TABLE t (id INTEGER PRIMARY KEY);"])
        together.wait()
        asyncio.run(database.check())
        asyncio.run(database.close())

    with ThreadPoolExecutor(count) as pool:
        for attempt in range(60):
            list(pool.map(open_, [tmp_path / f"{attempt}.sqlite"] * count))
