"""Servers as separate processes: how they start, how they stop, and what they never reveal."""

from __future__ import annotations

import asyncio
import json
import signal
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import httpx2
import nbformat
import psutil
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.servers import ServerProcess, StartServer, slowness

DEADLINE = 60
WATCH_IMPORTS = """
import sys, threading

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name in ("mcp", "claude_agent_sdk", "tk_ai_extension.server.composition"):
            main = threading.current_thread() is threading.main_thread()
            where = "the main" if main else "another"
            print(f"import of {name} on {where} thread", file=sys.stderr, flush=True)

sys.meta_path.insert(0, Watch())
"""
HOLD_MCP = """
import importlib.machinery, sys, threading

class Hold:
    def find_spec(self, name, path=None, target=None):
        if name in ("mcp", "mcp_types", "claude_agent_sdk"):
            return importlib.machinery.ModuleSpec(name, self)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        print("import of mcp held", file=sys.stderr, flush=True)
        threading.Event().wait()

sys.meta_path.insert(0, Hold())
"""
LONG = "import time\nprint('begun', flush=True)\nwhile True: time.sleep(0.1)"


class Rest:
    """The REST interface of a server process."""

    def __init__(self, server: ServerProcess) -> None:
        self._http = httpx2.AsyncClient(
            base_url=f"{server.url}api/tk-ai/", headers=server.headers, timeout=DEADLINE
        )

    async def get(self, path: str) -> httpx2.Response:
        return await self._http.get(path)

    async def call(self, tool: str, **arguments: Any) -> Any:
        response = await self._http.post(f"tools/{tool}?caller=me", json=arguments)
        return response.json()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()


def _notebook(server: ServerProcess, *sources: str) -> str:
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), server.root / "plan.ipynb")
    return "plan.ipynb"


@pytest.mark.proves("mcp:lazy")
async def test_slow_imports_wait_until_the_server_is_up(
    start_server: StartServer,
) -> None:
    server = await start_server(config=WATCH_IMPORTS)
    for late in ("mcp", "tk_ai_extension.server.composition"):
        line = await server.log.line(f"import of {late} on")
        assert "another thread" in line
        lines = server.log.lines
        up = next(index for index, line in enumerate(lines) if " is running at:" in line)
        assert lines.index(line) > up
    async with Rest(server) as rest:
        assert (await rest.get("tools")).status_code == 200
    assert "claude_agent_sdk" not in server.log.text


@pytest.mark.proves("mcp:lazy")
async def test_health_the_models_and_tools_by_rest_wait_for_no_mcp(
    start_server: StartServer,
) -> None:
    server = await start_server(config=HOLD_MCP)
    await server.log.line("import of mcp held")
    async with Rest(server) as rest:
        for path in ("health", "models", "tools"):
            assert (await rest.get(path)).status_code == 200
        assert (await rest.call("list_kernels"))["kernels"]


@pytest.mark.proves("mcp:http", "rest:call", "threat:csrf")
async def test_it_is_served_below_any_base_url_on_any_port_and_on_no_second_one(
    start_server: StartServer,
) -> None:
    server = await start_server("--ServerApp.base_url=/users/ada/")
    assert server.url.endswith("/users/ada/")
    async with httpx2.AsyncClient(headers=server.headers, timeout=DEADLINE) as http:
        transport = streamable_http_client(f"{server.url}api/tk-ai/mcp", http_client=http)
        async with Client(transport) as client:
            assert len((await client.list_tools()).tools) > 30
            assert not (await client.call_tool("list_kernels", {})).is_error
    connections = psutil.Process(server.process.pid).net_connections("inet")
    listening = {c.laddr.port for c in connections if c.status == psutil.CONN_LISTEN}
    assert listening == {urlsplit(server.url).port}


@pytest.mark.proves("fault:server-stop")
@pytest.mark.parametrize(
    ("executor", "number"),
    [
        ("auto", signal.SIGTERM),
        pytest.param("direct", signal.SIGINT, marks=pytest.mark.soak),
        pytest.param("auto", signal.SIGINT, marks=pytest.mark.soak),
        pytest.param("direct", signal.SIGTERM, marks=pytest.mark.soak),
    ],
)
async def test_it_stops_within_five_seconds_with_cells_running_and_clients_waiting(
    start_server: StartServer, executor: str, number: int
) -> None:
    server = await start_server(f"--TkAIExtensionApp.executor={executor}")
    notebook = _notebook(server, LONG)
    async with Rest(server) as rest, httpx2.AsyncClient(headers=server.headers) as http:
        await rest.call("use_notebook", notebook=notebook)
        running = await rest.call("execute_cell", cell=0, wait=1)
        assert running["status"] == "running", running
        waiting = asyncio.create_task(
            rest.call("wait_execution", execution_id=running["execution_id"], wait=600)
        )
        begun = asyncio.Event()

        async def listen(progress: float, total: float | None, message: str | None) -> None:
            begun.set()

        async def agent(mode: str) -> None:
            transport = streamable_http_client(
                f"{server.url}api/tk-ai/mcp", http_client=http, terminate_on_close=False
            )
            async with Client(transport, mode=mode) as client:
                arguments = {"execution_id": running["execution_id"], "wait": 600}
                await client.call_tool("wait_execution", arguments, progress_callback=listen)

        agents = [asyncio.create_task(agent(mode)) for mode in ("legacy", "2026-07-28")]
        async with asyncio.timeout(DEADLINE):
            await begun.wait()
        family = psutil.Process(server.process.pid).children(recursive=True)
        assert family, "no kernel"

        began = time.monotonic()
        server.process.send_signal(number)
        await asyncio.wait_for(server.process.wait(), DEADLINE)
        took = time.monotonic() - began
        await asyncio.wait((waiting, *agents), timeout=DEADLINE)
        (run,) = waiting.result()["runs"]
        assert run["status"] == "interrupted"
        assert "The server stopped during this execution" in run["message"]
        for task in agents:
            task.cancel()
        await asyncio.gather(waiting, *agents, return_exceptions=True)
    assert took < 5 * slowness(), server.log.text
    _, alive = psutil.wait_procs(family, timeout=5)
    assert alive == []
    assert "Task was destroyed" not in server.log.text
    assert "tk_ai_extension" not in _tracebacks(server.log.text)


def _tracebacks(log: str) -> str:
    return "\n".join(part for part in log.split("Traceback (most recent call last):")[1:])


def _below(folder: Path) -> Iterator[Path]:
    yield folder
    yield from folder.rglob("*")


@pytest.mark.proves("threat:secrets")
async def test_a_secret_is_nowhere_and_only_the_user_can_read_the_data(
    start_server: StartServer,
) -> None:
    canary, other = "canary-7f3a-in-environment", "canary-91bc-in-file"
    server = await start_server(
        "--ServerApp.log_level=DEBUG",
        "--TkAIExtensionApp.kernel_env_exclude=CORP_*",
        ANTHROPIC_API_KEY=canary,
        CORP_TOKEN=canary,
    )
    (server.root / ".secrets.env").write_text(f"export ANTHROPIC_AUTH_TOKEN='{other}'\n")
    dump = "import os, json\nprint(json.dumps(dict(os.environ)))\nprint('x\\n' * 9000)"
    notebook = _notebook(server, dump)
    answers: list[Any] = []
    async with Rest(server) as rest:
        for tool, arguments in (
            ("use_notebook", {"notebook": notebook}),
            ("execute_cell", {"cell": 0}),
            ("execute_ipython", {"code": dump}),
            ("list_variables", {}),
            ("get_kernel_status", {}),
            ("list_running_kernels", {}),
            ("list_files", {"path": ""}),
            ("list_files", {"pattern": "*secret*"}),
            ("read_file", {"path": ".secrets.env"}),
            ("read_notebook", {}),
            ("notebook_history", {}),
            ("restart_kernel", {}),
            ("execute_ipython", {"code": dump}),
            ("read_cell", {"cell": "nothing like that"}),
            ("sing", {"api_key": "x"}),
        ):
            answers.append(await rest.call(tool, **arguments))
        paths = ("health", "tools", "openapi.json", "nothing")
        answers += [(await rest.get(path)).text for path in paths]
        family = psutil.Process(server.process.pid).children(recursive=True)
        environments = [json.dumps(process.environ()) for process in family]
    assert "PATH" in json.dumps(answers), "no kernel printed its environment"
    assert environments
    await server.stop()
    exposed = [json.dumps(answers), server.log.text, *environments]
    kept = [
        path.read_bytes().decode("utf-8", "replace")
        for path in _below(server.home)
        if path.is_file() and path.name != ".secrets.env" and path.parent.name != "config"
    ]
    for secret in (canary, other):
        assert [place for place in exposed + kept if secret in place] == []
    private = list(_below(server.home / "data" / "tk-ai-extension"))
    assert any(path.suffix == ".sqlite" for path in private)
    for path in private:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path
    assert {path.name for path in server.root.iterdir()} == {"plan.ipynb", ".secrets.env"}
    # The server's own token is in Jupyter's runtime file, and nowhere else.
    assert [place for place in exposed if server.token in place] == []
