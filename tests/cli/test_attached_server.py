"""`nb` with a running Jupyter Server: a person's live notebooks and kernels, by its extension."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Nb
from tests.cli.test_mcp_command import connected, text
from tests.servers import ServerProcess, StartServer, start_server

__all__ = ["start_server"]


@pytest.fixture
async def server(start_server: StartServer) -> ServerProcess:
    return await start_server()


@pytest.fixture
def attached(nb: Nb, server: ServerProcess) -> Nb:
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
    attached: Nb, server: ServerProcess
) -> None:
    attached.notebook("a.ipynb", "x = 6 * 7", "print(x)")
    nb = attached
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


@pytest.mark.proves("nb:collaborate", "nb:sandbox")
async def test_a_folder_below_the_servers_has_its_own_names_and_setting_of_a_sandbox(
    attached: Nb, server: ServerProcess
) -> None:
    below = replace(attached, root=server.root / "deep" / "project")
    below.notebook("a.ipynb", "1")
    read = await asyncio.to_thread(below, "read", "a.ipynb")
    assert read.out.startswith("# %% notebook: deep/project/a.ipynb rev:")
    written = await asyncio.to_thread(below, "write", stdin=read.out + "# %% [code]\n2\n")
    assert "a.ipynb: 2 cells" in written.out
    assert len(below.read("a.ipynb").cells) == 2
    history = await asyncio.to_thread(
        ask_tool, server, "notebook_history", {"notebook": "deep/project/a.ipynb"}
    )
    assert history["entries"]

    folder = below.root / ".nb"
    folder.mkdir(mode=0o700, exist_ok=True)
    settings = '{"server": null, "sandbox": true, "shared": null}'
    await asyncio.to_thread((folder / "project.json").write_text, settings)
    edits = '[{"action": "insert", "index": 0, "source": "2"}]'
    refused = await asyncio.to_thread(below, "apply", edits, "--run", "-n", "a.ipynb", status=None)
    assert "have no sandbox" in refused.err
    assert refused.status
    assert not await asyncio.to_thread(ask, server, "api/kernels")


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
    server = await start_server(config="c.ServerApp.jpserver_extensions['tk_ai_extension'] = False")
    nb.root = server.root
    nb.environment["JUPYTER_RUNTIME_DIR"] = str(server.home / "runtime")
    return server


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


@pytest.mark.proves("nb:collaborate")
async def test_a_notebook_that_is_open_in_a_server_without_the_extension_is_not_changed(
    nb: Nb, stranger: ServerProcess
) -> None:
    path = nb.notebook("a.ipynb", "x = 1")
    await asyncio.to_thread(open_tab, stranger)
    before = path.read_bytes()
    ended = await asyncio.to_thread(nb, "insert", "0", "2", "-n", "a.ipynb", status=None)
    assert ended.status in (2, 3)
    assert path.read_bytes() == before


@pytest.mark.proves("nb:collaborate")
async def test_a_server_elsewhere_is_worked_in_by_its_address(
    nb: Nb, start_server: StartServer
) -> None:
    server = await start_server()
    nb.notebook("here.ipynb", "1")
    nb.environment["NB_SERVER"] = f"{server.url}lab?token={server.token}"
    opened = await asyncio.to_thread(nb, "open", "there.ipynb")
    assert "there.ipynb" in opened.out
    await asyncio.to_thread(nb, "insert", "0", "print(6 * 7)")
    assert "42" in (await asyncio.to_thread(nb, "exec", "0")).out
    assert (server.root / "there.ipynb").exists()
    assert not (nb.root / "there.ipynb").exists()
    (kernel,) = (await asyncio.to_thread(nb, "status", "--json")).json["kernels"]
    assert kernel["notebooks"] == ["there.ipynb"]
    gone = {"NB_SERVER": "http://127.0.0.1:1/"}
    unknown = await asyncio.to_thread(nb, "open", "x.ipynb", env=gone, status=3)
    assert "server_unreachable" in unknown.err
    await server.stop()
    assert "server_unreachable" in (await asyncio.to_thread(nb, "cells", status=3)).err
    del nb.environment["NB_SERVER"]
    await asyncio.to_thread(nb, "open", "here.ipynb")
    assert "1 cell" in (await asyncio.to_thread(nb, "cells")).out


def meets(nb: Nb, server: ServerProcess) -> Path:
    """Lets `nb` find a server that it has not seen before; the file that names it."""
    (file,) = (server.home / "runtime").glob("jpserver-*[0-9].json")
    met = Path(nb.environment["JUPYTER_RUNTIME_DIR"], file.name)
    met.write_bytes(file.read_bytes())
    return met


@pytest.mark.proves("nb:collaborate")
async def test_an_agents_calls_go_to_a_server_that_starts_later(
    nb: Nb, start_server: StartServer
) -> None:
    server = await start_server()
    nb.root = server.root
    nb.notebook("a.ipynb", "x = 1")
    for mode in ("auto", "legacy"):
        async with connected(nb, mode=mode) as client:
            await client.call_tool("use_notebook", {"notebook": "a.ipynb"})
            met = await asyncio.to_thread(meets, nb, server)
            # That server knows no current notebook yet.
            unknown = await client.call_tool("read_cell", {"cell": 0})
            assert unknown.structured_content["error"]["code"] == "invalid_arguments"
            await client.call_tool("use_notebook", {"notebook": "a.ipynb"})
            ran = await client.call_tool("insert_and_execute_cell", {"source": "print(6 * 7)"})
            assert "42" in text(ran)
            there = ran.structured_content["execution_id"]
            again = await client.call_tool("wait_execution", {"execution_id": there})
            assert again.structured_content["status"] == "ok"
            many = await asyncio.gather(
                *(client.call_tool("read_cell", {"cell": cell}) for cell in (0, 1) * 5)
            )
            sources = [read.structured_content["source"] for read in many]
            assert sources[:2] == ["x = 1", "print(6 * 7)"]
        await asyncio.to_thread(met.unlink)
        history = await asyncio.to_thread(
            ask_tool, server, "notebook_history", {"notebook": "a.ipynb"}
        )
        assert history["entries"]
