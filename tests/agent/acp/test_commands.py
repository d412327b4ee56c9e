"""Agents that are found on the machine, named by a setting, or brought by another package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from traitlets import TraitError

from tk_ai_extension.agent.acp import commands
from tk_ai_extension.agent.acp.commands import AgentCommands
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.server.app import TkAIExtensionApp


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of programs."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def install(programs: Path, name: str) -> None:
    (programs / name).touch(mode=0o700)


@pytest.mark.proves("ext:any-agent")
def test_the_known_agents_are_found_by_their_programs(programs: Path) -> None:
    agents = AgentCommands({})
    assert agents.installed() == []
    install(programs, "gemini")
    install(programs, "opencode")
    assert [agent.title for agent in agents.installed()] == ["Gemini CLI", "OpenCode"]
    assert {agent.name for agent in agents} == {
        *("claude-agent-acp", "codex-acp", "gemini", "goose"),
        *("opencode", "copilot", "kiro-cli", "vibe-acp"),
    }


@pytest.mark.proves("ext:any-agent")
def test_a_setting_adds_replaces_and_hides_agents(programs: Path) -> None:
    for name in ("gemini", "goose", "mine"):
        install(programs, name)
    setting = {
        "mine": ["mine", "acp"],
        "goose": None,
        "gemini": {"command": ["mine"], "title": "G"},
    }
    found = {
        agent.name: (agent.title, agent.command) for agent in AgentCommands(setting).installed()
    }
    assert found == {"gemini": ("G", ("mine",)), "mine": ("mine", ("mine", "acp"))}


@pytest.mark.parametrize(
    "said", ["gemini", [], {"title": "x"}, {"command": "x"}, {"command": ["x"], "args": []}, 1]
)
def test_an_invalid_entry_is_refused_with_what_to_write(said: Any) -> None:
    with pytest.raises(InvalidArguments, match="acp_agents"):
        commands.configured({"mine": said})
    with pytest.raises(InvalidArguments, match="acp_agents"):
        commands.configured({"mine:own": ["mine"]})
    with pytest.raises(TraitError, match="command"):
        TkAIExtensionApp(acp_agents={"mine": said})
