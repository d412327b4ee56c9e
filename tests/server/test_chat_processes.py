"""Chats in a server process: how they end with it."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import nbformat
import psutil
import pytest

from tests.servers import ServerProcess, StartServer, slowness, start_server
from tests.support.scripted_model import MODEL, Answer, Held, ScriptedModel, ToolUse

__all__ = ["start_server"]

LONG = "import time\nprint('begun', flush=True)\nwhile True: time.sleep(0.1)"


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel().running() as model:
        yield model


def http_of(server: ServerProcess) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        base_url=f"{server.url}api/tk-ai/", headers=server.headers, timeout=60
    )


async def say(http: httpx2.AsyncClient, until: str, **body: Any) -> list[dict[str, Any]]:
    """Sends a message, and returns the events up to the first one of this kind."""
    seen: list[dict[str, Any]] = []
    accept = {"Accept": "text/event-stream"}
    async with http.stream("POST", "mcp/chat", json=body, headers=accept) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                seen.append(json.loads(line.removeprefix("data: ")))
                if seen[-1]["kind"] == until:
                    break
    return seen


def config(folder: Path) -> str:
    return (
        f"c.TkAIExtensionApp.chat_model = {MODEL!r}\n"
        f"c.TkAIExtensionApp.data_dir = {str(folder)!r}\n"
    )


@pytest.mark.proves("fault:server-stop")
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.soak)]
)
async def test_a_server_that_is_stopped_with_live_chats_exits_at_once_and_leaves_nothing(
    start_server: StartServer, model: ScriptedModel, tmp_path: Path, number: int
) -> None:
    server = await start_server(config=config(tmp_path / "data"), **model.environment)
    cells = [nbformat.v4.new_code_cell(LONG)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), server.root / "long.ipynb")
    model.add(
        Answer.of(ToolUse("execute_cell", {"cell": 0, "wait": 60})),
        Held(Answer.of("One, two, three, four, five."), after=4),
    )
    async with http_of(server) as http:
        running = {"message": "Run it.", "notebook": "long.ipynb", "mode": "auto"}
        assert (await say(http, "tool_progress", **running))[-1]["kind"] == "tool_progress"
        assert (await say(http, "text", message="Count."))[-1]["kind"] == "text"
    processes = psutil.Process(server.process.pid).children(recursive=True)
    assert sum("claude" in process.name() for process in processes) >= 2
    began = time.monotonic()
    await server.stop(number)
    assert time.monotonic() - began < 5 * slowness(), server.log.text
    _, alive = psutil.wait_procs(processes, timeout=5)
    assert alive == []


@pytest.mark.proves("fault:server-stop")
async def test_a_server_that_is_stopped_while_claude_starts_exits_at_once_and_leaves_nothing(
    start_server: StartServer, model: ScriptedModel, tmp_path: Path
) -> None:
    server = await start_server(config=config(tmp_path / "data"), **model.environment)
    model.add(*[Held(Answer.of("One, two, three, four, five."), after=4)] * 2)
    async with http_of(server) as http:
        for _ in range(2):
            assert (await say(http, "began", message="Count."))[-1]["kind"] == "began"
    processes = psutil.Process(server.process.pid).children(recursive=True)
    began = time.monotonic()
    await server.stop()
    assert time.monotonic() - began < 5 * slowness(), server.log.text
    _, alive = psutil.wait_procs(processes, timeout=5)
    assert alive == []
    # Nor did one begin in the meantime.
    left = [each for each in psutil.process_iter(["environ"]) if is_of(each, server)]
    assert left == []


def is_of(process: psutil.Process, server: ServerProcess) -> bool:
    """Whether a process has a server's environment."""
    environment = process.info["environ"] or {}
    return environment.get("JUPYTER_RUNTIME_DIR") == str(server.home / "runtime")
