"""Entries of the journal belong to a server: what goes on elsewhere is not called interrupted."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tk_ai_extension.workspace.journal import Journal

PROGRAM = """
import asyncio, sys
from pathlib import Path
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.workspace.journal import Journal

async def main():
    journal = Journal(Path(sys.argv[1]))
    caller = Caller("ada", "session-a")
    run = await journal.record(caller, "n.ipynb", "x", "runs", kind="run", state="intended")
    print("runs", flush=True)
    if sys.stdin.readline():
        await journal.end_run(run, "ran")
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
