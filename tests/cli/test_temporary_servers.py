"""A server that was started for a command ends with its last user, in every order of their ends."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import urllib.request
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.cli.conftest import DEADLINE, NB, Nb
from tk_ai_extension.cli.project import HOST_LOCK, LAUNCH_LOCK

pytestmark = pytest.mark.proves("nb:starts")

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}


def waiting_notebook(nb: Nb, name: str) -> Path:
    """A notebook that runs until its pipe is written to."""
    pipe = nb.root / f"{name}.go"
    os.mkfifo(pipe)
    nb.notebook(f"{name}.ipynb", f"open({pipe.name!r}).read()")
    return pipe


async def once(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not is_so():
            await asyncio.to_thread(os.sched_yield)


def hosts(nb: Nb) -> list[psutil.Process]:
    return [each for each in nb.processes() if "tk_ai_extension.server.headless" in each.cmdline()]


async def host_of_run(nb: Nb) -> psutil.Process:
    """The server of a run, once its kernel runs."""
    await once(lambda: list(nb.root.glob(".nb/kernels/*.process")))
    (host,) = hosts(nb)
    return host


async def let_end(process: asyncio.subprocess.Process, pipe: Path) -> int:
    await asyncio.to_thread(pipe.write_text, "now")
    await process.communicate()
    assert process.returncode is not None
    return process.returncode


@pytest.mark.parametrize("word", ["run", "verify"])
async def test_the_end_of_a_run_ends_neither_jupyterlab_nor_a_session_of_mcp(
    nb: Nb, word: str
) -> None:
    pipe = waiting_notebook(nb, "a")
    run = await nb.start(word, "a.ipynb")
    host = await host_of_run(nb)
    agent = await nb.start("mcp")
    assert agent.stdin is not None
    assert agent.stdout is not None
    agent.stdin.write(json.dumps(HELLO).encode() + b"\n")
    await agent.stdout.readline()
    assert await let_end(run, pipe) == 0
    agent.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
    agent.stdin.write(b'{"jsonrpc":"2.0","id":2,"method":"ping"}\n')
    assert b'"id":2' in await asyncio.wait_for(agent.stdout.readline(), DEADLINE)
    if word == "verify":
        await agent.communicate(b"")
        # The session was the last user.
        await asyncio.to_thread(host.wait, DEADLINE)
        return
    url = (await asyncio.to_thread(nb, "lab", "--no-browser", "--json")).json["url"]
    await agent.communicate(b"")
    with await asyncio.to_thread(urllib.request.urlopen, url, timeout=30) as page:
        assert b"JupyterLab" in page.read()
    assert host.is_running()


async def test_of_two_commands_the_last_one_ends_the_server(nb: Nb) -> None:
    pipes = {name: waiting_notebook(nb, name) for name in "ab"}
    first = await nb.start("run", "a.ipynb")
    host = await host_of_run(nb)
    second = await nb.start("verify", "b.ipynb")
    await once(lambda: len(list(nb.root.glob(".nb/kernels/*.process"))) == 2)
    assert await let_end(first, pipes["a"]) == 0
    assert host.is_running()
    assert await let_end(second, pipes["b"]) == 0
    await asyncio.to_thread(host.wait, DEADLINE)
    assert not (nb.root / ".nb").exists()


async def test_what_is_opened_meanwhile_keeps_the_server(nb: Nb) -> None:
    pipe = waiting_notebook(nb, "a")
    nb.notebook("b.ipynb", "1")
    run = await nb.start("run", "a.ipynb")
    host = await host_of_run(nb)
    await asyncio.to_thread(nb, "cells", "b.ipynb")
    await asyncio.to_thread(nb, "open", "b.ipynb")
    await asyncio.to_thread(nb, "stop", "b.ipynb")
    assert await let_end(run, pipe) == 0
    assert (await asyncio.to_thread(nb, "status", "--json")).json["host"] == host.pid


@pytest.mark.parametrize(("word", "part"), [("run", "launch.lock"), ("verify", "nb.sock")])
async def test_a_command_that_is_killed_during_the_start_leaves_no_server(
    nb: Nb, word: str, part: str
) -> None:
    nb.notebook("a.ipynb", "1")
    run = await nb.start(word, "a.ipynb")
    await once((nb.root / ".nb" / part).exists)
    if part == "launch.lock":
        await once(lambda: hosts(nb))
    run.kill()
    await run.wait()
    for host in hosts(nb):
        await asyncio.to_thread(host.wait, DEADLINE)
    assert not (nb.root / ".nb").exists()


@pytest.mark.parametrize("source", ["null", "file", "closed"])
@pytest.mark.usefixtures("fresh_processes")
async def test_mcp_reads_any_kind_of_input_and_leaves_no_server(nb: Nb, source: str) -> None:
    text = nb.root / "input"
    text.write_text(f"{json.dumps(HELLO)}\n")
    command = {"null": '"$@" < /dev/null', "file": '"$@" < input', "closed": '"$@" <&-'}[source]
    process = await asyncio.create_subprocess_exec(
        "sh",
        *("-c", command, "sh", *NB, "mcp"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=nb.root,
        env=nb.environment,
    )
    _, err = await process.communicate()
    assert (process.returncode, err) == (0, b"")
    if source == "null":
        for host in hosts(nb):
            await asyncio.to_thread(host.wait, DEADLINE)
        assert not (nb.root / ".nb").exists()


async def test_a_server_that_is_stopping_is_waited_for(nb: Nb) -> None:
    nb.notebook("a.ipynb", "1")
    folder = nb.root / ".nb"
    folder.mkdir(mode=0o700)
    with (folder / HOST_LOCK).open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        opening = await nb.start("open", "a.ipynb")
        await once((folder / LAUNCH_LOCK).exists)
        # As the server does at its end.
        for name in (HOST_LOCK, LAUNCH_LOCK, ".gitignore"):
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()
    _, err = await opening.communicate()
    assert (opening.returncode, err) == (0, b"")
    assert len(hosts(nb)) == 1
