"""`nb` beside a running Jupyter Server: a person's live notebooks and kernels, by its extension."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from dataclasses import replace
from typing import Any

import pytest

from tests.cli.conftest import Nb
from tests.servers import ServerProcess, StartServer, start_server

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
    ran = await asyncio.to_thread(nb, "exec", "0-1")
    assert "42" in ran.out
    (kernel,) = await asyncio.to_thread(ask, server, "api/kernels")
    assert kernel["id"] == session["kernel"]["id"]
    assert "42" in (await asyncio.to_thread(nb, "cell", "1")).out
    await asyncio.to_thread(nb, "insert", "0", "y = 1")
    assert "42" in (await asyncio.to_thread(nb, "run", "x")).out
    refused = await asyncio.to_thread(nb, "cell", "nope", status=2)
    assert "cell_not_found" in refused.err
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


async def test_a_notebook_that_is_open_in_a_server_without_the_extension_is_left_alone(
    nb: Nb, start_server: StartServer
) -> None:
    server = await start_server(
        config="c.ServerApp.jpserver_extensions = {'tk_ai_extension': False}"
    )
    nb.root = server.root
    nb.environment["JUPYTER_RUNTIME_DIR"] = str(server.home / "runtime")
    path = nb.notebook("a.ipynb", "1")
    request = urllib.request.Request(
        f"{server.url}api/sessions",
        data=json.dumps(
            {"path": "a.ipynb", "type": "notebook", "name": "a", "kernel": {"name": "python3"}}
        ).encode(),
        headers={**server.headers, "Content-Type": "application/json"},
    )
    await asyncio.to_thread(urllib.request.urlopen, request, timeout=30)
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
