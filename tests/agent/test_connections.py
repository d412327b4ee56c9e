"""Connecting a model: where a key is sent, what each failure says, and which source is used."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from tests.support.scripted_model import (
    BROKEN,
    KEY,
    MODEL,
    OVERLOADED,
    Answer,
    Failure,
    ScriptedModel,
    rate_limited,
)
from tk_ai_extension.agent.chat_requests import ConnectRequest
from tk_ai_extension.agent.claude import user_connection
from tk_ai_extension.agent.claude.providers import (
    ADDRESS,
    ANTHROPIC,
    KEYS,
    ProviderSettings,
    StoredConnection,
    choose,
)
from tk_ai_extension.agent.claude.user_connection import FILE, ConnectionStore, ProviderSelector
from tk_ai_extension.model.agent_errors import ModelFailed, NoModel
from tk_ai_extension.model.errors import InvalidArguments, PermissionDenied, ToolError

CANARY = "sk-ant-canary-0123456789"


def models(
    folder: Path,
    environment: Mapping[str, str] | None = None,
    settings: ProviderSettings | None = None,
) -> ProviderSelector:
    """The models of a user with a separate configuration folder."""
    of_user = folder / "config"
    root = folder / "root"
    root.mkdir(exist_ok=True)
    return ProviderSelector(
        settings or ProviderSettings(),
        root,
        ConnectionStore(of_user / FILE),
        environment or {},
    )


def compatible(url: str, secret: str | None = KEY, model: str = "") -> ConnectRequest:
    return ConnectRequest(provider="compatible", secret=secret, base_url=url, model=model)


@dataclass
class Web:
    """A web server that is no model, and its requests."""

    status: int = 200
    body: str = "<h1>Welcome</h1>"
    location: str = ""
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[str]:
        """Its address."""
        web = self

        class Page(RequestHandler):
            def _answer(self) -> None:
                web.asked.append((self.request.path, dict(self.request.headers.items())))
                self.set_status(web.status)
                if web.location:
                    self.set_header("Location", web.location)
                self.finish(web.body)

            get = post = _answer

        sockets = bind_sockets(0, "127.0.0.1")
        server = HTTPServer(Application([(".*", Page)]))
        server.add_sockets(sockets)
        try:
            yield f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
        finally:
            server.stop()
            await server.close_all_connections()


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel().running() as model:
        yield model


@pytest.mark.proves("connect:form")
async def test_a_connection_is_tested_stored_and_used(tmp_path: Path, model: ScriptedModel) -> None:
    model.add(Answer.of("Ready."))
    mine = models(tmp_path)
    assert (await mine.connection())["stored"] is None
    found = await mine.connect(compatible(f"{model.url}/v1/"))
    assert found["stored"] == {
        "provider": "compatible",
        "base_url": model.url,
        "model": MODEL,
        "ending": None,
        "in_force": True,
    }
    used = found["models"]
    assert (used["provider"], used["ready"], used["source"]) == ("compatible", True, "stored")
    assert (used["model"], used["models"][0]) == (MODEL, MODEL)
    # One message of one token, by the model that the provider listed.
    (request,) = model.requests
    assert (request.body["max_tokens"], request.body["model"]) == (1, MODEL)
    provider = await mine.provider()
    assert provider.environment["ANTHROPIC_API_KEY"] == KEY
    assert KEY not in repr(provider) + json.dumps(found)
    assert provider.redact(f"<{KEY}>") == "<[secret]>"
    gone = await mine.disconnect()
    assert (gone["stored"], gone["models"]["provider"]) == (None, "tour")


FAILURES: dict[str, tuple[Failure, type[ToolError]]] = {
    "no credit": (
        Failure(400, "invalid_request_error", "Your credit balance is too low."),
        ModelFailed,
    ),
    "billing": (Failure(402, "billing_error", "No payment method."), ModelFailed),
    "forbidden": (Failure(403, "permission_error", "No."), InvalidArguments),
    "model": (Failure(404, "not_found_error", "model: x"), NoModel),
    "busy": (OVERLOADED, ModelFailed),
    "limit": (rate_limited(), ModelFailed),
    "broken": (BROKEN, ModelFailed),
    "refused": (Failure(400, "invalid_request_error", "No."), ModelFailed),
}


@pytest.mark.proves("connect:form")
@pytest.mark.parametrize("failure", FAILURES)
async def test_each_failure_says_what_to_do_and_stores_nothing(
    tmp_path: Path, model: ScriptedModel, failure: str
) -> None:
    reply, kind = FAILURES[failure]
    model.add(reply)
    mine = models(tmp_path)
    with pytest.raises(kind) as caught:
        await mine.connect(compatible(model.url))
    error = caught.value
    assert failure == "model" or str(reply.status) in error.message
    assert error.hint
    assert KEY not in json.dumps(error.as_dict())
    assert (await mine.connection())["stored"] is None


@pytest.mark.proves("connect:form")
async def test_a_wrong_key_is_named_and_not_shown(tmp_path: Path, model: ScriptedModel) -> None:
    with pytest.raises(InvalidArguments) as caught:
        await models(tmp_path).connect(compatible(model.url, CANARY))
    assert caught.value.details == {"field": "secret"}
    assert "401" in caught.value.message
    assert CANARY not in json.dumps(caught.value.as_dict())
    assert model.requests == []


@pytest.mark.proves("connect:form")
@pytest.mark.parametrize("status", [200, 404, 405])
async def test_an_address_without_a_messages_api_is_refused(tmp_path: Path, status: int) -> None:
    async with Web(status).running() as url:
        with pytest.raises(ModelFailed) as caught:
            await models(tmp_path).connect(compatible(url, CANARY, "m"))
    assert caught.value.details == {"field": "base_url"}


@pytest.mark.proves("connect:form", "connect:address")
async def test_a_key_follows_no_redirect(tmp_path: Path) -> None:
    elsewhere = Web()
    async with elsewhere.running() as there, Web(307, location=there).running() as url:
        with pytest.raises(ModelFailed):
            await models(tmp_path).connect(compatible(url, CANARY, "m"))
    assert elsewhere.asked == []


@pytest.mark.proves("connect:form")
async def test_a_server_that_does_not_answer_ends_the_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_connection, "TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(ModelFailed, match=r"0\.2 s"):
            await models(tmp_path).connect(compatible(f"http://127.0.0.1:{port}", CANARY))


@pytest.mark.proves("connect:form")
@pytest.mark.parametrize(
    ("new", "wrong"),
    [
        (compatible(""), "base_url"),
        (compatible("gateway.example"), "base_url"),
        (compatible("file:///etc/passwd"), "base_url"),
        (compatible("https://user:password@gateway.example"), "base_url"),
        (compatible("https://gateway.example?key=1"), "base_url"),
        (compatible("https://gateway.example:99999"), "base_url"),
        (compatible("https://api.anthropic.com"), "base_url"),
        (compatible("https://gateway.example", "two words"), "secret"),
        (compatible("https://gateway.example", "line\nbreak"), "secret"),
        (compatible("https://gateway.example", KEY, "a model"), "model"),
        (ConnectRequest(provider="anthropic"), "secret"),
        (ConnectRequest(provider="oauth", secret=""), "secret"),
    ],
)
async def test_the_field_that_is_wrong_is_named(
    tmp_path: Path, new: ConnectRequest, wrong: str
) -> None:
    with pytest.raises(InvalidArguments) as caught:
        await models(tmp_path).connect(new)
    assert caught.value.details == {"field": wrong}
    assert "password" not in json.dumps(caught.value.as_dict())


@pytest.mark.proves("connect:address")
async def test_a_stored_key_is_sent_to_its_own_address_only(
    tmp_path: Path, model: ScriptedModel
) -> None:
    model.add(Answer.of("Ready."), Answer.of("Ready."))
    mine = models(tmp_path)
    await mine.connect(compatible(model.url))
    # The same address: the key stays.
    again = await mine.connect(compatible(model.url, None, "claude-other"))
    assert again["models"]["model"] == "claude-other"
    assert {request.headers["X-Api-Key"] for request in model.requests} == {KEY}
    # Another address: it is forgotten.
    async with ScriptedModel(Answer.of("Ready."), Answer.of("Ready."), key=None).running() as other:
        await mine.connect(compatible(other.url, None, "m"))
        assert "X-Api-Key" not in other.requests[0].headers
        assert "Authorization" not in other.requests[0].headers
        found = await mine.connect(compatible(other.url, CANARY, "m"))
        assert found["stored"] is not None
        assert found["stored"]["ending"] == "6789"
    assert KEY not in (tmp_path / "config" / FILE).read_text("utf-8")
    with pytest.raises(InvalidArguments):
        await mine.connect(ConnectRequest(provider="anthropic"))


STORED = StoredConnection({ADDRESS: ANTHROPIC, KEYS[0]: CANARY})
OTHERS: dict[str, tuple[str, dict[str, str]]] = {
    "settings": ("https://gateway.example", {}),
    "environment": ("", {"ANTHROPIC_API_KEY": "e"}),
    "subscription": ("", {"CLAUDE_CODE_OAUTH_TOKEN": "e"}),
    "address": ("", {ADDRESS: "https://gateway.example"}),
    "cloud": ("", {"CLAUDE_CODE_USE_BEDROCK": "1"}),
}


@pytest.mark.proves("connect:address")
@pytest.mark.parametrize("name", OTHERS)
def test_the_server_s_own_provider_takes_precedence(name: str) -> None:
    url, environment = OTHERS[name]
    found = choose(ProviderSettings(base_url=url), environment, stored=STORED)
    without = choose(ProviderSettings(base_url=url), environment)
    assert (found.name, found.environment) == (without.name, without.environment)
    assert found.source != "stored"
    assert CANARY not in found.environment.values()


@pytest.mark.proves("connect:address")
def test_nothing_of_the_environment_leads_a_stored_key_elsewhere() -> None:
    environment = {
        "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": "https://evil.example",
        "ANTHROPIC_CUSTOM_HEADERS": "X-Key: e",
        "ANTHROPIC_UNIX_SOCKET": "/tmp/s",
        "HTTPS_PROXY": "http://proxy.example",
        "ANTHROPIC_MODEL": "opus",
    }
    found = choose(ProviderSettings(), environment, stored=STORED)
    assert (found.model, found.source) == ("opus", "stored")
    assert found.environment == {
        **STORED.variables,
        "ANTHROPIC_MODEL": "opus",
        "HTTPS_PROXY": "http://proxy.example",
    }


@pytest.mark.proves("connect:address")
async def test_a_test_sends_nothing_of_the_environment(
    tmp_path: Path, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", CANARY)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", CANARY)
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", f"X-Canary: {CANARY}")
    model.add(Answer.of("Ready."))
    await models(tmp_path).connect(compatible(model.url))
    (request,) = model.requests
    assert request.headers["X-Api-Key"] == KEY
    assert CANARY not in json.dumps(dict(request.headers))


@pytest.mark.proves("connect:form")
async def test_an_administrator_can_forbid_it(tmp_path: Path, model: ScriptedModel) -> None:
    model.add(Answer.of("Ready."))
    await models(tmp_path).connect(compatible(model.url))
    forbidden = models(tmp_path, settings=ProviderSettings(connect=False))
    found = await forbidden.connection()
    assert not found["allowed"]
    # What was stored before is not used either, and can be deleted.
    assert found["models"]["provider"] == "tour"
    with pytest.raises(PermissionDenied) as caught:
        await forbidden.connect(compatible("https://gateway.example"))
    assert caught.value.hint == "Ask your administrator to connect a model."
    assert (await forbidden.disconnect())["stored"] is None
