"""What a server does on Windows, as far as a system that is none can show it.

The package finds neither modules nor names of POSIX in the server's process (`windows/sitecustomize`).
What Windows does with open files and with processes is not shown.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.concurrency.callers import sessions_at
from tests.servers import ServerProcess, StartServer, start_server
from tk_ai_extension.testing.scripted_model import MODEL, Answer, ScriptedModel, ToolUse

__all__ = ["start_server"]

WINDOWS = Path(__file__).with_name("windows")
NOTEBOOK = "sales.ipynb"
ASKED = "asked.ipynb"
"""The notebook that the chat works in."""
FILES = """
c.ServerApp.jpserver_extensions |= {"jupyter_server_ydoc": False, "jupyter_server_fileid": False}
"""
"""The configuration of a server without collaboration, which is files."""


@pytest.mark.proves("fault:windows")
async def test_tools_work_over_mcp_and_rest_and_the_chat_in_the_notebook(
    start_server: StartServer, tmp_path: Path
) -> None:
    async with ScriptedModel().running() as model:
        server = await start_server(
            f"--TkAIExtensionApp.chat_model={MODEL}",
            config=FILES,
            PYTHONPATH=str(WINDOWS),
            CLAUDE_CONFIG_DIR=str(tmp_path / "claude"),
            **model.environment,
        )
        await tools_work(server)
        model.add(
            Answer.of(ToolUse("insert_and_execute_cell", {"source": "6 * 7", "index": 0})),
            Answer.of("It is 42."),
        )
        await chat_answers(server)
    names = {path.name for path in server.root.iterdir() if not path.name.startswith(".ipynb")}
    assert names == {NOTEBOOK, ASKED}, "the hidden files of saves are gone"
    assert await server.stop() == 0
    assert "Traceback" not in server.log.text, server.log.text


async def tools_work(server: ServerProcess) -> None:
    """Several agents work in a notebook over MCP."""
    async with sessions_at(server.url, server.token) as sessions:

        async def call(number: int, tool: str, **arguments: Any) -> dict[str, Any]:
            answer = await sessions[number].call(tool, {"notebook": NOTEBOOK, **arguments}, "")
            assert answer.error is None, answer
            return answer.data

        for number in range(len(sessions)):
            await call(number, "use_notebook", mode="connect" if number else "create")
            (run,) = (
                await call(number, "insert_and_execute_cell", source=f"print({number})", index=0)
            )["runs"]
            assert run["output"] == str(number)
            listed = await call(number, "list_cells")
            cell = listed["cells"][0]["cell"]
            await call(number, "overwrite_cell", cell=cell, source="import os\nos.getpid()")
            assert (await call(number, "execute_cell", cell=cell))["runs"][0]["status"] == "ok"
            assert (await call(number, "undo"))["undone"]
        found = await call(0, "read_notebook")
    assert server.root.joinpath(NOTEBOOK).exists()
    assert [f"print({number})" in found["text"] for number in range(4)] == [True] * 4


async def chat_answers(server: ServerProcess) -> None:
    """A notebook is made over REST, and the chat works in it."""
    async with httpx2.AsyncClient(base_url=server.url, headers=server.headers, timeout=120) as http:
        made = await http.post("api/tk-ai/tools/create_notebook", json={"notebook": ASKED})
        assert made.status_code == 200, made.text
        asked = {"message": "What is it?", "notebook": ASKED, "mode": "auto"}
        answer = await http.post("api/tk-ai/mcp/chat", json=asked)
        assert answer.status_code == 200, answer.text
        assert answer.json().get("text") == "It is 42.", (answer.text, server.log.text)
        health = (await http.get("api/tk-ai/health")).json()
        assert (health["status"], health["backends"]["documents"]) == ("ok", "file")
    saved = json.loads(server.root.joinpath(ASKED).read_text(encoding="utf-8"))
    assert saved["cells"][0]["outputs"][0]["data"]["text/plain"] == ["42"]
