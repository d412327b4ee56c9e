"""Agents of the Agent Client Protocol over HTTP: they are offered, and a turn of each is undone alone."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from traitlets.config import Config

from tests.agent.acp.conftest import COMMAND
from tests.server.conftest import Ask, with_model
from tests.support.scripted_model import MODEL, Answer, ScriptedModel, ToolUse

Request = Callable[..., Awaitable[Any]]


@pytest.fixture
def jp_server_config(jp_server_config: Config, tmp_path: Path) -> Config:
    jp_server_config.TkAIExtensionApp.acp_agents = {
        "one": {"command": COMMAND, "title": "Agent One"},
        "two": COMMAND,
        "gone": ["no-such-program"],
    }
    return with_model(jp_server_config, tmp_path / "state")


@pytest.fixture
def request_(ask: Ask, jp_auth_header: dict[str, str], model: ScriptedModel) -> Request:
    async def request(method: str, path: str, body: Any = None) -> Any:
        response = await ask(method, f"api/tk-ai/{path}", body, **jp_auth_header)
        return json.loads(response.body)

    return request


@pytest.mark.proves("ext:any-agent")
async def test_the_installed_agents_are_offered_with_claude(request_: Request) -> None:
    info = await request_("GET", "models")
    assert info["models"][0] == MODEL
    assert info["agents"]["one"] == "Agent One"
    assert {"one", "two"} <= set(info["models"])
    assert "gone" not in info["models"]
    missing = await request_("POST", "mcp/chat", {"message": "Hello.", "model": "gone"})
    assert missing["error"]["code"] == "agent_unavailable"


@pytest.mark.proves("ext:any-agent")
async def test_turns_of_claude_and_of_two_agents_in_one_notebook_are_undone_separately(
    request_: Request, model: ScriptedModel, jp_root_dir: Path
) -> None:
    cell = nbformat.v4.new_code_cell("a = 0")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), jp_root_dir / "a.ipynb")
    model.add(Answer.of(ToolUse("insert_cell", {"source": "c = 3"})), Answer.of("Done."))
    turns: dict[str, Any] = {}
    for name, source in (("one", "a = 1"), ("two", "b = 2"), (MODEL, "c = 3")):
        call = f"quiet insert_cell {json.dumps({'source': source})}"
        body = {"message": call, "notebook": "a.ipynb", "mode": "auto", "model": name}
        turns[name] = await request_("POST", "mcp/chat", body)
        assert [change["action"] for change in turns[name]["changes"]] == ["insert"]

    def sources() -> list[str]:
        return [cell.source for cell in nbformat.read(jp_root_dir / "a.ipynb", 4).cells]

    everything = ["a = 0", "a = 1", "b = 2", "c = 3"]
    assert sources() == everything
    for name, source in (("two", "b = 2"), (MODEL, "c = 3"), ("one", "a = 1")):
        undone = await request_(
            "POST", f"chats/{turns[name]['chat']}/undo", {"turn": turns[name]["turn"]}
        )
        assert undone["notebooks"][0]["notebook"] == "a.ipynb"
        everything.remove(source)
        assert sources() == everything
