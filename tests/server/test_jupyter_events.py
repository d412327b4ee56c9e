"""Edits, runs and approvals as Jupyter events, as a Hub or a page receives them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from traitlets.config import Config

from tests.server.conftest import Ask, Call, with_model
from tests.support.scripted_model import MODEL, Answer, ScriptedModel, ToolUse

SCHEMA = "urn:tk-ai-extension:activity:v1"

NextEvent = Callable[[], Awaitable[Any]]


@pytest.fixture
def jp_server_config(jp_server_config: Config, tmp_path: Path) -> Config:
    jp_server_config.TkAIExtensionApp.mode_cap = "edit"
    jp_server_config.EventLogger.handlers = [logging.FileHandler(tmp_path / "events.jsonl")]
    return with_model(jp_server_config, tmp_path / "state")


@pytest.fixture
async def event(extension: Any, jp_ws_fetch: Any) -> NextEvent:
    """Returns the next event of the extension."""
    socket = await jp_ws_fetch("api", "events", "subscribe")

    async def next_event() -> Any:
        async with asyncio.timeout(60):
            while True:
                received = json.loads(await socket.read_message() or "null")
                if received["schema_id"] == SCHEMA:
                    return received

    return next_event


@pytest.mark.proves("edit:history")
async def test_an_approval_an_edit_and_a_run_are_events_without_code(
    ask: Ask, call: Call, notebook: str, jp_auth_header: dict[str, str], event: NextEvent
) -> None:
    change = {"notebook": notebook, "source": "secret = 6 / 0"}
    _, refused = await call("insert_and_execute_cell", **change)
    waits = refused["error"]["details"]["permission_id"]
    await ask("POST", f"api/tk-ai/permissions/{waits}", {"answer": "once"}, **jp_auth_header)
    assert (await call("insert_and_execute_cell", **change))[0] == 200
    events = [await event() for _ in range(3)]
    assert [(each["kind"], each["status"]) for each in events] == [
        ("approval", "once"),
        ("edit", "ok"),
        ("run", "error"),
    ]
    for each in events:
        assert (each["path"], each["tool"]) == (notebook, "insert_and_execute_cell")
        assert each["caller"]["interface"] == "rest"
        assert "secret" not in json.dumps(each)


@pytest.mark.proves("edit:history")
async def test_an_edit_in_a_chat_names_its_turn_and_model(
    ask: Ask,
    model: ScriptedModel,
    notebook: str,
    jp_auth_header: dict[str, str],
    event: NextEvent,
) -> None:
    model.add(
        Answer.of(ToolUse("insert_cell", {"source": "x = 1", "index": 0, "notebook": notebook})),
        Answer.of("Added."),
    )
    message = {"message": "Add it.", "mode": "edit", "notebook": notebook}
    said = await ask("POST", "api/tk-ai/mcp/chat", message, **jp_auth_header)
    assert said.code == 200, said.body
    caller = (await event())["caller"]
    assert (caller["name"], caller["interface"], caller["model"]) == ("Claude", "chat", MODEL)
    path = "api/tk-ai/tools/blame?toolsets=nb"
    answer = await ask("POST", path, {"notebook": notebook}, **jp_auth_header)
    (blamed,) = json.loads(answer.body)["cells"]
    assert (blamed["author"], blamed["model"]) == ("Claude", MODEL)
    assert blamed["turn"] == caller["turn"]
