"""Cells that run while their call ends early, by the official client and on real kernels."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import nbformat
import pytest
from mcp import Client

from tests.mcp.conftest import LEGACY, MODERN, Connect

DEADLINE = 60
SLOW = """\
import time
print('begun', flush=True)
for _ in range(600):
    time.sleep(0.1)
print('through')
"""
HELD = """\
import os, time
print('begun', flush=True)
while not os.path.exists('go'):
    time.sleep(0.02)
print('end')
"""


class CutError(Exception):
    """Drop the connection."""


@pytest.fixture
def plan(jp_root_dir: Path) -> str:
    cells = [
        nbformat.v4.new_code_cell(SLOW, id="slow0000"),
        nbformat.v4.new_code_cell(HELD, id="held0000"),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), jp_root_dir / "plan.ipynb")
    return "plan.ipynb"


async def _begun(client: Client, cell: str) -> asyncio.Task[Any]:
    """A call that runs a cell, after the cell's first output."""
    begun = asyncio.Event()

    async def listen(progress: float, total: float | None, message: str | None) -> None:
        if message and "begun" in message:
            begun.set()

    call = asyncio.create_task(
        client.call_tool("execute_cell", {"cell": cell}, progress_callback=listen)
    )
    waiting = asyncio.create_task(begun.wait())
    await asyncio.wait((call, waiting), return_when=asyncio.FIRST_COMPLETED)
    assert begun.is_set(), call.result()
    return call


@pytest.mark.proves("mcp:disconnect", "exec:cancel")
@pytest.mark.parametrize("era", [LEGACY], indirect=True)
async def test_an_explicit_cancellation_interrupts_the_cell(
    connect: Connect, plan: str, jp_root_dir: Path
) -> None:
    async with asyncio.timeout(DEADLINE), connect() as client:
        await client.call_tool("use_notebook", {"notebook": plan})
        call = await _begun(client, "slow0000")
        call.cancel()
        after = await client.call_tool(
            "execute_ipython", {"code": "'still the same kernel', time.time() > 0"}
        )
        assert "still the same kernel" in after.content[0].text  # type: ignore[union-attr]
    outputs = nbformat.read(jp_root_dir / plan, as_version=4).cells[0].outputs
    assert outputs[-1].ename == "KeyboardInterrupt"


@pytest.mark.proves("mcp:disconnect")
async def test_a_connection_that_drops_leaves_the_cell_running_and_wait_execution_picks_it_up(
    connect: Connect, plan: str, jp_root_dir: Path, workspace: Any
) -> None:
    async with asyncio.timeout(DEADLINE):
        with pytest.RaisesGroup(CutError, flatten_subgroups=True, allow_unwrapped=True):
            async with connect("?caller=me") as client:
                await client.call_tool("use_notebook", {"notebook": plan})
                await _begun(client, "held0000")
                raise CutError
        (run,) = workspace.executions.active()
        async with connect("?caller=me") as client:
            (jp_root_dir / "go").touch()
            result = await client.call_tool("wait_execution", {"execution_id": run.id})
    assert result.structured_content["status"] == "ok"
    # All of it: what the first call would have answered has been seen by nobody.
    assert result.structured_content["runs"][0]["output"] == "begun\nend"


@pytest.mark.proves("mcp:disconnect")
@pytest.mark.parametrize("era", [MODERN], indirect=True)
async def test_without_sessions_a_cancelled_request_leaves_the_cell_to_interrupt_kernel(
    connect: Connect, plan: str, workspace: Any
) -> None:
    async with asyncio.timeout(DEADLINE), connect("?caller=me") as client:
        await client.call_tool("use_notebook", {"notebook": plan})
        call = await _begun(client, "slow0000")
        call.cancel()
        (run,) = workspace.executions.active()
        await client.call_tool("interrupt_kernel", {"execution_id": run.id})
        result = await client.call_tool("wait_execution", {"execution_id": run.id})
    assert result.structured_content["status"] == "interrupted"


@pytest.mark.proves("exec:progress")
async def test_new_output_is_reported_while_the_cell_runs(
    connect: Connect, plan: str, jp_root_dir: Path
) -> None:
    messages: list[str] = []

    async def listen(progress: float, total: float | None, message: str | None) -> None:
        messages.append(message or "")
        if "begun" in (message or ""):
            (jp_root_dir / "go").touch()

    async with asyncio.timeout(DEADLINE), connect("?caller=me") as client:
        await client.call_tool("use_notebook", {"notebook": plan})
        result = await client.call_tool(
            "execute_cell", {"cell": "held0000"}, progress_callback=listen
        )
    assert not result.is_error
    assert any("begun" in message for message in messages)


@pytest.mark.proves("rest:call")
async def test_a_cell_that_fails_is_an_error_result(connect: Connect, plan: str) -> None:
    async with connect() as client:
        result = await client.call_tool("execute_ipython", {"notebook": plan, "code": "1 / 0"})
    assert result.is_error
    assert result.structured_content["status"] == "error"
    assert "ZeroDivisionError" in result.content[0].text  # type: ignore[union-attr]
