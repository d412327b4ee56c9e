"""Agents that are found on the machine, named by a setting, or brought by another package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from traitlets import TraitError

from tk_ai_extension.agent.acp.backend import configured, installed, known_agents
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
    agents = known_agents({})
    assert installed(agents.values()) == {}
    install(programs, "gemini")
    install(programs, "opencode")
    assert list(installed(agents.values()).values()) == ["Gemini CLI", "OpenCode"]
    assert agents.keys() == {
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
    agents = known_agents(setting)
    assert installed(agents.values()) == {"gemini": "G", "mine": "mine"}
    assert agents["mine"].command == ("mine", "acp")


@pytest.mark.parametrize(
    "said", ["gemini", [], {"title": "x"}, {"command": "x"}, {"command": ["x"], "args": []}, 1]
)
def test_an_invalid_entry_is_refused_with_what_to_write(said: Any) -> None:
    with pytest.raises(InvalidArguments, match="acp_agents"):
        configured({"mine": said})
    with pytest.raises(InvalidArguments, match="acp_agents"):
        configured({"mine:own": ["mine"]})
    with pytest.raises(TraitError, match="command"):
        TkAIExtensionApp(acp_agents={"mine": said})
