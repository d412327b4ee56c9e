"""The routes of the chat setup."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from jupyter_core.paths import jupyter_config_dir

from tests.server.conftest import Ask
from tk_ai_extension.model.callers import Caller

SECRET = "5ec4e7-value"


@pytest.fixture
def home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jp_root_dir: Path, jp_environ: None
) -> Path:
    """The home folder and the root, with a prompt each, instructions and a file of servers."""
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    for base, text in ((home, "Mine."), (jp_root_dir, "Theirs: $ARGUMENTS")):
        folder = base / ".claude" / "commands"
        folder.mkdir(parents=True)
        (folder / f"p{len(text)}.md").write_text(text, encoding="utf-8")
    (jp_root_dir / "CLAUDE.md").write_text("Use polars.", encoding="utf-8")
    own = Path(jupyter_config_dir()) / "tk-ai-extension"
    own.mkdir(parents=True, exist_ok=True)
    file = own / "mcp.json"
    server = {"command": "tool", "args": [SECRET], "env": {"KEY": SECRET}}
    file.write_text(json.dumps({"mcpServers": {"mine": server}}), encoding="utf-8")
    file.chmod(0o600)
    return home


@pytest.mark.proves("rest:chat", "threat:secrets", "chat:servers-own", "perm:approvals")
async def test_the_setup_is_read_by_its_user_without_secrets(
    home: Path,
    ask: Ask,
    extension: Any,
    jp_auth_header: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    described = json.loads((await ask("GET", "api/tk-ai/openapi.json", **jp_auth_header)).body)

    async def found(method: str, path: str, body: Any = None, **headers: str) -> Any:
        response = await ask(method, f"api/tk-ai/{path}", body, **jp_auth_header, **headers)
        answer = json.loads(response.body)
        assert SECRET not in response.body.decode()
        if response.code == 200 and (known := described["paths"].get(f"/api/tk-ai/{path}")):
            schema = known[method.lower()]["responses"]["200"]
            jsonschema.validate(answer, schema["content"]["application/json"]["schema"])
        return answer if response.code == 200 else (response.code, answer["error"]["code"])

    setup = await found("GET", "setup")
    assert [(each["name"], each["origin"]) for each in setup["prompts"]] == [
        ("p18", "project"),
        ("p5", "user"),
    ]
    assert setup["instructions"] == "CLAUDE.md"
    assert [(each["name"], each["enabled"]) for each in setup["servers"]["servers"]] == [
        ("mine", True)
    ]

    with monkeypatch.context() as patched:
        patched.setattr(
            "tk_ai_extension.server.handlers.chat_setup.username", lambda _handler: "guest"
        )
        guest = await found("GET", "setup")
        assert guest["servers"]["servers"] == []
        assert [each["origin"] for each in guest["prompts"]] == ["project"]

    services = extension.services
    caller = Caller(services.owner, "c", interface="chat", mode="ask")
    services.workspace.policy.standing.add(caller, "WRITE", notebook=None, tool="insert_cell")
    (rule,) = (await found("GET", "approvals"))["approvals"]
    assert (rule["tool"], rule["caller"], rule["interface"]) == ("insert_cell", "c", "chat")
    assert await found("DELETE", "approvals/none") == (404, "not_found")
    assert await found("DELETE", f"approvals/{rule['id']}") == {"approvals": []}
