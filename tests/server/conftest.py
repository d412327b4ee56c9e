"""Jupyter servers with the extension."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from tornado.httpclient import AsyncHTTPClient, HTTPResponse
from traitlets.config import Config

from tests.servers import start_server
from tests.support.scripted_model import MODEL, ScriptedModel

__all__ = [
    "Ask",
    "Events",
    "ask",
    "extension",
    "jp_server_config",
    "model",
    "notebook",
    "start_server",
    "with_model",
]


@pytest.fixture
def jp_server_config(jp_server_config: Config) -> Config:
    """A server in the test's process, with the extension and its dependencies."""
    jp_server_config.ServerApp.jpserver_extensions = {
        "jupyter_server_nbmodel": True,
        "tk_ai_extension": True,
    }
    return jp_server_config


@pytest.fixture
async def model(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ScriptedModel]:
    """The scripted model, which the servers of the test's process find in its environment."""
    async with ScriptedModel().running() as model:
        for name, value in model.environment.items():
            monkeypatch.setenv(name, value)
        yield model


def with_model(config: Config, data: Path) -> Config:
    """A server's configuration in which the scripted model answers.

    Args:
        config: Is changed, and returned.
        data: The folder for its chats.
    """
    settings = config.TkAIExtensionApp
    settings.chat_model = MODEL
    settings.data_dir = str(data)
    return config


@pytest.fixture
def extension(jp_serverapp: Any, http_server_client: Any) -> Any:
    """The extension of a server that listens."""
    (app,) = jp_serverapp.extension_manager.extension_apps["tk_ai_extension"]
    return app


Ask = Callable[..., Awaitable[HTTPResponse]]


@pytest.fixture
def ask(extension: Any, jp_base_url: str, jp_http_port: int) -> Ask:
    """Send a request as it is, with a content type if it has a body."""

    async def fetch(method: str, path: str, body: Any = None, **headers: str) -> HTTPResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if method in ("POST", "PUT", "PATCH"):
            named.setdefault("Content-Type", "application/json")
            body = b"{}" if body is None else body
        if isinstance(body, dict):
            body = json.dumps(body)
        return await AsyncHTTPClient().fetch(
            f"http://127.0.0.1:{jp_http_port}{jp_base_url}{path}",
            method=method,
            headers=named,
            body=body,
            raise_error=False,
            allow_nonstandard_methods=True,
            follow_redirects=False,
            request_timeout=60,
        )

    return fetch


Call = Callable[..., Awaitable[Any]]


@pytest.fixture
def call(ask: Ask, jp_auth_header: dict[str, str]) -> Call:
    """Calls a tool over REST as a caller with a key; answers the status and the JSON."""

    async def post(tool: str, caller: str = "me", **arguments: Any) -> tuple[int, Any]:
        path = f"api/tk-ai/tools/{tool}?caller={caller}"
        response = await ask("POST", path, arguments, **jp_auth_header)
        return response.code, json.loads(response.body)

    return post


@pytest.fixture
def notebook(jp_root_dir: Path) -> str:
    """A notebook with a cell that prints and one that fails; its path."""
    cells = [
        nbformat.v4.new_code_cell("for i in range(3):\n    print('line', i)\n6 * 7", id="prints00"),
        nbformat.v4.new_code_cell("1 / 0", id="fails000"),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), jp_root_dir / "plan.ipynb")
    return "plan.ipynb"


Event = tuple[str, str, Any]
Events = AsyncIterator[Event]
