"""Which keys of a model reach code in a kernel: only those that notebooks use."""

from __future__ import annotations

import os

import pytest

from tk_ai_extension.agent.acp.backend import known_agents
from tk_ai_extension.agent.claude.providers import CREDENTIALS, DIRECT
from tk_ai_extension.agent.launch_settings import INHERITED, matching
from tk_ai_extension.kernels.environment_variables import inherited_environment

NOTEBOOKS_OWN = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}
"""Credentials of Bedrock that a data scientist's own code needs as well."""

SERVERS_OWN = {"JUPYTER_TOKEN", "JPY_API_TOKEN"}
"""Tokens with which code could call the server as its user."""


def in_kernel(monkeypatch: pytest.MonkeyPatch, *names: str) -> set[str]:
    """Those of some variables of the server that a kernel has."""
    for name in names:
        monkeypatch.setenv(name, "canary")
    return set(inherited_environment()).intersection(names)


@pytest.mark.proves("threat:secrets")
def test_a_key_that_only_a_model_takes_reaches_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    of_claude = [pattern.replace("*", "ANY_KEY") for pattern in DIRECT if "*" in pattern]
    own = {"AWS_BEARER_TOKEN_BEDROCK", "ANTHROPIC_FOUNDRY_API_KEY"}
    names = {*CREDENTIALS, *own, *NOTEBOOKS_OWN, *of_claude}
    assert in_kernel(monkeypatch, *names) == NOTEBOOKS_OWN


@pytest.mark.proves("threat:secrets")
def test_a_variable_of_one_agent_alone_reaches_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = {"AWS_*", "GH_TOKEN", "GITHUB_TOKEN"}
    shared |= {f"{each}_*" for each in ("OPENAI", "GEMINI", "GOOGLE", "MISTRAL", "OPENROUTER")}
    patterns = {
        pattern for agent in known_agents({}).values() for pattern in agent.variables
    } - shared
    assert in_kernel(monkeypatch, *(each.replace("*", "ANY_KEY") for each in patterns)) == set()


@pytest.mark.proves("threat:secrets")
def test_a_token_of_the_server_reaches_no_kernel_and_no_agent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert in_kernel(monkeypatch, *SERVERS_OWN, "HARMLESS") == {"HARMLESS"}
    assert not SERVERS_OWN & set(matching(os.environ, INHERITED))
    for agent in known_agents({}).values():
        assert not SERVERS_OWN & set(agent.process_environment(os.environ)), agent.name
