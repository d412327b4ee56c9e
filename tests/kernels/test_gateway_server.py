"""A Jupyter Server that is started with ``--gateway-url``: the tools, as every user gets them there."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import nbformat
import pytest

from tests.kernels.gateways import running_gateway
from tests.servers import ServerProcess, StartServer, slowness, start_server
from tests.support import faults
from tests.support.proxy import Proxy, proxy_to

__all__ = ["start_server"]


@pytest.fixture
async def network(tmp_path: Path) -> AsyncIterator[tuple[Proxy, str]]:
    """The network between a server and its gateway, and the gateway's token."""
    async with (
        running_gateway(tmp_path / "gateway") as gateway,
        proxy_to(gateway.url) as proxy,
    ):
        yield proxy, gateway.token


class Person:
    """A person who uses a server over REST."""

    def __init__(self, server: ServerProcess) -> None:
        self._http = httpx2.AsyncClient(base_url=server.url, headers=server.headers, timeout=60)

    async def get(self, path: str) -> Any:
        return (await self._http.get(path)).json()

    async def call(self, tool: str, **arguments: Any) -> Any:
        path = f"api/tk-ai/tools/{tool}?caller=me&toolsets=default,omp"
        return (await self._http.post(path, json=arguments)).json()

    async def close(self) -> None:
        await self._http.aclose()


@pytest.mark.proves("fault:connection-lost", "fault:server-stop", "ext:session-visible")
@pytest.mark.proves("kernel:env")
async def test_the_tools_work_in_kernels_of_a_gateway(
    start_server: StartServer, network: tuple[Proxy, str], tmp_path: Path
) -> None:
    proxy, token = network
    server = await start_server(
        f"--gateway-url={proxy.url}",
        f"--GatewayClient.auth_token={token}",
        config='c.ServerApp.jpserver_extensions["jupyter_server_ydoc"] = False\n',
    )
    go, ran = tmp_path / "go", tmp_path / "ran"
    counted = f"open({str(ran)!r}, 'a').write('once')\n{faults.run_until(go)}"
    cells = [nbformat.v4.new_code_cell(source) for source in ("print(6 * 7)", counted)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), server.root / "plan.ipynb")
    person = Person(server)
    assert (await person.get("api/tk-ai/health"))["backends"]["executor"] == "gateway"

    used = await person.call("use_notebook", notebook="plan.ipynb")
    (session,) = await person.get("api/sessions")
    assert (session["path"], session["kernel"]["id"]) == ("plan.ipynb", used["kernel_id"])
    (kernel,) = (await person.call("list_running_kernels"))["kernels"]
    assert (kernel["backend"], kernel["notebooks"]) == ("gateway", ["plan.ipynb"])
    answer = await person.call("execute_cell", cell=0)
    assert answer["status"] == "ok", answer
    written = nbformat.read(server.root / "plan.ipynb", as_version=4)
    assert written.cells[0].outputs[0].text == "42\n"

    show = "import os\nprint([name for name in os.environ if name.startswith(('TK_AI', 'PI_'))])"
    python = await person.call("python", cells=[{"code": show}])
    assert python["runs"][0]["output"] == "[]", python
    bridge = [{"code": "import tool_bridge\ntool_bridge.call('list_kernels')"}]
    python = await person.call("python", cells=bridge)
    assert "behind a gateway cannot call tools" in str(python["runs"])

    running = await person.call("execute_cell", cell=1, wait=0)
    waited = {"execution_id": running["execution_id"], "wait": 0.2}
    while "waiting" not in str(await person.call("wait_execution", **waited)):
        continue
    await proxy.cut()
    lost = await person.call("wait_execution", execution_id=running["execution_id"])
    assert lost["status"] == "connection_lost"
    assert "whether the code ran to its end is unknown" in str(lost)
    go.touch()
    answer = await person.call("execute_cell", cell=0)
    assert answer["status"] == "ok", answer
    assert ran.read_text() == "once"

    await proxy.close()
    began = time.monotonic()
    refused = await person.call("list_kernels")
    assert refused["error"]["code"] == "gateway_unavailable"
    assert time.monotonic() - began < 5 * slowness()
    await proxy.open()
    await person.close()
    began = time.monotonic()
    await server.stop()
    assert time.monotonic() - began < 5 * slowness()
