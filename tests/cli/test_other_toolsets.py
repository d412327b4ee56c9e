"""`nb mcp --toolsets`: the other toolsets without a Jupyter Server, and with a running one."""

from __future__ import annotations

import asyncio
import os
import signal

import psutil
import pytest

from tests.cli.conftest import Nb
from tests.cli.test_attached_server import ask_tool, attached, server, start_server
from tests.cli.test_mcp_command import connected, text
from tests.cli.test_sandbox_option import works
from tests.servers import ServerProcess

__all__ = ["attached", "server", "start_server"]


@pytest.mark.proves("kernel:python-session", "kernel:bridge", "edit:relative-path", "nb:cleanup")
async def test_python_and_notebook_work_in_the_projects_folder_until_its_host_ends(nb: Nb) -> None:
    nb.notebook("deep/a.ipynb", "x = 1")
    async with connected(nb, "--toolsets", "default,omp") as client:
        call = {
            "action": "insert",
            "path": "deep/a.ipynb",
            "cell_index": 1,
            "content": "y = 2",
        }
        assert not (await client.call_tool("notebook", call)).is_error
        code = (
            "import os, tool_bridge\n"
            "read = tool_bridge.call('read_cell', notebook='deep/a.ipynb', cell=1)\n"
            "print(os.path.basename(os.getcwd()), read['source'])"
        )
        ran = await client.call_tool("python", {"cells": [{"code": code}], "cwd": "deep"})
        assert "deep y = 2" in text(ran)
        again = await client.call_tool(
            "python", {"cells": [{"code": "read['source']"}], "cwd": "deep"}
        )
        assert "y = 2" in text(again)
        assert len(nb.processes()) == 2  # the host and the kernel
    assert [cell.source for cell in nb.read("deep/a.ipynb").cells] == ["x = 1", "y = 2"]
    os.kill(nb.host, signal.SIGTERM)
    _, alive = await asyncio.to_thread(psutil.wait_procs, nb.processes(), 30)
    assert alive == []


@works
@pytest.mark.proves("nb:sandbox", "kernel:python-session")
async def test_code_in_a_sandbox_gets_an_error_when_it_calls_the_tools(nb: Nb) -> None:
    nb.notebook("deep/a.ipynb", "x = 1")
    nb("open", "--sandbox", "deep/a.ipynb")
    code = (
        "import os, tool_bridge\n"
        "print(os.listdir(), [name for name in os.environ if 'ARTIFACTS' in name or 'PI_' in name])\n"
        "try: tool_bridge.call('read_cell', notebook='deep/a.ipynb', cell=0)\n"
        "except tool_bridge.ToolError as error: print(error.code, error, error.hint)"
    )
    async with connected(nb, "--toolsets", "omp") as client:
        for session in (None, "s"):
            call = {"cells": [{"code": code}], "cwd": "deep", "session": session}
            ran = await client.call_tool("python", call)
            assert not ran.is_error, text(ran)
            assert "['a.ipynb'] []" in text(ran)
            assert "permission_denied There is no bridge here" in text(ran)
            assert "Code in a sandbox or behind a gateway cannot call tools" in text(ran)
    await asyncio.to_thread(nb, "shutdown")
    assert nb.processes() == []


@pytest.mark.proves("nb:collaborate", "edit:notebookedit")
async def test_a_notebook_of_a_running_server_is_changed_there(
    attached: Nb, server: ServerProcess
) -> None:
    path = attached.notebook("a.ipynb", "x = 1")
    async with connected(attached, "--toolsets", "claude-code,omp") as client:
        edit = {
            "notebook_path": str(path),
            "cell_id": "cell-1",
            "new_source": "y = 2",
            "cell_type": "code",
        }
        edited = await client.call_tool("NotebookEdit", edit)
        assert not edited.is_error, text(edited)
        call = {"action": "insert", "path": "a.ipynb", "cell_index": 2, "content": "z = 3"}
        inserted = await client.call_tool("notebook", call)
        assert not inserted.is_error, text(inserted)
        write = (
            "import tool_bridge\n"
            "call = dict(action='insert', path='a.ipynb', cell_index=3, content='w = 4')\n"
            "tool_bridge.call('notebook', **call)"
        )
        ran = await client.call_tool("python", {"cells": [{"code": write}]})
        assert not ran.is_error, text(ran)
    history = await asyncio.to_thread(ask_tool, server, "notebook_history", {"notebook": "a.ipynb"})
    tools = [entry["tool"] for entry in history["entries"]]
    assert tools == ["notebook", "notebook", "NotebookEdit"]
    sources = [cell.source for cell in attached.read("a.ipynb").cells]
    assert sources == ["x = 1", "y = 2", "z = 3", "w = 4"]
