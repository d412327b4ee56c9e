"""A server that is killed while rooms are edited and run in leaves each notebook old or new."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import signal
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import httpx2
import nbformat
import pytest

from tests.servers import ServerProcess, StartServer

KILLS = 3
NOTEBOOKS = ("a.ipynb", "b.ipynb", "c.ipynb")
ROOMS = (
    "c.ServerApp.jpserver_extensions.update(jupyter_server_ydoc=True, jupyter_server_fileid=True)\n"
)
BALLAST = "#" * 300_000
"""What makes a notebook so large that a save takes a while."""


class Callers:
    """Who edits and runs, and what the server has acknowledged to them."""

    def __init__(self, marks: Iterator[int]) -> None:
        self._marks = marks
        self.acknowledged: dict[str, set[str]] = {path: set() for path in NOTEBOOKS}
        self._begun = {path: asyncio.Event() for path in NOTEBOOKS}

    async def work(self, server: ServerProcess, path: str) -> None:
        """Inserts and runs cells until the server is gone."""
        async with httpx2.AsyncClient(
            base_url=server.url, headers=server.headers, params={"caller": path}, timeout=60
        ) as client:
            with suppress(httpx2.TransportError):
                while True:
                    mark = f"mark_{next(self._marks)}"
                    tool, more = ("insert_cell", {"index": -1})
                    if mark.endswith(("0", "5")):
                        tool = "insert_and_execute_cell"
                    arguments = {"notebook": path, "source": f"{mark} = 1", **more}
                    response = await client.post(f"api/tk-ai/tools/{tool}", json=arguments)
                    answer = response.json()
                    assert response.status_code == 200, answer
                    self.acknowledged[path].add(mark)
                    self._begun[path].set()

    async def begun(self) -> None:
        """Waits until there is something to lose in each notebook."""
        for event in self._begun.values():
            await event.wait()

    async def start_long(self, server: ServerProcess, path: str) -> None:
        """Starts a cell that does not end."""
        await call(
            server,
            "insert_and_execute_cell",
            notebook=path,
            source="import time\nfor i in range(10**6):\n    print(i)\n    time.sleep(0.05)",
            index=0,
            wait=0,
        )


async def call(server: ServerProcess, tool: str, **arguments: Any) -> dict[str, Any]:
    async with httpx2.AsyncClient(
        base_url=server.url, headers=server.headers, params={"caller": "checker"}, timeout=60
    ) as client:
        response = await client.post(f"api/tk-ai/tools/{tool}", json=arguments)
        answer: dict[str, Any] = response.json()
        assert response.status_code == 200, answer
        return answer


async def kill_again_and_again(start_server: StartServer, kills: int, seed: int) -> None:
    logging.getLogger(__name__).warning("seed %s", seed)
    chance = random.Random(seed)
    callers = Callers(count(1))
    server: ServerProcess | None = None
    for kill in range(kills):
        is_first = server is None
        server = await start_server(config=ROOMS, beside=server)
        root = server.root
        if is_first:
            for path in NOTEBOOKS:
                cell = nbformat.v4.new_code_cell(BALLAST)
                nbformat.write(nbformat.v4.new_notebook(cells=[cell]), root / path)
        for path in NOTEBOOKS:
            history = await call(server, "notebook_history", notebook=path)
            states = {(entry["kind"], entry["state"]) for entry in history["entries"]}
            assert not {state for _, state in states} & {"intended", "unknown"}, states
            if kill and path == NOTEBOOKS[0]:
                assert ("run", "interrupted") in states
        await callers.start_long(server, NOTEBOOKS[0])
        working = [asyncio.create_task(callers.work(server, path)) for path in NOTEBOOKS]
        if is_first:
            begun = asyncio.create_task(callers.begun())
            # Callers end before the kill only if something is wrong.
            await asyncio.wait([begun, *working], return_when=asyncio.FIRST_COMPLETED)
            begun.cancel()
        # The moment of the kill is what is tried.
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), chance.uniform(0.3, 1))
        await server.stop(signal.SIGKILL)
        await asyncio.gather(*working)
        for path in NOTEBOOKS:
            data = (root / path).read_bytes()
            assert data, f"kill {kill}: {path} is empty"
            cells = json.loads(data)["cells"]
            there = {"".join(cell["source"]).split(" ")[0] for cell in cells}
            assert callers.acknowledged[path] <= there, f"kill {kill}: {path} lost edits"
    edits = sum(map(len, callers.acknowledged.values()))
    logging.getLogger(__name__).warning("%s acknowledged edits, %s kills", edits, kills)
    assert all(callers.acknowledged.values())


@pytest.mark.proves("fault:killed-in-save", "fault:cut-run")
async def test_a_kill_leaves_old_or_new_never_nothing(start_server: StartServer) -> None:
    await kill_again_and_again(start_server, KILLS, random.randrange(10**6))


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_forty_kills(start_server: StartServer) -> None:
    await kill_again_and_again(start_server, 40, random.randrange(10**6))
