"""Which provider is chosen from what is configured, and what Claude's process gets for it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import claude_agent_sdk
import psutil
import pytest
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage

from tests.support.scripted_model import Answer, MessagesRequest, ScriptedModel
from tk_ai_extension.agent.claude.connections import FILE, ClaudeModels, ConnectionStore
from tk_ai_extension.agent.claude.process import DESCRIPTORS, started_by_launcher
from tk_ai_extension.agent.claude.providers import (
    Provider,
    ProviderSettings,
    beside_proxies,
    choose,
)
from tk_ai_extension.agent.environment import inherited
from tk_ai_extension.model.agent_errors import NoModel

CANARY = "sk-ant-canary-0123456789"
CLI = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
DEADLINE = 40.0


def chosen(environment: dict[str, str] | None = None, **settings: Any) -> Provider:
    return choose(ProviderSettings(**settings), environment or {})


def in_project(
    folder: Path, text: str, environment: Mapping[str, str] | None = None, name: str = "keys"
) -> ClaudeModels:
    """What is provided where the settings name a file of keys in the root."""
    (folder / name).write_text(text, encoding="utf-8")
    (folder / name).chmod(0o600)
    settings = ProviderSettings(secrets_file=name)
    store = ConnectionStore(folder.parent / f"{folder.name}-user" / FILE)
    return ClaudeModels(settings, folder, store, environment or {})


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
    unnamed = ClaudeModels(ProviderSettings(), tmp_path, store, {})
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


# -- through the real CLI


def _environments() -> list[dict[str, str]]:
    """The environments of Claude's processes that this one has started."""
    children = psutil.Process().children(recursive=True)
    found = [child.environ() for child in children if child.exe() == str(CLI.resolve())]
    assert found
    return found


async def asked(provider: Provider, model: ScriptedModel, folder: Path) -> MessagesRequest:
    """What reaches the model's server when Claude's process is started for a provider."""
    environment = {
        **dict.fromkeys(os.environ, ""),
        **inherited(os.environ),
        **provider.environment,
        "CLAUDE_CONFIG_DIR": str(folder / "config"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "0",
    }
    options = ClaudeAgentOptions(
        model=provider.model,
        tools=[],
        setting_sources=[],
        strict_mcp_config=True,
        thinking=None if provider.thinking else {"type": "disabled"},
        cli_path=CLI,
        cwd=folder,
        env=environment,
    )
    transport = started_by_launcher(options)
    assert transport is not None
    async with asyncio.timeout(DEADLINE), ClaudeSDKClient(options, transport=transport) as client:
        if environment.keys() & DESCRIPTORS.keys():
            assert CANARY not in json.dumps(_environments())
        await client.query("Hello")
        *_, result = [each async for each in client.receive_response()]
    assert isinstance(result, ResultMessage)
    assert (result.is_error, result.result) == (False, "Here.")
    return model.requests[0]


@pytest.mark.proves("threat:secrets")
@pytest.mark.parametrize(
    ("variable", "header", "value"),
    [
        ("ANTHROPIC_API_KEY", "X-Api-Key", CANARY),
        ("ANTHROPIC_AUTH_TOKEN", "Authorization", f"Bearer {CANARY}"),
        ("CLAUDE_CODE_OAUTH_TOKEN", "Authorization", f"Bearer {CANARY}"),
    ],
)
async def test_a_key_of_the_file_reaches_the_model_s_server_as_its_key_and_not_the_model(
    tmp_path: Path, variable: str, header: str, value: str
) -> None:
    model = ScriptedModel(Answer.of("Here."), key=None)
    async with model.running():
        settings = ProviderSettings(model="claude-sonnet-5")
        provider = choose(settings, {}, {variable: CANARY})
        # Anthropic's own address is not asked here.
        to_model = {**provider.environment, "ANTHROPIC_BASE_URL": model.url}
        provider = replace(provider, environment=to_model | beside_proxies(os.environ))
        request = await asked(provider, model, tmp_path)
    assert request.headers[header] == value
    assert CANARY not in json.dumps(request.body)
