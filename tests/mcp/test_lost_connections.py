"""Clients that lose their connections over and over: each line of output reaches them once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import nbformat
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.cases import Cases
from tests.mcp.conftest import MODERN
from tk_ai_extension.tools import runs as tool_runs
from tk_ai_extension.tools.registry import ToolContext
from tk_ai_extension.workspace.runs import Run

DEADLINE = 60
LINES = 6
CELL = f"""\
import os, time
for number in range({LINES}):
    while not os.path.exists(f'go-{{number}}'):
        time.sleep(0.01)
    print(number, flush=True)
"""
Call = Callable[..., Coroutine[Any, Any, Any]]
"""Calls a tool; returns its structured result."""
Open = Callable[[], AbstractAsyncContextManager[Call]]
"""Connects a client of always the same name."""


class CutError(Exception):
    """Drop the connection."""


@pytest.fixture(params=["HTTP", "REST"])
def connect_again(
    request: pytest.FixtureRequest, address: str, jp_auth_header: dict[str, str]
) -> Open:
    """Connects by one of the transports in which a client can come back under its name."""

    @asynccontextmanager
    async def rest() -> AsyncGenerator[Call]:
        async with httpx2.AsyncClient(headers=jp_auth_header, timeout=30) as http:

            async def call(tool: str, **arguments: Any) -> Any:
                url = f"{address.removesuffix('mcp')}tools/{tool}?caller=me"
                return (await http.post(url, json=arguments)).json()

            yield call

    @asynccontextmanager
    async def mcp() -> AsyncGenerator[Call]:
        async with httpx2.AsyncClient(headers=jp_auth_header, timeout=30) as http:
            streams = streamable_http_client(f"{address}?caller=me", http_client=http)
            async with Client(streams, mode=MODERN) as client:

                async def call(tool: str, **arguments: Any) -> Any:
                    return (await client.call_tool(tool, arguments)).structured_content

                yield call

    return rest if request.param == "REST" else mcp


async def lose(
    connect: Open,
    waiting: asyncio.Queue[Run],
    root: Path,
    rng: random.Random,
    tool: str,
    **arguments: Any,
) -> Run:
    """Makes a call whose connection is lost while it waits; returns its run."""
    with suppress(CutError, BaseExceptionGroup):
        async with connect() as call:
            lost = asyncio.create_task(call(tool, wait=600, **arguments))
            lost.add_done_callback(lambda task: task.cancelled() or task.exception())
            run = await waiting.get()
            await release(root, run, rng.randrange(3))
            raise CutError
    return run


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> asyncio.Queue[Run]:
    """The runs that calls begin to wait for."""
    runs: asyncio.Queue[Run] = asyncio.Queue()
    wait = tool_runs._wait

    def report(context: ToolContext, run: Run, seconds: float) -> Coroutine[Any, Any, None]:
        runs.put_nowait(run)
        return wait(context, run, seconds)

    monkeypatch.setattr(tool_runs, "_wait", report)
    return runs


async def release(root: Path, run: Run, count: int) -> None:
    """Lets the cell print further lines, of which one is kept back."""
    for _ in range(count):
        number = sum((root / f"go-{number}").exists() for number in range(LINES))
        if number < LINES - 1:
            version = run.version
            (root / f"go-{number}").touch()
            await run.changed(version, DEADLINE)


@pytest.mark.proves("mcp:disconnect", "mcp:http")
async def test_each_line_of_output_reaches_a_client_that_loses_its_connections_once(
    connect_again: Open, waiting: asyncio.Queue[Run], jp_root_dir: Path
) -> None:
    cell = nbformat.v4.new_code_cell(CELL, id="cell0000")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), jp_root_dir / "plan.ipynb")
    with Cases() as cases:
        for seed in range(4):
            with cases.case(seed):
                async with asyncio.timeout(DEADLINE):
                    for number in range(LINES):
                        (jp_root_dir / f"go-{number}").unlink(missing_ok=True)
                    received = await output(
                        connect_again, waiting, jp_root_dir, random.Random(seed)
                    )
                    assert received == [str(number) for number in range(LINES)]


async def output(
    connect: Open, waiting: asyncio.Queue[Run], root: Path, rng: random.Random
) -> list[str]:
    """Runs the cell; the lines that arrive by connections that last."""
    received: list[str] = []
    since: dict[str, str] = {}
    run = await lose(
        connect, waiting, root, rng, "execute_cell", cell="cell0000", notebook="plan.ipynb"
    )
    for _ in range(rng.randrange(4)):
        if rng.random() < 0.5:
            await lose(connect, waiting, root, rng, "wait_execution", execution_id=run.id)
        else:
            await release(root, run, rng.randrange(2))
            async with connect() as call:
                answer = await call("wait_execution", execution_id=run.id, wait=0, **since)
            received += lines(answer)
            since = {"since": answer["next"]}
            assert await waiting.get() is run
    for number in range(LINES):
        (root / f"go-{number}").touch()
    if rng.random() < 0.5:
        await run.wait(DEADLINE)
    async with connect() as call:
        received += lines(await call("wait_execution", execution_id=run.id, **since))
    assert await waiting.get() is run
    return received


def lines(result: Any) -> list[str]:
    """The lines of output in a result."""
    return [line for run in result["runs"] for line in run["output"].splitlines()]
