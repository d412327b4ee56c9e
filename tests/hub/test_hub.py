"""A real JupyterHub with its proxy: who reaches which tools.

It needs a separate environment, with JupyterHub and what the extension needs, and about half a
minute of a processor (`make soak`).
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from tests.hub.conftest import KEY
from tests.hub.hubs import Hub

pytestmark = [pytest.mark.soak, pytest.mark.asyncio(loop_scope="module")]


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.proves("hub:tokens")
async def test_the_tools_are_there_for_tokens_of_the_hub_that_may_use_that_server(hub: Hub) -> None:
    bob, alice = await hub.start_server("bob"), await hub.start_server("alice")
    address = f"{hub.server('bob')}api/tk-ai/"
    async with httpx2.AsyncClient(headers=bearer(bob), timeout=60) as http:
        transport = streamable_http_client(f"{address}mcp", http_client=http)
        async with Client(transport) as client:
            used = {"notebook": "plan.ipynb", "mode": "create"}
            await client.call_tool("use_notebook", used)
            cell = {"notebook": "plan.ipynb", "source": "print(6 * 7)"}
            ran = await client.call_tool("insert_and_execute_cell", cell)
    assert ran.structured_content is not None
    assert ran.structured_content["status"] == "ok", ran
    assert (hub.work("bob") / "plan.ipynb").exists()
    assert not (hub.work("alice") / "plan.ipynb").exists()

    everything = await hub.token_of("alice", "inherit")
    unscoped = await hub.token_of("bob", "read:users!user=bob")
    for token in (alice, everything, unscoped, "0" * 32):
        for method, path in (("GET", "health"), ("POST", "tools/list_notebooks"), ("POST", "mcp")):
            answer = await hub.http.request(
                method,
                address + path,
                headers=bearer(token),
                json={} if method == "POST" else None,
            )
            assert answer.status_code in {401, 403}, (token, path, answer.text)
            assert "plan" not in answer.text
        request = HTTPRequest(
            f"{address.replace('http', 'ws', 1)}tabs?client=a-page-of-a-test",
            headers=bearer(token),
        )
        with pytest.raises(HTTPClientError, match="403"):
            await websocket_connect(request)
    foreign = bearer(bob) | {"Origin": "https://example.org"}
    assert (await hub.http.get(f"{address}health", headers=foreign)).status_code == 403


@pytest.mark.proves("hub:tokens")
async def test_settings_and_keys_of_the_spawner_hold_for_its_users(hub: Hub) -> None:
    token = await hub.start_server("bob")
    address = f"{hub.server('bob')}api/tk-ai/"
    async with httpx2.AsyncClient(base_url=address, headers=bearer(token), timeout=60) as http:
        refused = await http.post("tools/list_files?toolsets=omp", json={})
        assert refused.status_code == 403, refused.text
        assert (await http.post("tools/list_files", json={})).status_code == 200
        chat = (await http.get("models")).text
        assert "ANTHROPIC_API_KEY" in chat
        assert KEY not in chat
        look = "import os\nprint(sorted(name for name in os.environ if 'ANTHROPIC' in name))"
        await http.post("tools/use_notebook", json={"notebook": "env.ipynb", "mode": "create"})
        ran = await http.post("tools/execute_ipython", json={"notebook": "env.ipynb", "code": look})
    assert ran.json()["runs"][0]["output"] == "[]", ran.text


async def test_nb_works_with_a_token_of_the_hub(hub: Hub, tmp_path: Path) -> None:
    token = await hub.token_of("bob", "access:servers!user=bob")
    environment = {
        **os.environ,
        "JUPYTER_TOKEN": token,
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
        "JUPYTER_DATA_DIR": str(tmp_path / "data"),
    }

    async def nb(*arguments: str) -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tk_ai_extension.cli", *arguments),
            cwd=tmp_path,
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out, _ = await process.communicate()
        assert process.returncode == 0, out.decode()

    try:
        environment["NB_SERVER"] = hub.server("bob")
        await nb("open", "command.ipynb")
    finally:
        # The project's own server, which relays.
        await nb("shutdown")
    assert (hub.work("bob") / "command.ipynb").exists()


@pytest.mark.proves("hub:tokens")
async def test_a_login_at_the_hub_opens_the_users_own_server_and_its_channel(hub: Hub) -> None:
    await hub.start_server("alice") if "alice" not in await hub.servers() else None
    await hub.start_server("bob") if "bob" not in await hub.servers() else None
    browser = await hub.log_in("bob")
    address = f"{hub.server('bob')}api/tk-ai/"
    xsrf = next(
        each.value
        for each in browser.cookies.jar
        if (each.name, each.path) == ("_xsrf", "/user/bob/")
    )
    assert xsrf
    answer = await browser.post(f"{address}tools/list_notebooks", json={})
    assert answer.status_code == 401, answer.text
    assert "Reload the page" in answer.text
    own = {"X-XSRFToken": xsrf}
    answer = await browser.post(f"{address}tools/list_notebooks", json={}, headers=own)
    assert "plan.ipynb" in answer.text, answer.text
    other = hub.server("alice")
    for path in ("api/tk-ai/health", "api/tk-ai/chats"):
        assert (await browser.get(other + path, headers=own)).status_code in {401, 403, 404}

    # What a page's WebSocket sends, which cannot set headers.
    page = "api/tk-ai/tabs?client=a-page-of-a-test"
    cookies = "; ".join(
        f"{each.name}={each.value}"
        for each in browser.cookies.jar
        if each.path in ("/", "/user/bob/")
    )
    headers = {"Cookie": cookies, "Origin": hub.url.rstrip("/")}
    socket = hub.server("bob").replace("http", "ws", 1)
    channel = await websocket_connect(HTTPRequest(socket + page, headers=headers))
    async with asyncio.timeout(60):
        while True:
            message = await channel.read_message()
            assert message is not None
            if "heartbeat" in json.loads(message):
                break
    channel.close()
    with pytest.raises(HTTPClientError, match="403"):
        await websocket_connect(HTTPRequest(other.replace("http", "ws", 1) + page, headers=headers))
    foreign = headers | {"Origin": "https://example.org"}
    with pytest.raises(HTTPClientError, match="403"):
        await websocket_connect(HTTPRequest(socket + page, headers=foreign))
    await browser.aclose()
