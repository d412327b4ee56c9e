"""`nb` beside a running Jupyter Server: a person's live notebooks and kernels, by its extension."""

from __future__ import annotations

import asyncio
import json
import os
import urllib.request
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.cli.conftest import Nb
from tests.cli.test_mcp import connected
from tests.servers import ServerProcess, StartServer, start_server
from tk_ai_extension.cli.headless import Headless
from tk_ai_extension.cli.project import Project
from tk_ai_extension.cli.remote import RemoteTools
from tk_ai_extension.cli.servers import Server, ServerUnreachable
from tk_ai_extension.model.errors import UnknownTool
from tk_ai_extension.tools.context import ToolContext

__all__ = ["start_server"]


@pytest.fixture
async def server(start_server: StartServer) -> ServerProcess:
    return await start_server()


@pytest.fixture
def beside(nb: Nb, server: ServerProcess) -> Nb:
    """`nb` in the server's folder, as the same user."""
    nb.root = server.root
    nb.environment["JUPYTER_RUNTIME_DIR"] = str(server.home / "runtime")
    return nb


def ask(server: ServerProcess, path: str) -> Any:
    request = urllib.request.Request(server.url + path, headers=server.headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


@pytest.mark.proves("nb:collaborate")
async def test_a_notebook_of_a_running_server_is_the_servers(
    beside: Nb, server: ServerProcess
) -> None:
    beside.notebook("a.ipynb", "x = 6 * 7", "print(x)")
    nb = beside
    await asyncio.to_thread(nb, "open", "a.ipynb")
    (session,) = await asyncio.to_thread(ask, server, "api/sessions")
    assert session["path"] == "a.ipynb"
    ran = await asyncio.to_thread(nb, "exec", "0-1", "--json")
    assert "42" in ran.out
    watched = await asyncio.to_thread(nb, "watch", "--json")
    assert watched.json["execution_id"] == ran.json["execution_id"]
    (kernel,) = await asyncio.to_thread(ask, server, "api/kernels")
    assert kernel["id"] == session["kernel"]["id"]
    assert "42" in (await asyncio.to_thread(nb, "cell", "1")).out
    await asyncio.to_thread(nb, "insert", "0", "y = 1")
    assert "42" in (await asyncio.to_thread(nb, "run", "x")).out
    refused = await asyncio.to_thread(nb, "cell", "nope", status=2)
    assert "cell_not_found" in refused.err
    change = ("edit", "1", "x = 0", "-n", "a.ipynb")
    unseen = await asyncio.to_thread(nb, *change, env={"NB_CALLER": "b"}, status=2)
    assert "conflict" in unseen.err
    assert "x = 6 * 7" in unseen.err
    await asyncio.to_thread(nb, "shutdown")
    assert await asyncio.to_thread(ask, server, "api/kernels")


@pytest.mark.proves("nb:collaborate")
async def test_a_folder_below_the_servers_names_notebooks_as_it_does_itself(
    beside: Nb, server: ServerProcess
) -> None:
    below = replace(beside, root=server.root / "deep" / "project")
    below.notebook("a.ipynb", "1")
    read = await asyncio.to_thread(below, "read", "a.ipynb")
    assert read.out.startswith("# %% notebook: a.ipynb rev:")
    written = await asyncio.to_thread(below, "write", stdin=read.out + "# %% [code]\n2\n")
    assert "a.ipynb: 2 cells" in written.out
    assert len(below.read("a.ipynb").cells) == 2
    history = await asyncio.to_thread(
        ask_tool, server, "notebook_history", {"notebook": "deep/project/a.ipynb"}
    )
    assert history["entries"]


def ask_tool(server: ServerProcess, name: str, arguments: dict[str, Any]) -> Any:
    request = urllib.request.Request(
        f"{server.url}api/tk-ai/tools/{name}",
        data=json.dumps(arguments).encode(),
        headers={**server.headers, "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


@pytest.fixture
async def stranger(nb: Nb, start_server: StartServer) -> ServerProcess:
    """A server without the extension, which `nb` finds."""
    server = await start_server(
        config="c.ServerApp.jpserver_extensions = {'tk_ai_extension': False}"
    )
    nb.root = server.root
    nb.environment["JUPYTER_RUNTIME_DIR"] = str(server.home / "runtime")
    return server


def rewrite_entry(server: ServerProcess, **changes: Any) -> None:
    """Changes what the file in the runtime folder says of a server."""
    (file,) = (server.home / "runtime").glob("jpserver-*.json")
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def open_tab(server: ServerProcess) -> None:
    """Has a server think that a person has `a.ipynb` open."""
    request = urllib.request.Request(
        f"{server.url}api/sessions",
        data=json.dumps(
            {"path": "a.ipynb", "type": "notebook", "name": "a", "kernel": {"name": "python3"}}
        ).encode(),
        headers={**server.headers, "Content-Type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=30).close()


async def test_a_notebook_that_is_open_in_a_server_without_the_extension_is_left_alone(
    nb: Nb, stranger: ServerProcess
) -> None:
    path = nb.notebook("a.ipynb", "1")
    await asyncio.to_thread(open_tab, stranger)
    before = path.read_bytes()
    refused = await asyncio.to_thread(nb, "insert", "0", "2", "-n", "a.ipynb", status=2)
    assert "open_elsewhere" in refused.err
    assert path.read_bytes() == before


async def test_a_server_that_is_gone_leaves_its_notebooks_to_whoever_comes(
    beside: Nb, server: ServerProcess
) -> None:
    beside.notebook("a.ipynb", "1")
    await server.stop(9)
    await asyncio.to_thread(beside, "insert", "0", "2", "-n", "a.ipynb")
    assert len(beside.read("a.ipynb").cells) == 2


@pytest.mark.proves("nb:collaborate")
async def test_a_server_elsewhere_is_worked_in_by_its_address(
    nb: Nb, start_server: StartServer
) -> None:
    server = await start_server()
    address = f"{server.url}lab?token={server.token}"
    nb.notebook("here.ipynb", "1")
    opened = await asyncio.to_thread(nb, "open", "there.ipynb", "--server", address)
    assert "there.ipynb" in opened.out
    await asyncio.to_thread(nb, "insert", "0", "print(6 * 7)")
    assert "42" in (await asyncio.to_thread(nb, "exec", "0")).out
    assert (server.root / "there.ipynb").exists()
    assert not (nb.root / "there.ipynb").exists()
    (kernel,) = (await asyncio.to_thread(nb, "status", "--json")).json["kernels"]
    assert kernel["notebooks"] == ["there.ipynb"]
    assert (nb.root / ".nb" / "project.json").stat().st_mode & 0o777 == 0o600
    unknown = await asyncio.to_thread(
        nb, "open", "x.ipynb", "--server", "http://127.0.0.1:1/", status=3
    )
    assert "server_unreachable" in unknown.err
    await server.stop()
    assert "server_unreachable" in (await asyncio.to_thread(nb, "cells", status=3)).err
    await asyncio.to_thread(nb, "open", "here.ipynb", "--server", "none")
    assert "1 cells" in (await asyncio.to_thread(nb, "cells")).out


@pytest.mark.proves("nb:collaborate")
async def test_a_notebook_that_is_open_elsewhere_is_read_and_not_run(
    nb: Nb, stranger: ServerProcess
) -> None:
    path = nb.notebook("a.ipynb", "x = 1")
    await asyncio.to_thread(nb, "open", "a.ipynb")
    await asyncio.to_thread(open_tab, stranger)
    before = path.read_bytes()
    assert "x = 1" in (await asyncio.to_thread(nb, "read")).out
    assert (await asyncio.to_thread(nb, "status", "--json")).json["notebook"] == "a.ipynb"
    for words in (["exec", "0"], ["save"]):
        refused = await asyncio.to_thread(nb, *words, status=2)
        assert "open_elsewhere" in refused.err
    assert path.read_bytes() == before


@pytest.mark.proves("nb:collaborate")
async def test_a_server_that_does_not_let_us_in_is_not_taken_for_gone(
    nb: Nb, stranger: ServerProcess
) -> None:
    # As a server with a password writes it.
    rewrite_entry(stranger, token="")
    path = nb.notebook("a.ipynb", "x = 1")
    await asyncio.to_thread(open_tab, stranger)
    before = path.read_bytes()
    refused = await asyncio.to_thread(nb, "insert", "0", "2", "-n", "a.ipynb", status=2)
    assert "open_elsewhere" in refused.err
    assert "nb open NOTEBOOK --server URL" in refused.err
    assert path.read_bytes() == before
    assert "x = 1" in (await asyncio.to_thread(nb, "read", "a.ipynb")).out


@pytest.mark.proves("nb:collaborate")
async def test_a_server_that_cannot_be_understood_is_not_taken_for_gone(
    nb: Nb, stranger: ServerProcess
) -> None:
    # TLS fails there, as it does with a certificate that nobody vouches for.
    rewrite_entry(stranger, url=stranger.url.replace("http:", "https:"))
    path = nb.notebook("a.ipynb", "x = 1")
    before = path.read_bytes()
    refused = await asyncio.to_thread(nb, "insert", "0", "2", "-n", "a.ipynb", status=2)
    assert "open_elsewhere" in refused.err
    assert path.read_bytes() == before
    await asyncio.to_thread(nb, "read", "a.ipynb")


@pytest.mark.proves("nb:collaborate")
async def test_what_began_here_ends_here_though_a_server_starts_meanwhile(
    nb: Nb, start_server: StartServer
) -> None:
    server = await start_server()
    nb.root = server.root
    nb.notebook("a.ipynb", "input_file = open('go').read()", "print(6 * 7)")
    os.mkfifo(nb.root / "go")
    await asyncio.to_thread(nb, "open", "a.ipynb")
    begun = (await asyncio.to_thread(nb, "exec", "0-1", "--wait", "1", "--json")).json
    # The host has not seen the server before; now it does.
    for file in (server.home / "runtime").glob("jpserver-*.json"):
        (Path(nb.environment["JUPYTER_RUNTIME_DIR"]) / file.name).write_bytes(file.read_bytes())
    watched = await asyncio.to_thread(nb, "watch", begun["execution_id"], "--wait", "1", "--json")
    assert watched.json["status"] in ("queued", "running")
    assert "server" not in (await asyncio.to_thread(nb, "status", "--json")).json
    assert (await asyncio.to_thread(nb, "kernel")).out
    # Whoever opens it to write waits for the cell to read.
    await asyncio.to_thread((nb.root / "go").write_text, "now")
    ended = await asyncio.to_thread(nb, "watch", begun["execution_id"], "--json")
    assert ended.json["status"] == "ok"
    assert "42" in str(nb.read("a.ipynb").cells[1].outputs)
    assert not await asyncio.to_thread(ask, server, "api/kernels")
    assert "server" in (await asyncio.to_thread(nb, "status", "--json")).json
    await asyncio.to_thread(nb, "insert", "0", "y = 1")
    history = await asyncio.to_thread(ask_tool, server, "notebook_history", {"notebook": "a.ipynb"})
    assert history["entries"]


@pytest.mark.proves("nb:sandbox")
async def test_edits_that_run_do_not_run_in_a_servers_kernel_where_a_sandbox_is_wanted(
    beside: Nb, server: ServerProcess
) -> None:
    beside.notebook("a.ipynb", "1")
    folder = beside.root / ".nb"
    folder.mkdir(mode=0o700)
    (folder / "project.json").write_text('{"server": null, "sandbox": true, "shared": null}')
    edits = '[{"action": "insert", "index": 0, "source": "2"}]'
    refused = await asyncio.to_thread(beside, "apply", edits, "--run", "-n", "a.ipynb", status=None)
    assert "sandbox_unavailable" in refused.err
    assert refused.status
    assert not await asyncio.to_thread(ask, server, "api/kernels")
    await asyncio.to_thread(beside, "apply", edits, "-n", "a.ipynb")


@asynccontextmanager
async def remote_tools(
    folder: Path, server: ServerProcess, **options: Any
) -> AsyncGenerator[tuple[Headless, RemoteTools]]:
    """A host without kernels, and the tools of a server that it is attached to."""
    headless = await Headless.without_kernels(Project(str(folder)))
    remote = RemoteTools(Server(server.url, server.token), **options)
    try:
        yield headless, remote
    finally:
        await remote.close()
        await headless.close()


async def test_a_connection_to_a_server_that_is_given_up_is_closed(
    tmp_path: Path, server: ServerProcess
) -> None:
    async with remote_tools(tmp_path, server) as (headless, remote):
        context = ToolContext(headless.workspace, headless.caller())
        tool = headless.registry.get("list_kernels")
        before = asyncio.all_tasks()
        await remote.call(tool, {}, context)
        line = asyncio.all_tasks() - before
        assert line
        # The protocol's own errors are told as what they are, and the connection is kept.
        with pytest.raises(UnknownTool, match="no tool `nonsense`"):
            await remote.call(replace(tool, name="nonsense"), {}, context)
        await remote.call(tool, {}, context)
        await server.stop(9)
        with pytest.raises(ServerUnreachable):
            await remote.call(tool, {}, context)
        _, left = await asyncio.wait(line, timeout=30)
        assert not left


@pytest.mark.proves("nb:connections")
async def test_callers_beyond_a_bound_and_those_that_are_gone_keep_no_connection(
    tmp_path: Path, server: ServerProcess
) -> None:
    async with remote_tools(tmp_path, server, connections=2) as (headless, remote):
        tool = headless.registry.get("list_kernels")
        opened: list[set[asyncio.Task[Any]]] = []

        async def call(key: str) -> None:
            before = asyncio.all_tasks()
            await remote.call(tool, {}, ToolContext(headless.workspace, headless.caller(key)))
            opened.append(asyncio.all_tasks() - before)

        async def closed(number: int) -> None:
            assert opened[number]
            _, left = await asyncio.wait(opened[number], timeout=30)
            assert not left

        await call("a")
        await call("b")
        await call("a")
        assert not opened[2]
        await call("c")
        await closed(1)
        remote.release(headless.caller("a"))
        await closed(0)
        assert not any(task.done() for task in opened[3])
        await call("a")
        assert opened[4]


@pytest.mark.proves("nb:connections")
async def test_a_client_that_goes_leaves_no_connection_to_the_server(
    beside: Nb, server: ServerProcess
) -> None:
    beside.notebook("a.ipynb", "1")
    port = int(server.url.rpartition(":")[2].partition("/")[0])

    def connections() -> int:
        found = psutil.Process(beside.host).net_connections("tcp")
        return sum(bool(each.raddr) and each.raddr.port == port for each in found)

    async with connected(beside) as client:
        await client.call_tool("read_notebook", {"notebook": "a.ipynb"})
        assert await asyncio.to_thread(connections)
    async with asyncio.timeout(30):
        while await asyncio.to_thread(connections):
            pass
