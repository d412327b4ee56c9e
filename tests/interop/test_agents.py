"""Other projects' agents over `nb mcp`: Claude Code and Codex, as installed, against a scripted model.

Claude Code is the one in the SDK. Codex runs where `codex` is on the path:
``npm install -g @openai/codex``.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import claude_agent_sdk
import pytest

from scripts.acp_endpoints import Endpoints
from tests.cli.conftest import NB, Nb, home, hosts, nb
from tests.servers import StartServer
from tests.support.directed_model import DirectedModel
from tests.support.scripted_model import MODEL
from tests.support.tab_page import TabPage

__all__ = ["home", "nb"]

WITHIN = 120
"""Timeout of an agent, in seconds."""
ADD = '@call insert_and_execute_cell {"notebook": "a.ipynb", "source": "print(6 * 7)"}'
WRONG, RIGHT = "rows = []\nsum(rows) / len(rows)", "rows = [1, 3]\nsum(rows) / len(rows)"
FIX = f"""What is wrong in the cell that I am looking at?
@call use_notebook {{"notebook": "active"}}
@call read_cell {{"cell": "[1]"}}
@call show_cell {{"cell": "[1]"}}
@call overwrite_cell {json.dumps({"cell": "[1]", "source": RIGHT})}
@call execute_cell {{"cell": 1}}
@call undo {{}}"""
BUNDLED = Path(claude_agent_sdk.__file__).parent / "_bundled"


@dataclass
class Agent:
    """An agent of another project.

    Attributes:
        command: Its command line for one message.
        environment: Its variables.
    """

    command: list[str]
    environment: dict[str, str]

    async def ask(self, nb: Nb, message: str) -> str:
        """Sends a message in the project's folder; returns what it printed."""
        process = await asyncio.create_subprocess_exec(
            *self.command,
            message,
            cwd=nb.root,
            env={**nb.environment, **self.environment},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(), WITHIN)
        assert process.returncode == 0, (out + err).decode()
        return out.decode()


@asynccontextmanager
async def claude(nb: Nb) -> AsyncGenerator[Agent]:
    model = DirectedModel()
    program = shutil.which("claude", path=str(BUNDLED)) or shutil.which("claude")
    assert program
    servers = {"tk": {"command": NB[0], "args": [*NB[1:], "mcp"], "env": nb.environment}}
    command = [
        *(program, "--print", "--model", MODEL, "--strict-mcp-config"),
        *("--output-format", "stream-json", "--verbose"),
        *("--mcp-config", json.dumps({"mcpServers": servers})),
        *("--allowed-tools", "mcp__tk", "--"),
    ]
    async with model.running():
        folder = str(nb.root.parent / "claude")
        own = {"CLAUDE_CONFIG_DIR": folder, "ENABLE_TOOL_SEARCH": "false"}
        yield Agent(command, {**model.environment, **own})


@asynccontextmanager
async def scripted_codex(nb: Nb, *, own: str = "", servers: str = "") -> AsyncGenerator[Agent]:
    """Codex with a scripted model, and further lines of its settings: at the top, and tables."""
    program = shutil.which("codex")
    if program is None:
        pytest.skip("codex is not installed")
    endpoints = Endpoints()
    folder = nb.root.parent / "codex"
    folder.mkdir()
    (folder / "config.toml").write_text(
        'model = "gpt-5.5"\nmodel_provider = "scripted"\napproval_policy = "never"\n'
        f"{own}"
        '[model_providers.scripted]\nname = "Scripted"\nwire_api = "responses"\n'
        f'base_url = "{endpoints.url}/openai/v1"\nenv_key = "OPENAI_API_KEY"\n'
        "[analytics]\nenabled = false\n"
        f"{servers}"
    )
    command = [program, "exec", "--skip-git-repo-check", "--json", "--"]
    environment = {"CODEX_HOME": str(folder), "OPENAI_API_KEY": "any"}
    try:
        yield Agent(command, environment)
    finally:
        await endpoints.close()


@asynccontextmanager
async def codex(nb: Nb) -> AsyncGenerator[Agent]:
    variables = ", ".join(f"{name} = {json.dumps(nb.environment[name])}" for name in nb.environment)
    servers = (
        f'[mcp_servers.tk]\ncommand = "{NB[0]}"\nargs = {json.dumps([*NB[1:], "mcp"])}\n'
        # Else the first turn does not wait for the start of the project's server.
        "required = true\n"
        f'default_tools_approval_mode = "approve"\nenv = {{ {variables} }}\n'
    )
    async with scripted_codex(nb, servers=servers) as agent:
        yield agent


@pytest.mark.proves("nb:mcp")
@pytest.mark.timeout(2 * WITHIN)
@pytest.mark.parametrize("connected", [claude, codex])
async def test_it_finds_the_tools_and_runs_a_cell_in_a_project(nb: Nb, connected: Any) -> None:
    nb.notebook("a.ipynb", "x = 1")
    async with connected(nb) as agent:
        out = await agent.ask(nb, ADD)
    # Codex names the tools to its model only when that searches for them.
    assert "mcp__tk__read_cell" in out or connected is codex
    assert "42" in out
    assert nb.read("a.ipynb").cells[1].outputs[0].text == "42\n"


@pytest.mark.proves("nb:mcp", "nb:collaborate", "mcp:focus")
@pytest.mark.timeout(2 * WITHIN)
@pytest.mark.parametrize("connected", [claude, codex])
async def test_it_works_in_the_cell_that_a_person_looks_at(
    nb: Nb, start_server: StartServer, connected: Any
) -> None:
    server = await start_server()
    nb.root = server.root
    nb.environment["JUPYTER_RUNTIME_DIR"] = str(server.home / "runtime")
    nb.notebook("a.ipynb", "x = 1", WRONG)
    page = TabPage(server.url, server.token)
    await page.connect()
    opened = await page.open("a.ipynb")
    async with connected(nb) as agent:
        await agent.ask(nb, '@call execute_cell {"notebook": "a.ipynb", "cell": 1}')
        await page.look("a.ipynb", opened.cells[1]["id"])
        out = await agent.ask(nb, FIX)
    assert "ZeroDivisionError" in out
    assert "2.0" in out
    assert opened.cells[1]["source"] == WRONG
    assert not hosts(nb)
    await page.close()
