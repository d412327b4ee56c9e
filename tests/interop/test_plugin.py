"""The plug-in in Claude Code and Codex, and the bundle, as generated from the registry.

Claude Code is the one in the SDK. Codex and mcpb run where they are on the path:
``npm install -g @openai/codex @anthropic-ai/mcpb``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from scripts import integrations
from tests.cli.conftest import Nb, home, nb
from tests.interop.test_agents import ADD, BUNDLED, WITHIN, Agent, scripted_codex
from tests.proofs import ROOT
from tests.support.directed_model import DirectedModel
from tests.support.scripted_model import MODEL
from tk_ai_extension.cli.special_commands import DEFAULT_TOOLS

__all__ = ["home", "nb"]

PLUGIN = "tk-ai@tk-ai-extension"
FOLDER = str(ROOT / "integrations")


def test_the_files_are_made_of_the_registry() -> None:
    """If not: ``python scripts/integrations.py``."""
    target = integrations.TARGET
    found = {
        str(path.relative_to(target)): path.read_text("utf-8")
        for path in target.rglob("*")
        if path.is_file()
    }
    assert found == integrations.files()
    assert Path(DEFAULT_TOOLS).read_text() == integrations.commands()


def run(program: str, *arguments: str, environment: dict[str, str]) -> str:
    """Runs a program; returns what it printed."""
    done = subprocess.run(
        [program, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=WITHIN,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@asynccontextmanager
async def claude(nb: Nb) -> AsyncGenerator[Agent]:
    program = shutil.which("claude", path=str(BUNDLED)) or shutil.which("claude")
    assert program
    environment = {**nb.environment, "CLAUDE_CONFIG_DIR": str(nb.root.parent / "claude")}
    checked = run(program, "plugin", "validate", FOLDER, environment=environment)
    assert "Validation passed" in checked
    run(program, "plugin", "marketplace", "add", FOLDER, environment=environment)
    run(program, "plugin", "install", PLUGIN, environment=environment)
    model = DirectedModel()
    command = [
        *(program, "--print", "--model", MODEL, "--output-format", "stream-json", "--verbose"),
        *("--allowed-tools", "mcp__plugin_tk-ai_tk", "--"),
    ]
    async with model.running():
        # A person's first message comes later than the tools; this one waits for them.
        waits = {"CLAUDE_CODE_MCP_STARTUP_WAIT_MS": "60000", "ENABLE_TOOL_SEARCH": "false"}
        own = {**environment, **waits}
        yield Agent(command, {**model.environment, **own})


@asynccontextmanager
async def codex(nb: Nb) -> AsyncGenerator[Agent]:
    async with scripted_codex(nb, own='sandbox_mode = "danger-full-access"\n') as agent:
        environment = {**nb.environment, **agent.environment}
        market = nb.root.parent / "market"
        shutil.copytree(FOLDER, market)
        # Else the first turn does not wait for the tools.
        servers = market / "tk-ai" / ".mcp.json"
        servers.write_text(servers.read_text("utf-8").replace('"args"', '"required": true, "args"'))
        program = agent.command[0]
        run(program, "plugin", "marketplace", "add", str(market), environment=environment)
        run(program, "plugin", "add", PLUGIN, environment=environment)
        assert "tk-nb" in run(program, "mcp", "list", environment=environment)
        yield agent


@pytest.mark.proves("nb:mcp")
@pytest.mark.timeout(2 * WITHIN)
@pytest.mark.parametrize("installed", [claude, codex])
async def test_the_plugin_brings_the_tools(nb: Nb, installed: Any) -> None:
    nb.notebook("a.ipynb", "x = 1")
    programs = str(Path(sys.executable).parent)
    nb.environment["PATH"] = os.pathsep.join([programs, nb.environment.get("PATH", os.defpath)])
    async with installed(nb) as agent:
        await agent.ask(nb, ADD)
    assert nb.read("a.ipynb").cells[1].outputs[0].text == "42\n"


def test_the_bundle_is_valid(tmp_path: Path) -> None:
    program = shutil.which("mcpb")
    if program is None:
        pytest.skip("mcpb is not installed")
    bundle = tmp_path / "tk-ai.mcpb"
    run(program, "pack", f"{FOLDER}/mcpb", str(bundle), environment=dict(os.environ))
    shown = json.loads((Path(FOLDER) / "mcpb" / "manifest.json").read_text("utf-8"))
    assert shown["tools"]
    assert bundle.exists()
