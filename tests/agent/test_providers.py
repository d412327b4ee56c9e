"""Which provider is chosen from what is configured, and what Claude's process gets for it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import claude_agent_sdk
import psutil
import pytest
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage

from tests.support.scripted_model import Answer, MessagesRequest, ScriptedModel
from tk_ai_extension.agent.claude.models import ClaudeModels
from tk_ai_extension.agent.claude.process import DESCRIPTORS, started_by_launcher
from tk_ai_extension.agent.claude.providers import Provider, ProviderSettings, choose
from tk_ai_extension.agent.claude.sources import Given
from tk_ai_extension.agent.claude.trusted_folders import TrustedFolders
from tk_ai_extension.agent.environment import inherited
from tk_ai_extension.model.agent_errors import NoModel

CANARY = "sk-ant-canary-0123456789"
CLI = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
DEADLINE = 40.0


def chosen(environment: dict[str, str] | None = None, **settings: Any) -> Provider:
    return choose(ProviderSettings(**settings), Given(environment=environment or {}))


def in_project(
    folder: Path, text: str, name: str = ".secrets.env", **settings: Any
) -> ClaudeModels:
    """What is provided where a trusted folder has such a file, and nobody else says anything."""
    (folder / name).write_text(text, encoding="utf-8")
    (folder / name).chmod(0o600)
    return models(folder, ProviderSettings(trust_folder=True, **settings))


def models(
    root: Path,
    settings: ProviderSettings,
    environment: Mapping[str, str] | None = None,
    **more: Any,
) -> ClaudeModels:
    """A models whose user has said nothing elsewhere."""
    of_user = root.parent / f"{root.name}-user"
    trusted = TrustedFolders(of_user / "trusted.json")
    given: dict[str, Any] = {"trusted": trusted, "user_file": of_user / "secrets.env", **more}
    return ClaudeModels(settings, lambda: environment or {}, root, **given)


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


def test_clouds_are_configured_by_the_names_that_the_cli_reads() -> None:
    bedrock = chosen({"AWS_DEFAULT_REGION": "eu-west-1"}, provider="bedrock")
    assert bedrock.environment == {
        "AWS_DEFAULT_REGION": "eu-west-1",
        "CLAUDE_CODE_USE_BEDROCK": "1",
        "AWS_REGION": "eu-west-1",
    }
    vertex = chosen({"CLOUD_ML_REGION": "global", "GCLOUD_PROJECT": "p"}, provider="vertex")
    assert vertex.environment == {
        "CLOUD_ML_REGION": "global",
        "GCLOUD_PROJECT": "p",
        "CLAUDE_CODE_USE_VERTEX": "1",
        "ANTHROPIC_VERTEX_PROJECT_ID": "p",
    }


def test_variables_of_other_providers_are_left_out() -> None:
    environment = {
        "ANTHROPIC_API_KEY": "key",
        "ANTHROPIC_BASE_URL": "http://elsewhere",
        "CLAUDE_CODE_OAUTH_TOKEN": "token",
        "CLAUDE_CODE_USE_VERTEX": "1",
    }
    assert not environment.keys() & chosen(environment, provider="tour").environment.keys()
    assert chosen(environment, provider="oauth").environment == {
        "ANTHROPIC_BASE_URL": "http://elsewhere",
        "CLAUDE_CODE_OAUTH_TOKEN": "token",
    }


@pytest.mark.parametrize("key", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"])
def test_an_address_and_a_key_are_enough(key: str) -> None:
    found = chosen({"ANTHROPIC_BASE_URL": "https://gateway.example.org", key: "k"})
    assert (found.name, found.ready, found.model) == ("compatible", True, "sonnet")
    assert found.models == ("sonnet", "opus", "haiku")
    assert found.thinking, "Claude is no small model"
    assert found.environment == {"ANTHROPIC_BASE_URL": "https://gateway.example.org", key: "k"}


def test_a_chat_may_name_the_models_that_are_offered() -> None:
    key = {"ANTHROPIC_API_KEY": "k"}
    assert chosen(key).models == ("sonnet", "opus", "haiku")
    assert chosen(key, model="opus").models == ("opus", "sonnet", "haiku")
    assert chosen({**key, "ANTHROPIC_MODEL": "m"}, models=("a",)).models == ("m", "a")
    assert chosen().models == ("tk-tour",)
    assert chosen(base_url="http://localhost:1").models == ()


async def test_the_server_s_environment_holds_where_the_file_names_it_too(tmp_path: Path) -> None:
    text = "ANTHROPIC_API_KEY=file\n"
    from_file = await in_project(tmp_path, text).provider()
    assert from_file.environment["ANTHROPIC_API_KEY"] == "file"
    assert from_file.source == "project"
    server = {"ANTHROPIC_API_KEY": "server"}
    both = await models(tmp_path, ProviderSettings(trust_folder=True), server).provider()
    assert both.environment["ANTHROPIC_API_KEY"] == "server"
    assert both.source == "environment"


async def test_a_file_of_keys_is_found_where_the_setting_says(tmp_path: Path) -> None:
    key = "ANTHROPIC_API_KEY=k\n"
    assert (
        await in_project(tmp_path, key, "keys", secrets_file="keys").provider()
    ).name == "anthropic"
    # An administrator has named it: nobody is asked whether it may be used.
    elsewhere = ProviderSettings(secrets_file=str(tmp_path / "keys"))
    root = tmp_path / "root"
    assert (await models(root, elsewhere).provider()).name == "anthropic"
    none = await in_project(tmp_path, key, secrets_file="").provider()
    assert none.name == "tour"


async def test_nothing_but_keys_is_taken_from_a_project(tmp_path: Path) -> None:
    found = await in_project(
        tmp_path,
        "ANTHROPIC_API_KEY=k\nANTHROPIC_BASE_URL=http://evil\nANTHROPIC_MODEL=m\nPATH=x\n"
        "HTTPS_PROXY=http://evil\nNODE_OPTIONS=--require=evil\nCLAUDE_CODE_USE_BEDROCK=1\n"
        "AWS_CONFIG_FILE=aws.cfg\nAWS_PROFILE=evil\nANTHROPIC_CUSTOM_HEADERS=X:1\n",
    ).provider()
    assert found.environment == {"ANTHROPIC_API_KEY": "k"}
    assert (found.name, found.model) == ("anthropic", "sonnet")
    assert len(found.ignored) == 9


async def test_a_file_that_cannot_be_read_is_reported_and_not_passed_over(tmp_path: Path) -> None:
    found = await in_project(tmp_path, f"ANTHROPIC_API_KEY = {CANARY}\n").provider()
    assert not found.ready
    assert f"{tmp_path / '.secrets.env'} cannot be used: line 1 is not" in found.hint
    with pytest.raises(
        NoModel, match=r"cannot be used: line 1 is not .* needs single quotes"
    ) as said:
        found.require_ready()
    assert str(tmp_path / ".secrets.env") in said.value.message
    assert "tour" not in said.value.message


@pytest.mark.proves("connect:address")
async def test_a_project_s_key_waits_until_its_folder_is_trusted(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    file = root / ".secrets.env"
    file.write_text("ANTHROPIC_API_KEY=k\n", encoding="utf-8")
    file.chmod(0o600)
    asked = models(root, ProviderSettings())
    found = await asked.provider()
    assert (found.ready, found.untrusted, found.source) == (False, str(root), None)
    assert found.environment == {}
    assert (await asked.trust())["source"] == "project"
    assert (await asked.provider()).environment == {"ANTHROPIC_API_KEY": "k"}
    # Another folder that takes its place is not the one that was trusted.
    root.rename(tmp_path / "moved")
    root.mkdir()
    file.write_text("ANTHROPIC_API_KEY=other\n", encoding="utf-8")
    file.chmod(0o600)
    assert (await asked.provider()).untrusted == str(root)
    await asked.trust()
    assert (await asked.trust(trusted=False))["untrusted"] == str(root)
    # Where somebody who is trusted has named a key, nobody is asked.
    named = models(root, ProviderSettings(), {"ANTHROPIC_API_KEY": "mine"})
    assert (await named.provider()).environment == {"ANTHROPIC_API_KEY": "mine"}


@pytest.mark.proves("connect:address")
async def test_a_project_s_key_is_not_used_where_its_kernels_have_a_sandbox(tmp_path: Path) -> None:
    text = "ANTHROPIC_API_KEY=k\n"
    (tmp_path / ".nb").mkdir()
    below = tmp_path / "below"
    below.mkdir()
    for settings, source in (('{"sandbox": true}', None), ('{"sandbox": false}', "project")):
        (tmp_path / ".nb" / "project.json").write_text(settings, encoding="utf-8")
        for folder in (tmp_path, below):
            assert (await in_project(folder, text).provider()).source == source
    (tmp_path / ".nb" / "project.json").write_text("no JSON", encoding="utf-8")
    asked = in_project(tmp_path, text)
    with pytest.raises(NoModel, match="sandbox"):
        await asked.trust()
    # Nor is the user's own file, where code in the sandbox writes it.
    inside = tmp_path / "conf" / "secrets.env"
    inside.parent.mkdir()
    inside.write_text(text, encoding="utf-8")
    inside.chmod(0o600)
    planted = models(tmp_path, ProviderSettings(), user_file=inside)
    assert (await planted.provider()).name == "tour"


@pytest.mark.proves("connect:address")
async def test_a_file_that_others_write_or_that_is_a_link_is_not_used(tmp_path: Path) -> None:
    text = "ANTHROPIC_API_KEY=k\n"
    asked = in_project(tmp_path, text)
    file = tmp_path / ".secrets.env"
    for mode in (0o620, 0o602):
        file.chmod(mode)
        assert "others can write it" in (await asked.provider()).hint
    file.rename(tmp_path / "there")
    file.symlink_to(tmp_path / "there")
    assert "symbolic link" in (await asked.provider()).hint
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    elsewhere.mkdir()
    (tmp_path / "link").symlink_to(elsewhere)
    found = await in_project(tmp_path, text, "link/keys", secrets_file="link/keys").provider()
    assert "reached by a symbolic link" in found.hint
    file.unlink()
    os.mkfifo(file)
    assert "it is not a regular file" in (await asked.provider()).hint


async def test_a_user_s_own_file_may_hold_addresses_and_is_read_by_nobody_else(
    tmp_path: Path,
) -> None:
    of_user = tmp_path / "secrets.env"
    of_user.write_text(
        "ANTHROPIC_BASE_URL=https://gateway.example.org\nANTHROPIC_AUTH_TOKEN=t\n", encoding="utf-8"
    )
    root = tmp_path / "root"
    asked = models(root, ProviderSettings(), user_file=of_user)
    of_user.chmod(0o640)
    assert "others can read it" in (await asked.provider()).hint
    of_user.chmod(0o600)
    found = await asked.provider()
    assert (found.name, found.source, found.ready) == ("compatible", "user", True)
    # The environment's key does not go to that address.
    asked = models(root, ProviderSettings(), {"ANTHROPIC_API_KEY": "k"}, user_file=of_user)
    assert (await asked.provider()).environment == {"ANTHROPIC_API_KEY": "k"}


@pytest.mark.parametrize(
    "url", ["localhost:11434", "http://", "http://[", "file:///etc", "http://localhost:4000/v1/"]
)
def test_an_invalid_address_is_reported(url: str) -> None:
    found = chosen({"ANTHROPIC_MODEL": "m"}, base_url=url)
    assert not found.ready
    assert "ANTHROPIC_BASE_URL" in found.hint


def test_nothing_but_the_environment_shows_a_secret() -> None:
    settings = ProviderSettings(base_url=f"http://me:{CANARY}@example.org:4000/{CANARY}?k={CANARY}")
    environment = {"ANTHROPIC_AUTH_TOKEN": CANARY, "ANTHROPIC_CUSTOM_HEADERS": f"X: {CANARY}"}
    found = choose(settings, Given(environment=environment, project={"MINE": CANARY}))
    assert found.environment["ANTHROPIC_AUTH_TOKEN"] == CANARY
    assert CANARY not in repr(found)
    assert CANARY not in json.dumps(found.health())
    assert found.health()["address"] == "example.org:4000"
    assert found.redact(f"refused: {CANARY}!") == "refused: [secret]!"


def test_a_server_of_this_machine_is_asked_past_the_proxy() -> None:
    proxied = {"HTTPS_PROXY": "http://proxy:1", "NO_PROXY": "intern"}
    local = chosen(proxied, base_url="http://localhost:11434", model="qwen")
    assert local.environment["NO_PROXY"] == "intern,127.0.0.1,localhost,::1"
    far = chosen(proxied, base_url="http://far", model="qwen")
    assert far.environment["NO_PROXY"] == "intern"


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
    )
    transport = started_by_launcher(options, folder, environment)
    assert transport is not None
    async with asyncio.timeout(DEADLINE), ClaudeSDKClient(options, transport=transport) as client:
        if environment.keys() & DESCRIPTORS.keys():
            assert CANARY not in json.dumps(_environments())
        await client.query("Hello")
        *_, result = [each async for each in client.receive_response()]
    assert isinstance(result, ResultMessage)
    assert (result.is_error, result.result) == (False, "Here.")
    return model.requests[0]


@pytest.mark.skipif(os.name == "nt", reason="there is no launcher")
def test_chats_that_begin_at_once_have_one_launcher_that_can_be_started(tmp_path: Path) -> None:
    def begun(folder: Path) -> bool:
        options = ClaudeAgentOptions(cli_path=sys.executable, cwd=folder)
        assert started_by_launcher(options, folder, {}) is not None
        return os.access(str(options.cli_path), os.X_OK)

    for number in range(20):
        folder = tmp_path / str(number)
        folder.mkdir()
        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(begun, [folder] * 8))
        assert [path.name for path in folder.iterdir()] == ["launch"]


async def test_a_small_local_server_gets_what_it_knows_and_needs_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = {"CLAUDE_CODE_USE_BEDROCK": "1", "HTTP_PROXY": "http://127.0.0.1:9"}
    for name, value in server.items():
        monkeypatch.setenv(name, value)
    model = ScriptedModel(Answer.of("Here."), key=None)
    async with model.running():
        settings = ProviderSettings(provider="compatible", base_url=model.url, model="qwen3:8b")
        request = await asked(choose(settings, Given(environment=server)), model, tmp_path)
    assert request.model == "qwen3:8b"
    assert request.headers["Authorization"] == "Bearer none"
    assert "thinking" not in request.body or request.body["thinking"]["type"] == "disabled"
    assert "billing" not in request.system


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
        settings = ProviderSettings(base_url=model.url, model="claude-sonnet-5")
        if variable == "CLAUDE_CODE_OAUTH_TOKEN":
            settings = ProviderSettings(base_url=model.url, provider="oauth")
        provider = choose(settings, Given(project={variable: CANARY}))
        request = await asked(provider, model, tmp_path)
    assert request.headers[header] == value
    assert CANARY not in json.dumps(request.body)
