"""Connections in which nothing is said: kept alive through a proxy, and ended when the client is gone."""

from __future__ import annotations

import asyncio
import json
import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import nbformat
import pytest
from tornado.iostream import IOStream

from tests.cases import Cases
from tests.support.proxy import Proxy, proxy_to
from tk_ai_extension.cli.connecting import MCP, ServerEndpoint
from tk_ai_extension.cli.websocket import PONG, Frames, frame
from tk_ai_extension.server.handlers import upgrades
from tk_ai_extension.server.handlers.upgrades import LineStream, WebSocketStream

DEADLINE = 30
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "raw", "version": "1"},
}


async def passed(seconds: float) -> None:
    """Returns when this time has passed."""
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, over.set)
    await over.wait()


@pytest.fixture
async def proxy(extension: Any, jp_http_port: int) -> AsyncIterator[Proxy]:
    async with proxy_to(f"http://127.0.0.1:{jp_http_port}/") as proxy:
        yield proxy


class Client:
    """A client of MCP as `nb mcp` is one, in a WebSocket."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._stream = IOStream(connection)

    async def send(self, method: str, request_id: int | None = None, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        if request_id is None:
            del message["id"]
        await self._stream.write(json.dumps(message).encode() + b"\n")

    async def receive(self) -> Any:
        return json.loads(await self._stream.read_until(b"\n"))

    def close(self) -> None:
        self._stream.close()


Open = Callable[[str], Any]


@pytest.fixture
async def open_client(
    proxy: Proxy, jp_base_url: str, jp_serverapp: Any
) -> AsyncIterator[Callable[[str], Any]]:
    clients: list[Client] = []

    async def opened(query: str) -> Client:
        url = proxy.url.removesuffix("/") + jp_base_url
        endpoint = ServerEndpoint(url, jp_serverapp.identity_provider.token)
        clients.append(Client(await asyncio.to_thread(endpoint.open, MCP + query)))
        await clients[-1].send("initialize", 1, **INITIALIZE)
        assert (await clients[-1].receive())["id"] == 1
        await clients[-1].send("notifications/initialized")
        return clients[-1]

    yield opened
    for client in clients:
        client.close()


@pytest.mark.proves("hub:nb", "nb:mcp")
async def test_a_client_that_says_nothing_is_kept_by_a_proxy_that_drops_idle_connections(
    open_client: Open, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upgrades, "HEARTBEAT", 0.2)
    async with asyncio.timeout(DEADLINE):
        await (await open_client("")).send("ping", 2)  # all that is imported late is imported
        proxy.idle = 1.0
        client = await open_client("")
        await passed(3.0)
        await client.send("tools/list", 2)
        assert (await client.receive())["result"]["tools"]


@pytest.mark.proves("hub:nb", "threat:exhaustion")
async def test_nothing_is_kept_of_clients_that_vanish(
    extension: Any,
    open_client: Open,
    proxy: Proxy,
    jp_root_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upgrades, "HEARTBEAT", 0.1)
    monkeypatch.setattr(upgrades, "MAX_UNANSWERED", 10)
    nbformat.write(nbformat.v4.new_notebook(), jp_root_dir / "plan.ipynb")
    await extension.services.ready()
    workspace = extension.workspace
    forgotten: asyncio.Queue[Any] = asyncio.Queue()
    followed: list[str] = []
    forget, subscribe = workspace.forget, workspace.store.subscribe

    def forget_and_report(caller: Any) -> None:
        forget(caller)
        forgotten.put_nowait(caller)

    def subscribe_and_count(path: str, changed: Callable[[], None]) -> Callable[[], None]:
        end = subscribe(path, changed)
        followed.append(path)

        def unsubscribe() -> None:
            end()
            followed.remove(path)

        return unsubscribe

    monkeypatch.setattr(workspace, "forget", forget_and_report)
    monkeypatch.setattr(workspace.store, "subscribe", subscribe_and_count)
    async with asyncio.timeout(DEADLINE):
        mcp = await extension.services.mcp()
        idle = await open_client("")
        subscribed = await open_client("")
        await subscribed.send("resources/subscribe", 2, uri="notebook://plan.ipynb")
        assert (await subscribed.receive())["result"] == {}
        asked = await open_client("?mode=ask")
        arguments = {"notebook": "plan.ipynb", "source": "1"}
        await asked.send("tools/call", 2, name="insert_cell", arguments=arguments)
        assert (await asked.receive())["method"] == "elicitation/create"
        assert (len(mcp.others), len(followed)) == (3, 1)
        assert len(workspace.policy.asking()) == 1
        # Those that answer pings stay.
        await passed(2.0)
        assert forgotten.empty()
        await idle.send("ping", 2)
        assert (await idle.receive())["result"] == {}
        proxy.swallow()
        for _ in range(3):
            await forgotten.get()
        assert (len(mcp.others), followed, workspace.policy.asking()) == (0, [], [])


@pytest.mark.proves("hub:nb")
async def test_only_silence_that_could_be_broken_ends_a_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At random times the client answers or not, and the server reads or not."""
    monkeypatch.setattr(upgrades, "HEARTBEAT", 0.02)
    monkeypatch.setattr(upgrades, "MAX_UNANSWERED", 15)
    with Cases() as cases:
        for seed in range(8):
            with cases.case(seed):
                await schedule(random.Random(seed))


async def schedule(rng: random.Random) -> None:
    here, there = socket.socketpair()
    client, lines = IOStream(here), LineStream(WebSocketStream(IOStream(there)))
    answers = True

    async def answer() -> None:
        frames = Frames()
        with suppress(Exception):
            while True:
                for _ in frames.read(await client.read_bytes(1 << 16, partial=True)):
                    if answers:
                        await client.write(frame(PONG, b"", masked=True))

    answering = asyncio.create_task(answer())
    async with asyncio.timeout(DEADLINE):
        for _ in range(rng.randrange(1, 4)):
            # Nothing is read for longer than the client may be silent, while it may answer or not.
            answers = rng.random() < 0.5
            await passed(rng.choice((0.1, 0.5)))
            answers = True
            reading = asyncio.create_task(lines.read_line())
            await passed(rng.choice((0.1, 0.5)))
            assert not reading.done()
            await client.write(frame(1, b"line\n", masked=True))
            assert await reading == b"line\n"
        answers = False
        assert await lines.read_line() == b""
    lines.close()
    client.close()
    await answering
