"""Requests of a session whose ids come again: each answer reaches the request that it is for."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import httpx2
import pytest

from tests.cases import Cases
from tests.mcp.probes.tools import Probe
from tests.mcp.test_callers import ACCEPT, INITIALIZE
from tk_ai_extension.tools.context import ToolContext

IDS = (7, "7", 8, "8")
DEADLINE = 60


class Session:
    """A session whose clients come and go, each with a counter of its own.

    Attributes:
        running: The calls that have not ended: id and whether the client is still there, by name.
    """

    def __init__(self, http: httpx2.AsyncClient, address: str, probe: Probe) -> None:
        self._http = http
        self._address = address
        self._probe = probe
        self._headers: dict[str, str] = {}
        self._posts: dict[str, asyncio.Task[httpx2.Response]] = {}
        self._contexts: dict[str, ToolContext] = {}
        self.running: dict[str, tuple[Any, bool]] = {}

    async def open(self) -> None:
        answer = await self._http.post(self._address, json=INITIALIZE)
        self._headers = {"Mcp-Session-Id": answer.headers["Mcp-Session-Id"]}

    async def post(self, request_id: Any, method: str, **params: Any) -> httpx2.Response:
        message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        return await self._http.post(self._address, json=message, headers=self._headers)

    async def call(self, request_id: Any, name: str) -> None:
        """Begins a call; one whose id is taken has to be refused."""
        self._probe.started.clear()
        self._probe.held[name] = asyncio.Event()
        arguments = {"notebook": name}
        post = asyncio.create_task(
            self.post(request_id, "tools/call", name="probe_wait", arguments=arguments)
        )
        started = asyncio.create_task(self._probe.started.wait())
        await asyncio.wait((post, started), return_when=asyncio.FIRST_COMPLETED)
        taken = {str(each) for each, _ in self.running.values()}
        if post.done():
            started.cancel()
            assert str(request_id) in taken
            assert post.result().status_code == 400, post.result().text
            assert post.result().json()["error"]["code"] == -32600
            return
        self._posts[name], self._contexts[name] = post, self._probe.contexts[-1]
        self.running[name] = request_id, True

    async def cut(self, name: str) -> None:
        """Cuts the connection of a call; the call goes on."""
        request_id, _ = self.running[name]
        self._posts.pop(name).cancel()
        await self._contexts[name].gone.wait()
        self.running[name] = request_id, False

    async def end(self, name: str) -> None:
        """Lets a call end; who waits for it gets its result."""
        request_id, is_there = self.running[name]
        self._probe.held[name].set()
        if is_there:
            answer = await self._posts.pop(name)
            assert answer.status_code == 200
            assert f"waited for {name}" in answer.text, answer.text
        # Once it has ended, its id can be used again.
        while (await self.post(request_id, "ping")).status_code == 400:
            pass
        del self.running[name]


async def act(session: Session, rng: random.Random, number: int) -> None:
    """Has one thing happen."""
    there = [name for name, (_, is_there) in session.running.items() if is_there]
    if there and rng.random() < 0.4:
        await session.cut(rng.choice(there))
    elif session.running and rng.random() < 0.4:
        await session.end(rng.choice(list(session.running)))
    else:
        await session.call(rng.choice(IDS), f"call-{number}.ipynb")


@pytest.mark.proves("mcp:requests-refused", "mcp:sessions", "mcp:disconnect")
async def test_no_request_gets_the_answer_to_an_earlier_one_with_its_id(
    address: str, jp_auth_header: dict[str, str], probe: Probe
) -> None:
    headers = {**jp_auth_header, **ACCEPT}
    async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
        with Cases() as cases:
            for seed in range(12):
                with cases.case(seed):
                    async with asyncio.timeout(DEADLINE):
                        rng, session = random.Random(seed), Session(http, address, probe)
                        await session.open()
                        for number in range(20):
                            await act(session, rng, number)
                        for name in list(session.running):
                            await session.end(name)
