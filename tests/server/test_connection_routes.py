"""The route of the connection: who may write it, and that nothing gives a key back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import httpx2
import pytest
from jupyter_core.paths import jupyter_config_dir
from tornado.httpclient import HTTPResponse
from traitlets.config import Config

from tests.server.conftest import Ask
from tests.servers import StartServer, start_server
from tests.support.scripted_model import KEY, MODEL, Answer, ScriptedModel

__all__ = ["start_server"]

ROUTE = "api/tk-ai/connection"


def body_of(method: str, model: ScriptedModel) -> dict[str, str] | None:
    """The body of a request: a POST connects the model, which answers its test."""
    if method != "POST":
        return None
    model.add(Answer.of("Ready."))
    return {"provider": "compatible", "base_url": model.url, "secret": KEY}


@pytest.fixture
def is_stored(jp_environ: None) -> Callable[[], bool]:
    """Whether the server of the test's process has stored a connection."""
    file = Path(jupyter_config_dir()) / "tk-ai-extension" / "connection.json"
    return file.exists


@pytest.fixture(autouse=True)
def no_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def scripted() -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel().running() as model:
        yield model


def error_of(response: HTTPResponse) -> dict[str, Any]:
    return json.loads(response.body)["error"]


@pytest.mark.proves("connect:form")
async def test_only_the_server_s_own_pages_can_write_it(
    ask: Ask,
    jp_auth_header: dict[str, str],
    is_stored: Callable[[], bool],
    scripted: ScriptedModel,
) -> None:
    login = await ask("GET", "api/me", **jp_auth_header)
    cookies = SimpleCookie("; ".join(login.headers.get_list("Set-Cookie")))
    page = await ask("GET", "login")
    cookies.load("; ".join(page.headers.get_list("Set-Cookie")))
    cookie = "; ".join(f"{name}={morsel.value}" for name, morsel in cookies.items())
    for headers, status in (
        ({}, 401),
        ({"Cookie": cookie}, 403),
        ({"Cookie": cookie, "X_XSRFToken": "another"}, 403),
        ({"Cookie": cookie, "X_XSRFToken": cookies["_xsrf"].value}, 200),
    ):
        for method in ("POST", "DELETE"):
            response = await ask(method, ROUTE, body_of(method, scripted), **headers)
            assert response.code == status, (method, headers.keys())
            assert is_stored() is (status == 200 and method == "POST")


class TestOtherOrigins:
    """Pages that may use the other routes."""

    @pytest.fixture
    def jp_server_config(self, jp_server_config: Config) -> Config:
        jp_server_config.TkAIExtensionApp.allowed_origins = ["https://other.example"]
        return jp_server_config

    @pytest.mark.proves("connect:form")
    async def test_pages_of_allowed_origins_cannot_write_it(
        self,
        ask: Ask,
        jp_auth_header: dict[str, str],
        is_stored: Callable[[], bool],
        scripted: ScriptedModel,
    ) -> None:
        headers = {**jp_auth_header, "Origin": "https://other.example"}
        assert (await ask("GET", "api/tk-ai/models", **headers)).code == 200
        for method in ("POST", "DELETE"):
            response = await ask(method, ROUTE, body_of(method, scripted), **headers)
            assert response.code == 403
            assert "this origin" in error_of(response)["message"]
        assert not is_stored()


@pytest.mark.proves("connect:form")
async def test_another_user_cannot_write_it(
    ask: Ask,
    jp_auth_header: dict[str, str],
    is_stored: Callable[[], bool],
    scripted: ScriptedModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (await ask("POST", ROUTE, body_of("POST", scripted), **jp_auth_header)).code == 200
    monkeypatch.setattr(
        "tk_ai_extension.server.handlers.chat_setup.username", lambda _handler: "guest"
    )
    found = json.loads((await ask("GET", ROUTE, **jp_auth_header)).body)
    assert (found["allowed"], found["stored"]) == (False, None)
    for method in ("POST", "DELETE"):
        response = await ask(method, ROUTE, body_of(method, scripted), **jp_auth_header)
        assert (response.code, error_of(response)["code"]) == (403, "permission_denied")
    assert is_stored()
    # On a JupyterHub the server belongs to the Hub's user.
    monkeypatch.setattr(
        "tk_ai_extension.server.handlers.base_handler.is_shared", lambda _provider: False
    )
    monkeypatch.setenv("JUPYTERHUB_USER", "guest")
    assert (await ask("DELETE", ROUTE, **jp_auth_header)).code == 200
    assert not is_stored()


class TestForbidden:
    """An administrator has switched it off."""

    @pytest.fixture
    def jp_server_config(self, jp_server_config: Config) -> Config:
        jp_server_config.TkAIExtensionApp.chat_connect = False
        return jp_server_config

    @pytest.mark.proves("connect:form")
    async def test_it_says_whom_to_ask(
        self,
        ask: Ask,
        jp_auth_header: dict[str, str],
        is_stored: Callable[[], bool],
        scripted: ScriptedModel,
    ) -> None:
        found = json.loads((await ask("GET", ROUTE, **jp_auth_header)).body)
        assert not found["allowed"]
        response = await ask("POST", ROUTE, body_of("POST", scripted), **jp_auth_header)
        assert (response.code, error_of(response)["code"]) == (403, "permission_denied")
        assert "administrator" in error_of(response)["hint"]
        assert not is_stored()


@pytest.mark.proves("threat:secrets")
@pytest.mark.parametrize(
    "body",
    [
        {"provider": "anthropic", "secret": f"{KEY} {KEY}"},
        {"provider": "anthropic", "secret": KEY * 1_000},
        {"provider": "anthropic", "secret": [KEY]},
        {"provider": KEY, "secret": KEY},
        {"provider": "anthropic", "secret": KEY, "key": KEY},
        {"provider": "compatible", "secret": KEY, "base_url": f"https://{KEY}@gateway.example"},
    ],
)
async def test_an_error_about_what_was_entered_does_not_repeat_it(
    ask: Ask, jp_auth_header: dict[str, str], body: dict[str, Any], caplog: Any
) -> None:
    response = await ask("POST", ROUTE, body, **jp_auth_header)
    assert response.code in (400, 422)
    assert error_of(response)["hint"]
    assert KEY not in response.body.decode()
    assert KEY not in caplog.text


def everything_below(folder: Path, *without: Path) -> str:
    """All that is in the files below a folder."""
    files = [path for path in folder.rglob("*") if path.is_file() and path not in without]
    return "\n".join(path.read_bytes().decode("utf-8", "replace") for path in files)


@pytest.mark.proves("threat:secrets", "connect:form")
async def test_a_key_that_was_entered_is_nowhere_but_in_its_file_and_with_the_model(
    start_server: StartServer, scripted: ScriptedModel
) -> None:
    scripted.add(Answer.of("Ready."), Answer.of("Here."))
    server = await start_server("--debug")
    answers: list[str] = []
    async with httpx2.AsyncClient(
        base_url=f"{server.url}api/tk-ai/", headers=server.headers, timeout=60
    ) as http:
        wrong = {"provider": "compatible", "base_url": scripted.url, "secret": f"{KEY}-wrong"}
        refused = await http.post("connection", json=wrong)
        assert refused.json()["error"]["code"] == "invalid_arguments"
        connected = await http.post("connection", json={**wrong, "secret": KEY})
        found = connected.json()
        assert (found["stored"]["ending"], found["models"]["source"]) == (None, "stored")
        answer = await http.post("mcp/chat", json={"message": "Hi.", "mode": "plan"})
        assert (answer.json()["end"], answer.json()["text"]) == ("planned", "Here.")
        chat = answer.json()["chat"]
        paths = ("connection", "health", "models", f"chats/{chat}", f"chats/{chat}/export")
        answers += [refused.text, connected.text, answer.text]
        answers += [(await http.get(path)).text for path in paths]
    (file,) = server.home.rglob("connection.json")
    assert file.stat().st_mode & 0o777 == 0o600
    await server.stop()
    assert {request.headers["X-Api-Key"] for request in scripted.requests} == {KEY}
    assert scripted.requests[-1].body["model"] == MODEL
    assert KEY in file.read_text("utf-8")
    places = {
        "answers": "\n".join(answers),
        "root": everything_below(server.root),
        "home": everything_below(server.home, file),
        "log": server.log.text,
    }
    assert "POST /api/tk-ai/connection" in places["log"]
    assert "Here." in places["home"]
    assert [name for name, text in places.items() if KEY in text] == []
