"""Two servers in one process do not meet."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_server.serverapp import ServerApp
from tornado.httpclient import AsyncHTTPClient
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from traitlets.config import Config

from tests.harness import end_server
from tests.server.conftest import Call


@pytest.fixture
async def second(jp_serverapp: Any, tmp_path: Path) -> AsyncIterator[tuple[str, Any]]:
    """Another server in this process, with a root of its own; its address and its extension."""
    root = tmp_path / "second"
    root.mkdir()
    nbformat.write(nbformat.v4.new_notebook(), root / "plan.ipynb")
    config = Config(jp_serverapp.config)
    config.IdentityProvider.token = "second"
    app = ServerApp(
        config=config, root_dir=str(root), allow_root=True, base_url="/", open_browser=False
    )
    app.init_signal = lambda: None
    app.initialize(argv=[], new_httpserver=False)
    socket, port = bind_unused_port()
    listening = HTTPServer(app.web_app)
    listening.add_socket(socket)
    (extension,) = app.extension_manager.extension_apps["tk_ai_extension"]
    yield f"http://127.0.0.1:{port}/api/tk-ai/tools/", extension
    listening.stop()
    await listening.close_all_connections()
    await end_server(app)


async def test_servers_share_no_state_of_callers(
    second: tuple[str, Any], extension: Any, call: Call, notebook: str
) -> None:
    address, other = second
    assert other.workspace is not extension.workspace

    async def call_second(tool: str, **arguments: Any) -> tuple[int, Any]:
        response = await AsyncHTTPClient().fetch(
            f"{address}{tool}?caller=me",
            method="POST",
            body=json.dumps(arguments),
            headers={"Authorization": "token second", "Content-Type": "application/json"},
            raise_error=False,
            request_timeout=60,
        )
        return response.code, json.loads(response.body)

    await call("use_notebook", notebook=notebook)
    _, ran = await call("execute_ipython", code="print('x\\n' * 9000)")
    await call("insert_cell", source="mine = 1")

    status, error = await call_second("list_cells")
    assert (status, error["error"]["code"]) == (409, "notebook_required")
    _, cells = await call_second("list_cells", notebook="plan.ipynb")
    assert cells["cells"] == []
    status, _ = await call_second("wait_execution", execution_id=ran["execution_id"])
    assert status == 404
    status, _ = await call_second("read_output", artifact=ran["runs"][0]["artifact"])
    assert status == 404
    _, history = await call_second("notebook_history", notebook="plan.ipynb")
    assert history["entries"] == []
    _, kernels = await call_second("list_running_kernels")
    assert kernels["kernels"] == []
