"""The limit of sessions in any order of events: each counts once, and one that is in use stays."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from tests.cases import Cases
from tk_ai_extension.mcp.admission import SESSION_HEADER, Admission, user_of
from tk_ai_extension.model.errors import LimitReached

LIMIT = 3


class Manager:
    """The SDK's session manager, whose responses begin and end when the test says so.

    Attributes:
        ended: The sessions that were ended.
        opening: For each request, what lets its response begin, and what lets it end.
    """

    def __init__(self) -> None:
        self.ended: list[bytes] = []
        self.opening: dict[bytes, tuple[asyncio.Event, asyncio.Event]] = {}

    async def __call__(self, scope: Any, _receive: Any, send: Any) -> None:
        headers = dict(scope["headers"])
        if scope["method"] == "DELETE":
            self.ended.append(headers[SESSION_HEADER])
            return
        name = headers[b"name"]
        begin, end = self.opening[name]
        await begin.wait()
        named = [(SESSION_HEADER, name)]
        await send({"type": "http.response.start", "status": 200, "headers": named})
        await end.wait()
        await send({"type": "http.response.body", "body": b""})


class Clients:
    """Clients that open sessions.

    Attributes:
        opening: Requests whose responses have not begun.
        answering: Sessions whose first responses have not ended.
        idle: The other sessions.
    """

    def __init__(self) -> None:
        self._manager = Manager()
        self._admission = Admission(self._manager, LIMIT)
        self._tasks: dict[bytes, asyncio.Task[None]] = {}
        self._begun = asyncio.Event()
        self.opening: list[bytes] = []
        self.answering: list[bytes] = []
        self.idle: list[bytes] = []

    async def open(self, name: bytes) -> None:
        count = len(self.opening) + len(self.answering) + len(self.idle)
        ended = len(self._manager.ended)
        self._manager.opening[name] = asyncio.Event(), asyncio.Event()
        task = self._tasks[name] = asyncio.create_task(self._request(name))
        for _ in range(5):
            await asyncio.sleep(0)
        gone = self._manager.ended[ended:]
        if count < LIMIT:
            assert not gone
        elif self.idle:
            assert gone == [self.idle.pop(0)]
        else:
            with pytest.raises(LimitReached):
                await task
            return
        assert not task.done()
        self.opening.append(name)

    async def begin(self, name: bytes) -> None:
        self._begun.clear()
        self._manager.opening[name][0].set()
        await self._begun.wait()
        self.opening.remove(name)
        self.answering.append(name)

    async def end(self, name: bytes) -> None:
        self._manager.opening[name][1].set()
        await self._tasks[name]
        self.answering.remove(name)
        self.idle.append(name)

    async def _request(self, name: bytes) -> None:
        scope = {"method": "POST", "headers": [(b"name", name)], "user": user_of("me")}
        await self._admission(scope, self._receive, self._send)

    async def _receive(self) -> Any:
        body = b'{"jsonrpc":"2.0","id":1,"method":"initialize"}'
        return {"type": "http.request", "body": body, "more_body": False}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._begun.set()


@pytest.mark.proves("mcp:abandoned-sessions")
async def test_a_session_counts_once_and_stays_while_it_is_answered() -> None:
    with Cases() as cases:
        for seed in range(50):
            with cases.case(seed):
                rng, clients = random.Random(seed), Clients()
                for number in range(30):
                    if clients.opening and rng.random() < 0.4:
                        await clients.begin(rng.choice(clients.opening))
                    elif clients.answering and rng.random() < 0.4:
                        await clients.end(rng.choice(clients.answering))
                    else:
                        await clients.open(f"{number}".encode())
                for name in list(clients.opening):
                    await clients.begin(name)
                for name in list(clients.answering):
                    await clients.end(name)
