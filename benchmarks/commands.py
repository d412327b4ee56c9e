"""The command line: whole processes beside an empty one, and `1+1` beside one kernel client kept open."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
from contents import cell_id, write
from family import Options, main
from kept import kept
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from measure import Row, at_most, interleaved, timed

CODE = "1+1"
CELLS = 50
SAMPLES = 40
IDLE = 5.0
"""Seconds in which an idle host is watched."""

NB = str(Path(sys.executable).with_name("nb"))


async def measure(options: Options) -> AsyncGenerator[Row]:
    """Thin commands, running code, MCP over stdio, and the host at rest."""
    root = options.new_folder("project").resolve()
    write(root / "many.ipynb", [CODE] * CELLS)
    count = options.count(SAMPLES)
    async with opened(root) as host:
        yield at_most("memory of the host that has started a kernel", _megabytes(host), 140, "MB")
        cell = cell_id(CELLS // 2)
        await ran(root, NB, "cell", cell)  # seen, hence editable
        nothing, cells, one, edit = await interleaved(
            count,
            lambda: ran(root, sys.executable, "-c", "pass"),
            lambda: ran(root, NB, "cells"),
            lambda: ran(root, NB, "cell", cell),
            lambda: ran(root, NB, "edit", cell, CODE),
        )
        yield timed(f"nb cells, {CELLS} cells", cells, nothing, times=3)
        yield timed("nb cell", one, nothing, times=3)
        yield timed("nb edit", edit, nothing, times=3)
        for row in await run_code(root, count, cell):
            yield row
        yield at_most("memory of the host that has spoken MCP", _megabytes(host), 140, "MB")
        yield at_most("CPU of the idle host", await idle(host), 0.5, "%")


async def run_code(root: Path, count: int, cell: str) -> list[Row]:
    """`1+1` by a command, and by MCP over stdio."""
    (file,) = (root / ".nb" / "kernels").glob("kernel-*.json")
    parameters = StdioServerParameters(
        command=NB, args=["mcp"], cwd=root, env={**os.environ, "PATH": os.environ["PATH"]}
    )
    async with (
        kept(json.loads(file.read_text(encoding="utf-8"))) as client,
        Client(parameters, mode="legacy") as agent,
    ):
        await agent.call_tool("use_notebook", {"notebook": "many.ipynb"})
        floor, executed, scratch, called = await interleaved(
            count,
            lambda: client.execute(CODE),
            lambda: ran(root, NB, "exec", cell),
            lambda: ran(root, NB, "run", CODE),
            lambda: agent.call_tool("execute_ipython", {"code": CODE}),
            between=client.drain,
        )
    return [
        timed("nb exec of 1+1, warm kernel", executed, floor, above=60),
        timed("nb run of 1+1, warm kernel", scratch, floor, above=60),
        timed("1+1 by execute_ipython, MCP over stdio", called, floor, above=4),
    ]


async def ran(root: Path, *command: str) -> None:
    """Runs a command to its end, in the project."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=root,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
    )
    status = await process.wait()
    assert status == 0, command


@asynccontextmanager
async def opened(root: Path) -> AsyncGenerator[psutil.Process]:
    """A project with a notebook open; its host."""
    await ran(root, NB, "open", "many.ipynb")
    try:
        process = await asyncio.create_subprocess_exec(
            NB, "status", "--json", cwd=root, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate()
        yield psutil.Process(json.loads(out)["host"])
    finally:
        await ran(root, NB, "shutdown")


async def idle(host: psutil.Process) -> float:
    """The share of a core that a host takes of which nobody asks anything, in percent."""
    host.cpu_percent()
    await asyncio.sleep(IDLE)
    return host.cpu_percent()


def _megabytes(process: psutil.Process) -> float:
    return process.memory_info().rss / 2**20


if __name__ == "__main__":
    main(measure, __doc__)
