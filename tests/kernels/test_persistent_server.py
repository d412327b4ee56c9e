"""Kernels of a Jupyter Server that is killed, or stopped, and started again."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen
from uuid import uuid4

import nbformat
import psutil
import pytest
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from tests.documentation import code as blocks
from tests.documentation import written
from tests.servers import ServerProcess, StartServer
from tests.support import faults

DEADLINE = 30
CONFIG = """
c.ServerApp.kernel_manager_class = (
    "tk_ai_extension.kernels.persistent.PersistentMappingKernelManager"
)
"""


async def request(server: ServerProcess, method: str, path: str, body: Any = None) -> Any:
    """What the REST API answers."""

    def fetch() -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {**server.headers, "Content-Type": "application/json"}
        made = Request(f"{server.url}api/{path}", data, headers, method=method)
        with urlopen(made, timeout=DEADLINE) as answer:
            return json.loads(answer.read() or "null")

    return await asyncio.to_thread(fetch)


@asynccontextmanager
async def sent(server: ServerProcess, kernel_id: str, code: str) -> AsyncGenerator[tuple[Any, str]]:
    """A WebSocket to a kernel over which code was sent, and the request's id."""
    socket = await websocket_connect(
        HTTPRequest(
            f"ws{server.url.removeprefix('http')}api/kernels/{kernel_id}/channels",
            headers=server.headers,
        )
    )
    header = {"msg_id": uuid4().hex, "msg_type": "execute_request", "version": "5.3"}
    header |= {"username": "", "session": uuid4().hex, "date": "2026-01-01T00:00:00Z"}
    content = {"code": code, "silent": False, "allow_stdin": False, "store_history": True}
    message = {"channel": "shell", "header": header, "parent_header": {}, "metadata": {}}
    await socket.write_message(json.dumps(message | {"content": content}))
    try:
        yield socket, header["msg_id"]
    finally:
        socket.close()
        async with asyncio.timeout(DEADLINE):
            while await socket.read_message() is not None:
                pass


async def printed(socket: Any, msg_id: str, until: Callable[[str], bool] | None = None) -> str:
    """What the code prints until it ends, or until a condition holds."""
    text = ""
    async with asyncio.timeout(DEADLINE):
        while True:
            answer = json.loads(await socket.read_message())
            if answer["channel"] != "iopub" or answer["parent_header"].get("msg_id") != msg_id:
                continue
            content = answer["content"]
            text += content.get("text", "") + content.get("ename", "")
            if content.get("execution_state") == "idle" or (until and until(text)):
                return text.strip()


async def run(server: ServerProcess, kernel_id: str, code: str) -> str:
    """What code prints."""
    async with sent(server, kernel_id, code) as (socket, msg_id):
        return await printed(socket, msg_id)


async def state(server: ServerProcess, kernel_id: str, expected: str) -> None:
    """Waits until a kernel has a state."""
    async with asyncio.timeout(DEADLINE):
        found = ""
        while found != expected:
            found = (await request(server, "GET", f"kernels/{kernel_id}"))["execution_state"]


@pytest.fixture
async def processes() -> AsyncIterator[list[int]]:
    """The processes of kernels, which are ended after the test."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        if psutil.pid_exists(pid):
            faults.kill(pid)


@pytest.mark.proves("kernel:tools")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_server_runs_on_in_the_kernels_that_the_one_before_left(
    start_server: StartServer, processes: list[int], number: signal.Signals
) -> None:
    first = await start_server(config=CONFIG)
    busy = (await request(first, "POST", "kernels", {"name": "python3"}))["id"]
    idle = (await request(first, "POST", "kernels", {"name": "python3"}))["id"]
    code = "import os, time; kept = 41; print(os.getpid(), flush=True)"
    processes.extend([int(await run(first, kernel, code)) for kernel in (busy, idle)])
    going = first.root / "going"
    waits = (
        f"print('running', flush=True)\nwhile not os.path.exists({str(going)!r}): time.sleep(.1)"
    )
    async with sent(first, busy, f"{waits}\nkept += 1") as (socket, msg_id):
        await printed(socket, msg_id, lambda text: "running" in text)
        await first.stop(number)
    assert all(psutil.pid_exists(pid) for pid in processes)

    second = await start_server(config=CONFIG, beside=first)
    listed = {kernel["id"] for kernel in await request(second, "GET", "kernels")}
    assert listed == {busy, idle}
    await state(second, idle, "idle")
    assert (await request(second, "GET", f"kernels/{busy}"))["execution_state"] == "busy"
    going.touch()
    await state(second, busy, "idle")
    assert await run(second, busy, "print(kept, os.getpid())") == f"42 {processes[0]}"
    assert await run(second, idle, "print(kept, os.getpid())") == f"41 {processes[1]}"

    async with sent(second, busy, faults.RUN_FOREVER) as (socket, msg_id):
        await printed(socket, msg_id, lambda text: "running" in text)
        await request(second, "POST", f"kernels/{busy}/interrupt")
        assert await printed(socket, msg_id) == "KeyboardInterrupt"
    assert await run(second, busy, "print(kept)") == "42"
    await request(second, "POST", f"kernels/{busy}/restart")
    assert await run(second, busy, "print('kept' in globals())") == "False"
    processes.append(int(await run(second, busy, "import os; print(os.getpid())")))
    for kernel in (busy, idle):
        await request(second, "DELETE", f"kernels/{kernel}")
    assert await request(second, "GET", "kernels") == []
    assert await second.stop() == 0
    left = [path.name for path in (second.home / "runtime").glob("kernel-*")]
    assert left == []


async def test_two_servers_in_one_folder_adopt_each_others_kernels_only_when_the_other_is_gone(
    start_server: StartServer, processes: list[int]
) -> None:
    first = await start_server(config=CONFIG)
    kernel = (await request(first, "POST", "kernels", {"name": "python3"}))["id"]
    processes.append(int(await run(first, kernel, "import os; print(os.getpid())")))
    second = await start_server(config=CONFIG, beside=first)
    assert await request(second, "GET", "kernels") == []
    await second.stop()
    await first.stop(signal.SIGKILL)
    third = await start_server(config=CONFIG, beside=first)
    assert [found["id"] for found in await request(third, "GET", "kernels")] == [kernel]
    await request(third, "DELETE", f"kernels/{kernel}")


async def test_kernels_are_shut_down_with_the_server_where_that_is_asked_for(
    start_server: StartServer, processes: list[int]
) -> None:
    asked = "c.PersistentMappingKernelManager.shutdown_on_exit = True"
    server = await start_server(config=f"{CONFIG}{asked}\n")
    kernel = (await request(server, "POST", "kernels", {"name": "python3"}))["id"]
    processes.append(int(await run(server, kernel, "import os; print(os.getpid())")))
    await server.stop()
    assert not psutil.pid_exists(processes[0])


async def test_a_notebook_keeps_its_kernel_as_the_documentation_configures_it(
    start_server: StartServer, processes: list[int], tmp_path: Path
) -> None:
    section = written()["docs/administrators.md"].partition("\n### Kernels that outlive")[2]
    documented = next(blocks(section, "python"))
    config = re.sub(r'"/home/[^"]*"', repr(str(tmp_path / "sessions.sqlite")), documented)
    assert config != documented
    first = await start_server(config=config)
    ran = await ask(first, "execute_ipython", "import os; kept = 41; os.getpid()")
    processes.append(int(ran["runs"][0]["output"]))
    await first.stop(signal.SIGKILL)

    second = await start_server(config=config, beside=first)
    assert (await ask(second, "execute_ipython", "kept"))["runs"][0]["output"] == "41"
    (kernel,) = await request(second, "GET", "kernels")
    await request(second, "DELETE", f"kernels/{kernel['id']}")


async def ask(server: ServerProcess, tool: str, source: str) -> Any:
    """What a tool answers that runs code in the kernel of a notebook."""
    path = server.root / "kept.ipynb"
    if not path.exists():
        nbformat.write(nbformat.v4.new_notebook(), path)
    given = {"notebook": path.name, "code": source}
    return await request(server, "POST", f"tk-ai/tools/{tool}", given)
