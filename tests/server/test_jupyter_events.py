"""Edits, runs and approvals as Jupyter events, as a Hub or a page receives them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from traitlets.config import Config

from tests.server.conftest import Ask, Call

SCHEMA = "https://events.jupyter.org/tk_ai_extension/activity/v1"


@pytest.fixture
def jp_server_config(jp_server_config: Config) -> Config:
    jp_server_config.TkAIExtensionApp.mode_cap = "ask"
    return jp_server_config


@pytest.mark.proves("edit:history")
async def test_an_approval_an_edit_and_a_run_are_events_without_code(
    ask: Ask, call: Call, notebook: str, jp_auth_header: dict[str, str], jp_ws_fetch: Any
) -> None:
    socket = await jp_ws_fetch("api", "events", "subscribe")

    async def event() -> Any:
        async with asyncio.timeout(60):
            while True:
                received = json.loads(await socket.read_message() or "null")
                if received["schema_id"] == SCHEMA:
                    return received

    change = {"notebook": notebook, "source": "secret = 6 / 0"}
    _, refused = await call("insert_and_execute_cell", **change)
    waits = refused["error"]["details"]["permission_id"]
    await ask("POST", f"api/tk-ai/permissions/{waits}", {"answer": "once"}, **jp_auth_header)
    assert (await call("insert_and_execute_cell", **change))[0] == 200
    events = [await event() for _ in range(3)]
    socket.close()
    assert [(each["kind"], each["status"]) for each in events] == [
        ("approval", "once"),
        ("edit", "ok"),
        ("run", "error"),
    ]
    for each in events:
        assert (each["path"], each["tool"]) == (notebook, "insert_and_execute_cell")
        assert each["caller"]["interface"] == "rest"
        assert "secret" not in json.dumps(each)
