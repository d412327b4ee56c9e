"""Entries of the journal belong to a server: what goes on elsewhere is not called interrupted."""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import psutil
import pytest

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.workspace.journal import Journal
from tk_ai_extension.workspace.owners import is_alive

PROGRAM = """
import asyncio, sys
from pathlib import Path
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.workspace.journal import Journal

async def main():
    journal = Journal(Path(sys.argv[1]))
    caller = Caller("ada", "session-a")
    run = await journal.intend(caller, "n.ipynb", "execute_cell", "run @318a", kind="run")
    print("runs", flush=True)
    if sys.stdin.readline():
        await journal.done(run)
    print("ended", flush=True)
    sys.stdin.readline()

asyncio.run(main())
"""


async def state(database: Path) -> str:
    """The entry's state, as a server that starts now reads it."""
    journal = Journal(database)
    (entry,) = await journal.history("n.ipynb", 10, "ada")
    await journal.close()
    return entry.state


@asynccontextmanager
async def other_server(database: Path) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A server that runs a cell; at the end of the block it is killed."""
    other = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, str(database)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert other.stdout is not None
    try:
        async with asyncio.timeout(30):
            assert await other.stdout.readline() == b"runs\n"
            yield other
    finally:
        other.kill()
        await other.wait()


@pytest.mark.proves("fault:cut-run")
async def test_a_run_of_another_server_is_interrupted_only_by_that_servers_end(
    tmp_path: Path,
) -> None:
    for ends in ("killed", "done"):
        database = tmp_path / f"{ends}.sqlite"
        async with other_server(database) as other:
            assert await state(database) == "intended"
            if ends == "done":
                assert other.stdin is not None
                assert other.stdout is not None
                other.stdin.write(b"\n")
                assert await other.stdout.readline() == b"ended\n"
                assert await state(database) == "done"
        assert await state(database) == {"killed": "interrupted"}.get(ends, ends)


@pytest.mark.proves("fault:cut-run")
async def test_neither_the_clock_nor_the_name_of_the_host_ends_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = tmp_path / "journal.sqlite"
    async with other_server(database):
        with monkeypatch.context() as clock:
            # Linux has the time since its own start, to which psutil adds that start by the clock.
            started = psutil.Process.create_time
            clock.setattr(psutil.Process, "create_time", lambda process: started(process) + 20)
            assert await state(database) == "intended"
        with monkeypatch.context() as host:
            host.setattr(socket, "gethostname", lambda: "another-container")
            assert await state(database) == "intended"
    assert await state(database) == "interrupted"
    assert list((tmp_path / "servers").iterdir()) == []


@pytest.mark.proves("fault:cut-run")
async def test_a_run_of_a_server_of_an_earlier_version_is_interrupted_by_its_end(
    tmp_path: Path,
) -> None:
    database = tmp_path / "journal.sqlite"
    async with other_server(database) as other:
        with closing(sqlite3.connect(database)) as connection, connection:
            owner = process_of(other.pid)
            assert connection.execute("UPDATE entries SET owner = ?", (owner,)).rowcount == 1
        assert await state(database) == "intended"
    assert await state(database) == "interrupted"


async def test_a_run_that_a_closed_journal_left_is_interrupted(tmp_path: Path) -> None:
    database = tmp_path / "journal.sqlite"
    journal = Journal(database)
    await journal.intend(Caller("ada"), "n.ipynb", "execute_cell", "run @318a", kind="run")
    assert await state(database) == "intended"
    await journal.close()
    assert await state(database) == "interrupted"
    assert list((tmp_path / "servers").iterdir()) == []


def process_of(pid: int) -> str:
    """A process as earlier versions wrote it."""
    return f"{socket.gethostname()}:{pid}:{psutil.Process(pid).create_time():.2f}"


def test_another_process_with_the_pid_is_not_the_owner() -> None:
    host, pid, started = process_of(os.getpid()).rsplit(":", 2)
    assert is_alive(process_of(os.getpid()))
    for other in (
        f"{host}:{pid}:{float(started) - 60:.2f}",
        f"another{host}:{pid}:{started}",
        f"{host}:{max(psutil.pids()) + 10_000}:{started}",
        *("", "nobody", f"{host}:{pid}:", f"{host}::{started}"),
    ):
        assert not is_alive(other), other


def test_a_process_that_has_ended_and_was_not_waited_for_is_not_alive() -> None:
    child = os.posix_spawn("/bin/true", ["true"], {})
    try:
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        assert not is_alive(process_of(child))
    finally:
        os.waitpid(child, 0)


async def test_entries_of_before_there_were_owners_are_interrupted(tmp_path: Path) -> None:
    database = tmp_path / "journal.sqlite"
    journal = Journal(database)
    await journal.check()
    await journal.close()
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(
            "INSERT INTO entries (time, path, user, author, tool, kind, state, summary)"
            " VALUES (1, 'n.ipynb', 'ada', 'Ada', 'execute_cell', 'run', 'intended', 'run')"
        )
    assert await state(database) == "interrupted"
