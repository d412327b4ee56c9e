"""What the cullers of a real JupyterHub and of Jupyter Server leave running, and what they end.

The tests ask alice's server nothing while a culler looks: a request through the proxy is activity.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import httpx2
import nbformat
import pytest
import pytest_asyncio
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from tests.hub.conftest import KERNEL_IDLE
from tests.hub.hubs import Hub
from tests.servers import Log

pytestmark = [pytest.mark.soak, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

IDLE = 12
"""Seconds after which the idle culler ends a server: more than between two pings of a page."""
LOOKS = 15
"""So many looks of the culler, one a second, survives no server and no kernel without work."""
CULLED_KERNEL = "Culling 'idle' kernel"
STOPPED = "User alice server took"
"""What the Hub says once it has stopped her server."""


@pytest_asyncio.fixture(loop_scope="module")
async def alice(hub: Hub) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of alice's server, which is started, and has a notebook with a kernel."""
    cells = [nbformat.v4.new_code_cell("print(6 * 7)")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), hub.work("alice") / "plan.ipynb")
    token = await hub.start_server("alice")
    async with httpx2.AsyncClient(
        base_url=f"{hub.server('alice')}api/tk-ai/",
        headers={"Authorization": f"Bearer {token}", "X-TK-Caller": "an-agent"},
        timeout=60,
    ) as http:
        used = await http.post("tools/use_notebook", json={"notebook": "plan.ipynb"})
        assert used.status_code == 200, used.text
        yield http


@pytest.mark.proves("hub:tokens")
async def test_a_running_cell_keeps_its_kernel_and_its_server_until_it_ends(
    hub: Hub, alice: httpx2.AsyncClient
) -> None:
    stopped = hub.log.count(STOPPED)
    go, ran = hub.folder / "go", hub.folder / "ran"
    code = (
        f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.05)\n"
        f"open({str(ran)!r}, 'w').close()"
    )
    run = {"notebook": "plan.ipynb", "code": code, "wait": 0}
    answer = await alice.post("tools/execute_ipython", json=run)
    assert answer.json()["status"] in {"queued", "running"}, answer.text
    # One that nobody works in.
    await hub.start_server("bob")
    async with hub.idle_culler(IDLE) as culler:
        await culler.line("Culling server bob", 120)
        await _looks(culler)
        assert await hub.servers() == {"alice"}
        assert not ran.exists()
        culled = hub.log.count(CULLED_KERNEL)
        go.touch()
        await hub.log.counted(CULLED_KERNEL, culled + 1)
        assert ran.exists()
        await hub.log.counted(STOPPED, stopped + 1, 120)


@pytest.mark.proves("hub:tokens")
async def test_a_turn_that_waits_for_approval_keeps_its_kernel_and_its_server_until_it_ends(
    hub: Hub, alice: httpx2.AsyncClient
) -> None:
    culled, stopped = hub.log.count(CULLED_KERNEL), hub.log.count(STOPPED)
    message = {"message": "start", "notebook": "plan.ipynb", "mode": "ask"}
    turn = asyncio.create_task(alice.post("mcp/chat", json=message, timeout=300))
    asked = ""
    async with alice.stream(
        "GET", "permissions", headers={"Accept": "text/event-stream"}
    ) as events:
        async for line in events.aiter_lines():
            event = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {}
            if "permission" in event:
                asked = event["permission"]["id"]
                break
    async with hub.idle_culler(IDLE) as culler:
        await _looks(culler)
        assert await hub.servers() == {"alice"}
        assert hub.log.count(CULLED_KERNEL) == culled
        await alice.post(f"permissions/{asked}", json={"answer": "deny"})
        assert (await turn).status_code == 200
        await hub.log.counted(CULLED_KERNEL, culled + 1)
        await hub.log.counted(STOPPED, stopped + 1, 120)


@pytest.mark.proves("hub:tokens")
async def test_clients_that_only_listen_do_not_keep_a_server(
    hub: Hub, alice: httpx2.AsyncClient
) -> None:
    stopped = hub.log.count(STOPPED)
    # The channel of an open page, which answers its pings.
    address = f"{hub.server('alice').replace('http', 'ws', 1)}api/tk-ai/tabs?client=an-open-page"
    headers = {"Authorization": alice.headers["Authorization"]}
    page = await websocket_connect(HTTPRequest(address, headers=headers))
    async with (
        alice.stream("GET", "permissions", headers={"Accept": "text/event-stream"}) as events,
        hub.idle_culler(IDLE),
    ):
        assert events.status_code == 200
        await hub.log.counted(STOPPED, stopped + 1, 120)
    page.close()


async def _looks(culler: Log) -> None:
    """Waits until the culler has left alice's server running for longer than one without work."""
    assert LOOKS > KERNEL_IDLE + 2
    part = "Not culling server alice"
    await culler.counted(part, culler.count(part) + LOOKS, 120)
