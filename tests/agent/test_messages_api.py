"""The clients of a provider's Messages API, as variables of Claude's process describe them."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from tk_ai_extension.agent.claude.connection_check import Attempt, check
from tk_ai_extension.agent.claude.direct import DirectModels
from tk_ai_extension.agent.claude.messages_api import Endpoint, error_of, json_of, proxy_of
from tk_ai_extension.agent.claude.providers import Provider, ProviderSettings, choose
from tk_ai_extension.agent.claude.sources import Given
from tk_ai_extension.model.agent_errors import ModelFailed
from tk_ai_extension.model.sentences import Sentence

KEY = "sk-ant-canary-0123456789"


@pytest.mark.parametrize(
    ("url", "values", "proxy"),
    [
        ("https://api.example", {}, None),
        ("https://api.example", {"HTTPS_PROXY": "http://proxy:1"}, "http://proxy:1"),
        ("http://api.example", {"HTTPS_PROXY": "http://proxy:1"}, None),
        ("https://api.example", {"all_proxy": "http://proxy:2"}, "http://proxy:2"),
        ("https://api.example", {"HTTPS_PROXY": "http://proxy:1", "NO_PROXY": ".example"}, None),
        ("https://api.example", {"https_proxy": "http://proxy:1", "no_proxy": "*"}, None),
        ("https://api.example", {"https_proxy": "http://p:1", "no_proxy": "other"}, "http://p:1"),
        (
            "http://evilcorp.example",
            {"ALL_PROXY": "http://p:1", "NO_PROXY": "corp.example"},
            "http://p:1",
        ),
        ("http://localhost:11434", {"ALL_PROXY": "http://proxy:1"}, None),
        ("http://127.0.0.9", {"http_proxy": "http://proxy:1"}, None),
        ("http://[::1]:80", {"http_proxy": "http://proxy:1"}, None),
    ],
)
def test_the_proxy_is_that_of_the_variables(
    url: str, values: dict[str, str], proxy: str | None
) -> None:
    assert proxy_of(url, values) == proxy


@pytest.mark.parametrize(
    ("values", "sent"),
    [
        ({"ANTHROPIC_API_KEY": KEY}, {"x-api-key": KEY}),
        ({"ANTHROPIC_AUTH_TOKEN": KEY}, {"authorization": f"Bearer {KEY}"}),
        (
            {"CLAUDE_CODE_OAUTH_TOKEN": KEY},
            {"authorization": f"Bearer {KEY}", "anthropic-beta": "oauth-2025-04-20"},
        ),
        ({"ANTHROPIC_CUSTOM_HEADERS": "X-Team: a\nnone"}, {"X-Team": "a"}),
    ],
)
def test_a_secret_is_sent_as_its_variable_says(
    values: dict[str, str], sent: dict[str, str]
) -> None:
    endpoint = Endpoint.of(values)
    always = {"anthropic-version": "2023-06-01", "accept": "application/json"}
    assert dict(endpoint.headers) == {**always, **sent}
    assert KEY not in repr(endpoint)


def ask_directly(values: dict[str, str]) -> None:
    """Open the client of completions."""
    Endpoint.of(values).open_async(1)


def ask_as_test(values: dict[str, str]) -> None:
    """Test a connection."""
    check(Attempt(values["ANTHROPIC_BASE_URL"], KEY, ("ANTHROPIC_API_KEY",), network=values))


@pytest.mark.proves("code:errors", "connect:errors")
@pytest.mark.parametrize("ask", [ask_directly, ask_as_test])
@pytest.mark.parametrize("content", [None, "no certificate"])
def test_certificates_that_cannot_be_read_are_named(
    tmp_path: Path, ask: Callable[[dict[str, str]], None], content: str | None
) -> None:
    file = tmp_path / "corp.pem"
    if content is not None:
        file.write_text(content)
    values = {"ANTHROPIC_BASE_URL": "https://127.0.0.1:9", "SSL_CERT_FILE": str(file)}
    with pytest.raises(ModelFailed, match=r"corp\.pem") as raised:
        ask(values)
    assert isinstance(raised.value.message, Sentence)


@pytest.mark.proves("code:errors", "connect:errors")
@pytest.mark.parametrize("ask", [ask_directly, ask_as_test])
@pytest.mark.parametrize("proxy", ["nonsense://user:hidden@proxy", "proxy:port:1"])
def test_a_proxy_that_cannot_be_used_is_an_error_without_its_address(
    ask: Callable[[dict[str, str]], None], proxy: str
) -> None:
    values = {"ANTHROPIC_BASE_URL": "http://api.example", "HTTP_PROXY": proxy}
    with pytest.raises(ModelFailed, match="proxy") as raised:
        ask(values)
    assert "hidden" not in raised.value.as_text()


async def test_a_model_for_code_says_so_as_well(tmp_path: Path) -> None:
    given = {"ANTHROPIC_API_KEY": KEY, "SSL_CERT_FILE": str(tmp_path / "none.pem")}

    async def provider() -> Provider:
        return choose(ProviderSettings(), Given(environment=given))

    with pytest.raises(ModelFailed, match=r"none\.pem"):
        await DirectModels(provider).find(fast=True)


def test_an_extra_file_that_cannot_be_read_is_ignored_as_node_does(tmp_path: Path) -> None:
    extra = {"NODE_EXTRA_CA_CERTS": str(tmp_path / "none.pem")}
    Endpoint.of(extra).open(1).close()


def test_certificates_are_trusted_in_addition_to_the_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[tuple[object, ...]] = []
    monkeypatch.setattr(
        ssl.SSLContext, "load_verify_locations", lambda _self, *paths: loaded.append(paths)
    )
    file, folder, extra = (str(tmp_path / name) for name in ("a.pem", "certs", "b.pem"))
    names = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS")
    Endpoint.of(dict(zip(names, (file, folder, extra), strict=True))).open(1).close()
    assert loaded[-2:] == [(file, folder), (extra,)]


@pytest.mark.parametrize(
    ("content", "found", "error"),
    [
        (b'{"error": {"type": "a", "message": "b"}}', True, ("a", "b")),
        (b'{"error": "b"}', True, ("", "b")),
        (b'{"error": {"type": null}}', True, ("", "")),
        (b"{}", True, ("", "")),
        (b"[1]", False, ("", "")),
        (b"<h1>", False, ("", "")),
        (b"[" * 100_000, False, ("", "")),
    ],
)
def test_any_answer_is_read(content: bytes, found: bool, error: tuple[str, str]) -> None:
    assert (json_of(content) is not None) == found
    assert error_of(json_of(content)) == error
