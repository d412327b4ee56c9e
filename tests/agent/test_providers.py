"""Which configured provider is chosen, and what Claude's process gets for it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.agent.conftest import WITHIN, processes, rest, talk_with
from tests.harness import ToolHarness
from tests.support.scripted_model import Answer, Held, ScriptedModel
from tk_ai_extension.agent.claude.backend import DESCRIPTORS, ClaudeBackend
from tk_ai_extension.agent.claude.providers import (
    ClaudeProvider,
    ProviderSettings,
    beside_proxies,
    choose,
)
from tk_ai_extension.agent.claude.user_connection import FILE, ConnectionStore, ProviderSelector
from tk_ai_extension.model.agent_errors import NoModel

CANARY = "sk-ant-canary-0123456789"


def chosen(environment: dict[str, str] | None = None, **settings: Any) -> ClaudeProvider:
    return choose(ProviderSettings(**settings), environment or {})


def in_project(
    folder: Path, text: str, environment: Mapping[str, str] | None = None, name: str = "keys"
) -> ProviderSelector:
    """The provider if the settings name a file of keys in the root."""
    (folder / name).write_text(text, encoding="utf-8")
    (folder / name).chmod(0o600)
    settings = ProviderSettings(secrets_file=name)
    store = ConnectionStore(folder.parent / f"{folder.name}-user" / FILE)
    return ProviderSelector(settings, folder, store, environment or {})


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({}, "tour"),
        ({"ANTHROPIC_API_KEY": ""}, "tour"),
        ({"ANTHROPIC_API_KEY": "k"}, "anthropic"),
        ({"ANTHROPIC_AUTH_TOKEN": "k"}, "anthropic"),
        ({"CLAUDE_CODE_OAUTH_TOKEN": "t"}, "oauth"),
        ({"ANTHROPIC_API_KEY": "k", "CLAUDE_CODE_OAUTH_TOKEN": "t"}, "anthropic"),
        ({"ANTHROPIC_BASE_URL": "http://localhost:11434"}, "compatible"),
        (
            {"ANTHROPIC_BASE_URL": "https://api.anthropic.com", "ANTHROPIC_API_KEY": "k"},
            "anthropic",
        ),
        ({"ANTHROPIC_BASE_URL": "https://evilanthropic.com"}, "compatible"),
        ({"CLAUDE_CODE_USE_BEDROCK": "1", "ANTHROPIC_API_KEY": "k"}, "bedrock"),
        ({"CLAUDE_CODE_USE_BEDROCK": "0", "ANTHROPIC_API_KEY": "k"}, "anthropic"),
        ({"CLAUDE_CODE_USE_VERTEX": "true"}, "vertex"),
    ],
)
def test_the_first_provider_that_is_configured_is_taken(
    environment: dict[str, str], name: str
) -> None:
    assert chosen(environment).name == name


@pytest.mark.parametrize("provider", ["bedrock", "oauth"])
def test_credentials_of_other_providers_are_left_out(provider: str) -> None:
    used = {
        "bedrock": {"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_REGION": "eu-west-1"},
        "oauth": {"CLAUDE_CODE_OAUTH_TOKEN": "token"},
    }[provider]
    others = {"AWS_PROFILE": "p", "GOOGLE_CLOUD_PROJECT": "g", "OPENAI_API_KEY": "o"}
    found = chosen({**used, **others})
    assert found.name == provider
    assert found.environment == used | ({"AWS_PROFILE": "p"} if provider == "bedrock" else {})
    both = {"ANTHROPIC_API_KEY": "key", "CLAUDE_CODE_OAUTH_TOKEN": "token"}
    assert chosen(both).environment == {"ANTHROPIC_API_KEY": "key"}


@pytest.mark.parametrize("key", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"])
def test_an_address_and_a_key_are_enough(key: str) -> None:
    found = chosen({"ANTHROPIC_BASE_URL": "https://gateway.example.org", key: "k"})
    assert (found.name, found.problem, found.model) == ("compatible", None, "sonnet")
    assert found.models == ("sonnet", "opus", "haiku")
    assert found.thinking, "Claude is no small model"
    assert found.environment == {"ANTHROPIC_BASE_URL": "https://gateway.example.org", key: "k"}


@pytest.mark.proves("ext:secrets", "connect:address")
async def test_only_keys_are_taken_from_a_file_that_the_settings_name(tmp_path: Path) -> None:
    text = (
        "export ANTHROPIC_API_KEY=k\nANTHROPIC_BASE_URL=http://evil\nANTHROPIC_MODEL=m\nPATH=x\n"
        "HTTPS_PROXY=http://evil\nNODE_OPTIONS=--require=evil\nCLAUDE_CODE_USE_BEDROCK=1\n"
        "AWS_CONFIG_FILE=aws.cfg\nAWS_PROFILE=evil\nANTHROPIC_CUSTOM_HEADERS=X:1\n"
    )
    found = await in_project(tmp_path, text).provider()
    assert found.environment == {"ANTHROPIC_API_KEY": "k"}
    assert (found.name, found.model, found.source) == ("anthropic", "sonnet", "project")
    # The environment's key counts.
    both = await in_project(tmp_path, text, {"ANTHROPIC_AUTH_TOKEN": "t"}).provider()
    assert both.environment == {"ANTHROPIC_AUTH_TOKEN": "t"}
    assert both.source == "environment"
    # Without the setting the file is not read.
    (tmp_path / ".secrets.env").write_text(text, encoding="utf-8")
    (tmp_path / ".secrets.env").chmod(0o600)
    store = ConnectionStore(tmp_path / FILE)
    unnamed = ProviderSelector(ProviderSettings(), tmp_path, store, {})
    assert (await unnamed.provider()).name == "tour"


@pytest.mark.proves("ext:secrets")
async def test_a_file_of_keys_that_cannot_be_used_is_reported(tmp_path: Path) -> None:
    asked = in_project(tmp_path, f"ANTHROPIC_API_KEY = {CANARY}\n")
    found = await asked.provider()
    assert CANARY not in str(found.problem)
    with pytest.raises(NoModel, match=r"cannot be used: line 1 is not .* needs single quotes"):
        found.require_ready()
    file = tmp_path / "keys"
    file.chmod(0o620)
    assert "others can read or write it" in str((await asked.provider()).problem)
    file.rename(tmp_path / "there")
    file.symlink_to(tmp_path / "there")
    assert "symbolic link" in str((await asked.provider()).problem)
    file.unlink()
    os.mkfifo(file)
    assert "not a regular file" in str((await asked.provider()).problem)


@pytest.mark.parametrize(
    "url", ["localhost:11434", "http://", "http://[", "file:///etc", "http://localhost:4000/v1/"]
)
def test_an_invalid_address_is_reported(url: str) -> None:
    found = chosen({"ANTHROPIC_MODEL": "m"}, base_url=url)
    assert "ANTHROPIC_BASE_URL" in str(found.problem)


def test_nothing_but_the_environment_shows_a_secret() -> None:
    settings = ProviderSettings(base_url=f"http://me:{CANARY}@example.org:4000/{CANARY}?k={CANARY}")
    environment = {"ANTHROPIC_AUTH_TOKEN": CANARY, "ANTHROPIC_CUSTOM_HEADERS": f"X: {CANARY}"}
    found = choose(settings, environment, {"MINE": CANARY})
    assert found.environment["ANTHROPIC_AUTH_TOKEN"] == CANARY
    assert CANARY not in repr(found)
    assert CANARY not in json.dumps(found.health())
    assert found.redact(f"refused: {CANARY}!") == "refused: [secret]!"


@pytest.mark.proves("threat:secrets")
@pytest.mark.parametrize(
    ("variable", "header", "value"),
    [
        ("ANTHROPIC_API_KEY", "X-Api-Key", CANARY),
        ("ANTHROPIC_AUTH_TOKEN", "Authorization", f"Bearer {CANARY}"),
        ("CLAUDE_CODE_OAUTH_TOKEN", "Authorization", f"Bearer {CANARY}"),
    ],
)
async def test_a_key_reaches_the_model_s_server_and_not_the_model(
    harness: ToolHarness, tmp_path: Path, variable: str, header: str, value: str
) -> None:
    held = Held(Answer.of("Here."))
    async with ScriptedModel(held, key=None).running() as model:
        found = choose(ProviderSettings(model="claude-sonnet-5"), {}, {variable: CANARY})
        # Anthropic's own address is not asked here.
        to_model = {**found.environment, "ANTHROPIC_BASE_URL": model.url}

        async def provider() -> ClaudeProvider:
            return replace(found, environment=to_model | beside_proxies(os.environ))

        talk = talk_with(harness, ClaudeBackend(tmp_path / "claude", provider), tmp_path, model)
        begun = await talk.send("Hello.")
        async with asyncio.timeout(WITHIN):
            await held.held.wait()
        shown = json.dumps([process.environ() for process in processes()])
        held.go_on.set()
        assert (await rest(begun))[-1].data["text"] == "Here."
        await talk.close()
    # Other processes of the user can read the environment.
    assert (CANARY in shown) == (variable not in DESCRIPTORS)
    assert model.requests[0].headers[header] == value
    assert CANARY not in json.dumps(model.requests[0].body)
