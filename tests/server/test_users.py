"""Two users of one server: one user's data does not exist for the other."""

from __future__ import annotations

import json
from getpass import getuser
from typing import Any

import pytest
from jupyter_server.auth import IdentityProvider, User
from traitlets.config import Config

from tests.server.conftest import Ask

ACCEPT = "application/json, text/event-stream"
TOKENS = {"token-of-ada": "ada", "token-of-bob": "bob"}


class TwoUsers(IdentityProvider):
    """A token for each user, as a JupyterHub would have it."""

    async def get_user_token(self, handler: Any) -> User | None:
        name = TOKENS.get(self.get_token(handler) or "")
        return None if name is None else User(name, name, name)


def headers_of(name: str) -> dict[str, str]:
    """The authentication of a user's request."""
    token = next(token for token, user in TOKENS.items() if user == name)
    return {"Authorization": f"token {token}"}


class ServesTwoUsers:
    """Tests of a server with these users, in which Ada's mode is ask unless set."""

    @pytest.fixture
    def jp_server_config(self, jp_server_config: Config) -> Config:
        jp_server_config.ServerApp.identity_provider_class = TwoUsers
        return jp_server_config

    @pytest.fixture
    def jp_auth_header(self) -> dict[str, str]:
        return headers_of("ada")


@pytest.fixture
def jp_server_config(jp_server_config: Config) -> Config:
    jp_server_config.ServerApp.identity_provider_class = TwoUsers
    return jp_server_config


class Client:
    """A user's REST client."""

    def __init__(self, ask: Ask, name: str) -> None:
        self.name = name
        self._ask = ask
        self.headers = headers_of(name)

    async def get(self, path: str) -> tuple[int, Any]:
        response = await self._ask("GET", f"api/tk-ai/{path}", **self.headers)
        is_json = response.headers["Content-Type"].startswith("application/json")
        return response.code, json.loads(response.body) if is_json else response.body

    async def post(self, path: str, body: Any) -> tuple[int, Any]:
        response = await self._ask("POST", f"api/tk-ai/{path}", body, **self.headers)
        return response.code, json.loads(response.body)

    async def call(self, tool: str, **arguments: Any) -> tuple[int, Any]:
        return await self.post(f"tools/{tool}?caller=me", arguments)


@pytest.fixture
def ada(ask: Ask) -> Client:
    return Client(ask, "ada")


@pytest.fixture
def bob(ask: Ask) -> Client:
    return Client(ask, "bob")


@pytest.mark.proves("ext:multi-user")
async def test_users_with_the_same_key_have_separate_notebooks(
    ada: Client, bob: Client, notebook: str
) -> None:
    await ada.call("use_notebook", notebook=notebook)
    assert (await ada.call("list_cells"))[0] == 200
    status, error = await bob.call("list_cells")
    assert (status, error["error"]["code"]) == (400, "invalid_arguments")
    assert (await bob.call("list_managed_notebooks"))[1]["notebooks"] == []


@pytest.mark.proves("threat:other-user")
async def test_anothers_execution_does_not_exist(ada: Client, bob: Client, notebook: str) -> None:
    _, ran = await ada.call("execute_ipython", notebook=notebook, code="1")
    execution_id = ran["execution_id"]
    assert (await ada.call("wait_execution", execution_id=execution_id))[0] == 200
    status, error = await bob.call("wait_execution", execution_id=execution_id)
    assert (status, error["error"]["code"]) == (404, "not_found")
    never = await bob.call("wait_execution", execution_id="0123456789")
    assert (
        never[1]["error"]["message"].replace("0123456789", execution_id)
        == error["error"]["message"]
    )


@pytest.mark.proves("threat:other-user", "out:artifact")
async def test_anothers_artifact_does_not_exist(ada: Client, bob: Client, notebook: str) -> None:
    _, ran = await ada.call("execute_ipython", notebook=notebook, code="print('x\\n' * 9000)")
    artifact = ran["runs"][0]["artifact"]
    assert (await ada.get(f"artifacts/{artifact}"))[0] == 200
    status, error = await bob.get(f"artifacts/{artifact}")
    assert (status, error["error"]["code"]) == (404, "not_found")
    status, error = await bob.call("read_output", artifact=artifact)
    assert (status, error["error"]["code"]) == (404, "not_found")


@pytest.mark.proves("ext:multi-user")
async def test_nobody_undoes_what_another_did(ada: Client, bob: Client, notebook: str) -> None:
    await ada.call("insert_cell", notebook=notebook, source="adas = 1")
    status, error = await bob.call("undo", notebook=notebook)
    assert (status, error["error"]["code"]) == (409, "nothing_to_undo")
    assert (await ada.call("undo", notebook=notebook))[0] == 200


@pytest.mark.proves("threat:other-user", "mcp:sessions")
async def test_anothers_session_does_not_exist(ask: Ask, ada: Client, bob: Client) -> None:
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    }
    opened = await ask(
        "POST",
        "api/tk-ai/mcp",
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params},
        Accept=ACCEPT,
        **ada.headers,
    )
    session = opened.headers["Mcp-Session-Id"]
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    headers = {"Accept": ACCEPT, "Mcp-Session-Id": session}
    assert (await ask("POST", "api/tk-ai/mcp", ping, **headers, **bob.headers)).code == 404
    assert (await ask("DELETE", "api/tk-ai/mcp", **headers, **bob.headers)).code == 404
    assert (await ask("POST", "api/tk-ai/mcp", ping, **headers, **ada.headers)).code == 200


class TestOneToken:
    """Jupyter's own provider, which makes up a name for each request with the token alone."""

    @pytest.fixture
    def jp_server_config(self, jp_server_config: Config) -> Config:
        del jp_server_config.ServerApp.identity_provider_class
        return jp_server_config

    async def test_it_is_who_runs_the_server(
        self, ask: Ask, extension: Any, jp_auth_header: dict[str, str]
    ) -> None:
        artifact = await extension.workspace.artifacts.write(getuser(), "mine")
        response = await ask("GET", f"api/tk-ai/artifacts/{artifact.id}", **jp_auth_header)
        assert response.body == b"mine"


@pytest.mark.proves("threat:other-user")
async def test_anothers_changes_are_seen_and_not_taken_back(
    ada: Client, bob: Client, notebook: str
) -> None:
    await ada.call("insert_cell", notebook=notebook, source="Ada's")
    _, page = await bob.get(f"changes?notebook={notebook}")
    (change,) = page["changes"]
    assert change["yours"] is False
    undo = {"notebook": notebook, "entries": change["entries"]}
    status, error = await bob.post("changes/undo", undo)
    assert (status, error["error"]["code"]) == (403, "permission_denied")
    assert (await ada.post("changes/undo", undo))[0] == 200
