"""Two users of one server and their chats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from traitlets.config import Config

from tests.server.conftest import Ask, with_model
from tests.server.test_users import TOKENS, TwoUsers
from tests.support.scripted_model import Answer, ScriptedModel, ToolUse

CHATS = "api/tk-ai/chats"


@pytest.fixture
def jp_server_config(jp_server_config: Config, tmp_path: Path) -> Config:
    jp_server_config.ServerApp.identity_provider_class = TwoUsers
    return with_model(jp_server_config, tmp_path / "state")


@pytest.mark.proves("ext:multi-user", "threat:other-user")
async def test_anothers_chat_does_not_exist(ask: Ask, model: ScriptedModel, notebook: str) -> None:
    async def request(
        user: str, method: str, path: str, body: dict[str, Any] | None = None
    ) -> tuple[int, Any]:
        token = next(token for token, name in TOKENS.items() if name == user)
        headers = {"Authorization": f"token {token}"}
        response = await ask(method, path, body, **headers)
        return response.code, json.loads(response.body)

    model.add(Answer.of(ToolUse("insert_cell", {"source": "x = 1"})), Answer.of("Added."))
    message = {"message": "Add a cell.", "notebook": notebook, "mode": "auto"}
    status, answer = await request("ada", "POST", "api/tk-ai/mcp/chat", message)
    assert status == 200
    chat, turn = answer["chat"], answer["turn"]
    for method, path, body in (
        ("GET", f"{CHATS}/{chat}", None),
        ("PATCH", f"{CHATS}/{chat}", {"title": "Mine"}),
        ("DELETE", f"{CHATS}/{chat}", None),
        ("GET", f"{CHATS}/{chat}/events", None),
        ("GET", f"{CHATS}/{chat}/export", None),
        ("GET", f"{CHATS}/{chat}/changes/{turn}", None),
        ("POST", f"{CHATS}/{chat}/stop", {}),
        ("POST", f"{CHATS}/{chat}/undo", {"turn": turn}),
        ("POST", "api/tk-ai/mcp/chat", {"message": "Continue.", "chat": chat}),
    ):
        status, error = await request("bob", method, path, body)
        assert (status, error["error"]["code"]) == (404, "chat_not_found"), (method, path)
    assert (await request("bob", "GET", CHATS))[1] == {"chats": []}
    assert len((await request("ada", "GET", CHATS))[1]["chats"]) == 1
