"""`nb mcp`: the same tools over stdio, for the official client."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from tests.cli.conftest import NB, Nb


@asynccontextmanager
async def connected(nb: Nb, *options: str, **abilities: Any) -> AsyncGenerator[Client]:
    """The official client on `nb mcp`, started as an agent starts it."""
    parameters = StdioServerParameters(
        command=NB[0], args=[*NB[1:], "mcp", *options], env=nb.environment, cwd=nb.root
    )
    async with asyncio.timeout(60), Client(parameters, **abilities) as client:
        yield client


def text(result: types.CallToolResult) -> str:
    return "\n".join(part.text for part in result.content if part.type == "text")


@pytest.mark.proves("nb:mcp", "mcp:http")
async def test_an_agent_opens_edits_and_runs(shared: Nb) -> None:
    shared.notebook("a.ipynb", "x = 6 * 7")
    async with connected(shared) as client:
        assert len((await client.list_tools()).tools) == 37
        await client.call_tool("use_notebook", {"notebook": "a.ipynb"})
        ran = await client.call_tool("execute_cell", {"cell": 0})
        assert not ran.is_error
        added = await client.call_tool("insert_and_execute_cell", {"source": "print(x)"})
        assert "42" in text(added)
        refused = await client.call_tool("read_cell", {"cell": "nope"})
        assert refused.is_error
        assert refused.structured_content["error"]["code"] == "cell_not_found"
        read = await client.read_resource("notebook://a.ipynb")
        assert "print(x)" in str(read.contents[0])
    assert shared.read("a.ipynb").cells[1].outputs[0].text == "42\n"


@pytest.mark.proves("nb:mcp", "nb:persist")
async def test_kernels_stay_when_the_client_goes_and_the_next_one_finds_them(shared: Nb) -> None:
    shared.notebook("a.ipynb")
    async with connected(shared) as client:
        await client.call_tool("execute_ipython", {"code": "kept = 'state'", "notebook": "a.ipynb"})
    async with connected(shared) as client:
        again = await client.call_tool("execute_ipython", {"code": "kept", "notebook": "a.ipynb"})
        assert "state" in text(again)
    # A person at the command line works on that kernel, too.
    assert "state" in shared("run", "kept", "-n", "a.ipynb").out


def test_the_command_answers_and_ends_when_its_input_ends(shared: Nb) -> None:
    request = (
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
        '"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}\n'
    )
    assert shared("mcp", stdin=request).json["id"] == 1


async def test_a_client_that_is_killed_leaves_the_cell_running(shared: Nb) -> None:
    shared.notebook(
        "killed.ipynb", "import time\nprint('began', flush=True)\ntime.sleep(2)\nprint('ended')"
    )
    process = await asyncio.create_subprocess_exec(
        *NB,
        "mcp",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=shared.root,
        env=shared.environment,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    call = (
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
        '"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}\n'
        '{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
        '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"execute_cell",'
        '"arguments":{"cell":0,"notebook":"killed.ipynb"},"_meta":{"progressToken":7}}}\n'
    )
    process.stdin.write(call.encode())
    async with asyncio.timeout(30):
        async for line in process.stdout:
            if b"notifications/progress" in line:
                break
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    shared("exec", "0", "-n", "killed.ipynb")
    outputs = shared.read("killed.ipynb").cells[0].outputs
    assert outputs[0].text == "began\nended\n"
    assert shared("history", "killed.ipynb").out.count(": ok") == 2


async def test_toolsets_and_modes_are_chosen_on_the_command_line(shared: Nb) -> None:
    shared.notebook("a.ipynb", "1")
    async with connected(shared, "--mode", "plan") as client:
        refused = await client.call_tool("insert_cell", {"source": "2", "notebook": "a.ipynb"})
        assert refused.structured_content["error"]["code"] == "permission_denied"
    assert "reckless" in shared("mcp", "--mode", "reckless", status=2).err
    assert "--nonsense" in shared("mcp", "--nonsense", status=2).err
