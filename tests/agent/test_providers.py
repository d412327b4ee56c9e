"""Which provider is chosen from what is configured, and what Claude's process gets for it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import claude_agent_sdk
import pytest
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage

from tk_ai_extension.agent.providers import Provider, ProviderSettings, choose
from tk_ai_extension.testing.scripted_model import Answer, MessagesRequest, ScriptedModel

CANARY = "sk-ant-canary-0123456789"
CLI = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
DEADLINE = 40.0
NOWHERE = Path("nowhere")


def chosen(environment: dict[str, str] | None = None, **settings: Any) -> Provider:
    return choose(ProviderSettings(**settings), environment or {}, NOWHERE)


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


@pytest.mark.parametrize(
    ("provider", "environment", "missing"),
    [
        ("anthropic", {}, ("ANTHROPIC_API_KEY",)),
        ("anthropic", {"ANTHROPIC_AUTH_TOKEN": "t"}, ()),
        ("oauth", {"ANTHROPIC_API_KEY": "k"}, ("CLAUDE_CODE_OAUTH_TOKEN",)),
        ("compatible", {}, ("ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL")),
        ("compatible", {"ANTHROPIC_BASE_URL": "http://x"}, ("ANTHROPIC_MODEL",)),
        ("compatible", {"ANTHROPIC_BASE_URL": "http://x", "ANTHROPIC_MODEL": "m"}, ()),
        ("bedrock", {}, ("AWS_REGION",)),
        ("bedrock", {"AWS_DEFAULT_REGION": "eu-west-1"}, ()),
        ("vertex", {}, ("CLOUD_ML_REGION", "ANTHROPIC_VERTEX_PROJECT_ID")),
        ("vertex", {"CLOUD_ML_REGION": "global", "GOOGLE_CLOUD_PROJECT": "p"}, ()),
        ("tour", {}, ()),
    ],
)
def test_a_provider_that_was_chosen_says_what_it_is_missing(
    provider: str, environment: dict[str, str], missing: tuple[str, ...]
) -> None:
    found = chosen(environment, provider=provider)
    assert (found.name, found.missing, found.ready) == (provider, missing, not missing)
    assert all(name in found.hint for name in missing)


def test_clouds_are_told_by_the_names_that_the_cli_reads() -> None:
    bedrock = chosen({"AWS_DEFAULT_REGION": "eu-west-1"}, provider="bedrock")
    assert bedrock.environment == {"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_REGION": "eu-west-1"}
    vertex = chosen({"CLOUD_ML_REGION": "global", "GCLOUD_PROJECT": "p"}, provider="vertex")
    assert vertex.environment == {
        "CLAUDE_CODE_USE_VERTEX": "1",
        "ANTHROPIC_VERTEX_PROJECT_ID": "p",
    }


def test_what_would_send_the_cli_elsewhere_is_emptied() -> None:
    environment = {
        "ANTHROPIC_API_KEY": "key",
        "ANTHROPIC_BASE_URL": "http://elsewhere",
        "CLAUDE_CODE_OAUTH_TOKEN": "token",
        "CLAUDE_CODE_USE_VERTEX": "1",
    }
    tour = chosen(environment, provider="tour").environment
    assert {name: tour[name] for name in environment} == dict.fromkeys(environment, "")
    oauth = chosen(environment, provider="oauth").environment
    assert oauth == {
        "ANTHROPIC_API_KEY": "",
        "ANTHROPIC_BASE_URL": "http://elsewhere",
        "CLAUDE_CODE_USE_VERTEX": "",
    }


def test_a_chat_may_name_the_models_that_are_offered() -> None:
    key = {"ANTHROPIC_API_KEY": "k"}
    assert chosen(key).models == ("sonnet", "opus", "haiku")
    assert chosen(key, model="opus").models == ("opus", "sonnet", "haiku")
    assert chosen({**key, "ANTHROPIC_MODEL": "m"}, models=("a",)).models == ("m", "a")
    assert chosen().models == ("tk-tour",)
    assert chosen(base_url="http://localhost:1").models == ()


def test_the_server_s_environment_holds_where_the_file_names_it_too(tmp_path: Path) -> None:
    (tmp_path / ".secrets.env").write_text("ANTHROPIC_API_KEY=file\n", encoding="utf-8")
    from_file = choose(ProviderSettings(), {}, tmp_path)
    assert from_file.environment["ANTHROPIC_API_KEY"] == "file"
    both = choose(ProviderSettings(), {"ANTHROPIC_API_KEY": "server"}, tmp_path)
    assert both.environment["ANTHROPIC_API_KEY"] == "server"


def test_a_file_of_secrets_is_found_where_the_setting_says(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("ANTHROPIC_API_KEY=k\n", encoding="utf-8")
    assert choose(ProviderSettings(secrets_file="keys"), {}, tmp_path).name == "anthropic"
    elsewhere = ProviderSettings(secrets_file=str(tmp_path / "keys"))
    assert choose(elsewhere, {}, NOWHERE).name == "anthropic"
    assert choose(ProviderSettings(secrets_file=""), {}, tmp_path).name == "tour"


def test_what_is_nothing_to_claude_stays_in_the_file(tmp_path: Path) -> None:
    (tmp_path / ".secrets.env").write_text("ANTHROPIC_API_KEY=k\nDB_PASSWORD=p\nPATH=x\n")
    found = choose(ProviderSettings(), {}, tmp_path)
    assert found.environment == {"ANTHROPIC_API_KEY": "k"}
    assert found.ignored == ("DB_PASSWORD", "PATH")


def test_a_file_that_cannot_be_read_is_said_and_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / ".secrets.env").write_text(f"ANTHROPIC_API_KEY = {CANARY}\n")
    found = choose(ProviderSettings(), {}, tmp_path)
    assert not found.ready
    assert "Line 1 of .secrets.env" in found.hint


@pytest.mark.parametrize(
    "url", ["localhost:11434", "http://", "http://[", "file:///etc", "http://localhost:4000/v1/"]
)
def test_what_is_no_address_is_said(url: str) -> None:
    found = chosen({"ANTHROPIC_MODEL": "m"}, base_url=url)
    assert not found.ready
    assert "ANTHROPIC_BASE_URL" in found.hint


def test_nothing_but_the_environment_shows_a_secret(tmp_path: Path) -> None:
    (tmp_path / ".secrets.env").write_text(f"ANTHROPIC_AUTH_TOKEN='{CANARY}'\nMINE={CANARY}\n")
    settings = ProviderSettings(base_url=f"http://me:{CANARY}@example.org:4000/{CANARY}?k={CANARY}")
    found = choose(settings, {"ANTHROPIC_CUSTOM_HEADERS": f"X: {CANARY}"}, tmp_path)
    assert found.environment["ANTHROPIC_AUTH_TOKEN"] == CANARY
    assert CANARY not in repr(found)
    assert CANARY not in json.dumps(found.health())
    assert found.health()["address"] == "example.org:4000"
    assert found.redact(f"refused: {CANARY}!") == "refused: [secret]!"


def test_a_server_of_this_machine_is_asked_past_the_proxy() -> None:
    proxied = {"HTTPS_PROXY": "http://proxy:1", "NO_PROXY": "intern"}
    local = chosen(proxied, base_url="http://localhost:11434", model="qwen")
    assert local.environment["NO_PROXY"] == "intern,127.0.0.1,localhost,::1"
    assert "NO_PROXY" not in chosen(proxied, base_url="http://far", model="qwen").environment


# -- through the real CLI


async def asked(provider: Provider, model: ScriptedModel, folder: Path) -> MessagesRequest:
    """What reaches the model's server when Claude's process is started for a provider."""
    options = ClaudeAgentOptions(
        model=provider.model,
        tools=[],
        setting_sources=[],
        strict_mcp_config=True,
        thinking=None if provider.thinking else {"type": "disabled"},
        cli_path=CLI,
        cwd=folder,
        env={
            **provider.environment,
            "CLAUDE_CONFIG_DIR": str(folder / "config"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "0",
        },
    )
    async with asyncio.timeout(DEADLINE), ClaudeSDKClient(options) as client:
        await client.query("Hello")
        *_, result = [each async for each in client.receive_response()]
    assert isinstance(result, ResultMessage)
    assert (result.is_error, result.result) == (False, "Here.")
    return model.requests[0]


async def test_a_small_local_server_gets_what_it_knows_and_needs_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = {"CLAUDE_CODE_USE_BEDROCK": "1", "HTTP_PROXY": "http://127.0.0.1:9"}
    for name, value in server.items():
        monkeypatch.setenv(name, value)
    model = ScriptedModel(Answer.of("Here."), key=None)
    async with model.running():
        settings = ProviderSettings(provider="compatible", base_url=model.url, model="qwen3:8b")
        request = await asked(choose(settings, server, tmp_path), model, tmp_path)
    assert request.model == "qwen3:8b"
    assert request.headers["Authorization"] == "Bearer none"
    assert "thinking" not in request.body or request.body["thinking"]["type"] == "disabled"
    assert "billing" not in request.system


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
        (tmp_path / ".secrets.env").write_text(f"export {variable}='{CANARY}'\n")
        settings = ProviderSettings(base_url=model.url, model="claude-sonnet-5")
        if variable == "CLAUDE_CODE_OAUTH_TOKEN":
            settings = ProviderSettings(base_url=model.url, provider="oauth")
        request = await asked(choose(settings, {}, tmp_path), model, tmp_path)
    assert request.headers[header] == value
    assert CANARY not in json.dumps(request.body)
