"""Concurrent sends, stops, answers, followers and deletions in two servers: every turn ends once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Literal

import psutil
import pytest

from tests.agent.conftest import USER, Open, Talk
from tests.agent.test_chat_recovery import processes
from tests.harness import ToolHarness
from tests.support.scripted_model import Answer, MessagesRequest, ToolUse
from tk_ai_extension.agent.events import Event
from tk_ai_extension.agent.sent_messages import StartedTurn
from tk_ai_extension.model.errors import PermissionNotFound, ToolError

ALLOWED = {"chat_elsewhere", "chat_not_found", "limit_reached", "plan_not_found"}
"""What may be answered to somebody who comes too early or too late."""


def work(request: MessagesRequest) -> Answer:
    """Reads, then writes, then says so."""
    done = len(request.tool_results)
    last = request.tool_results[0].name if done else ""
    if last == "list_cells":
        return Answer.of(ToolUse("insert_cell", {"source": "x = 1"}))
    if last:
        return Answer.of("Done.")
    return Answer.of("I look.", ToolUse("list_cells"))


class Storm:
    """Two servers, a few chats, and people who do as they like."""

    def __init__(self, servers: tuple[Talk, Talk], random: Random) -> None:
        self.servers = servers
        self.random = random
        self.chats: list[str] = []
        self.turns: list[tuple[StartedTurn, list[Event]]] = []
        self.refused: Counter[str] = Counter()
        self.tasks: list[asyncio.Task[None]] = []

    async def act(self) -> None:
        """Somebody does something; a refusal is an answer, too."""
        deeds: list[Callable[[], Awaitable[object]]] = [
            *(self.send,) * 5,
            *(self.stop,) * 2,
            self.follow,
            self.delete,
            self.read,
        ]
        try:
            await self.random.choice(deeds)()
        except ToolError as error:
            self.refused[error.code] += 1

    @property
    def server(self) -> Talk:
        return self.random.choice(self.servers)

    @property
    def chat(self) -> str | None:
        return self.random.choice(self.chats) if self.chats else None

    async def send(self) -> None:
        mode = self.random.choice(("plan", "ask", "edit", "auto"))
        fields: dict[str, Any] = {} if len(self.chats) < 3 else {"chat": self.chat}
        begun = await self.server.send("Continue.", notebook="a.ipynb", mode=mode, **fields)
        if begun.chat not in self.chats:
            self.chats.append(begun.chat)
        seen: list[Event] = []
        self.turns.append((begun, seen))
        self.tasks.append(asyncio.create_task(self.receive(begun, seen)))

    async def receive(self, begun: StartedTurn, seen: list[Event]) -> None:
        """Receives a turn to its end, and answers what it asks."""
        policy = self.servers[0].services.workspace.policy
        async for event in begun.events:
            seen.append(event)
            if event.kind == "permission":
                answer: Literal["once", "deny"] = self.random.choice(("once", "deny"))
                try:
                    policy.answer(USER, event.data["id"], answer)
                except PermissionNotFound:
                    continue

    async def stop(self) -> None:
        if self.chat is not None:
            await self.server.chats.stop(USER, self.chat)

    async def follow(self) -> None:
        if self.chat is not None:
            await anext(await self.server.chats.follow(USER, self.chat))

    async def read(self) -> None:
        if self.chat is not None:
            await self.server.chats.events(USER, self.chat)
        await self.server.chats.list(USER)

    async def delete(self) -> None:
        if len(self.chats) > 3:
            await self.server.chats.delete(USER, self.chats[0])
            del self.chats[0]


@pytest.mark.proves("ext:chat-shared")
@pytest.mark.parametrize("seed", [pytest.param(1, marks=pytest.mark.real_cli), 2])
async def test_every_turn_ends_once_and_nothing_is_left(
    open_chats: Open, harness: ToolHarness, seed: int
) -> None:
    harness.write("a.ipynb", "1")
    first, second = open_chats(max_live=3), open_chats(max_live=3)
    first.model.add(*[work] * 1_000)
    storm = Storm((first, second), Random(seed))
    async with asyncio.timeout(100):
        for _ in range(8):
            await asyncio.gather(*(storm.act() for _ in range(3)))
        await asyncio.gather(*storm.tasks)
    assert storm.turns
    for begun, seen in storm.turns:
        kinds = Counter(event.kind for event in seen)
        assert (begun.turn, kinds["message"], kinds["done"]) == (begun.turn, 1, 1)
        assert kinds["tool_call"] >= kinds["tool_result"]
        assert kinds["permission"] == kinds["permission_settled"]
        numbers = [event.id for event in seen]
        assert numbers == sorted(set(numbers))
    assert set(storm.refused) <= ALLOWED
    assert harness.workspace.policy.pending(USER) == []
    for chat in storm.chats:
        # The server whose turn was last writes its events first.
        await second.chats.events(USER, chat)
        await first.chats.events(USER, chat)
        kept = await second.chats.events(USER, chat)
        numbers = [event.id for event in kept]
        assert numbers == sorted(set(numbers))
        ends = Counter(event.turn for event in kept if event.kind == "done")
        assert set(ends.values()) <= {1}
        assert {event.turn for event in kept} == set(ends)
    for server in storm.servers:
        await server.close()
    _, alive = await asyncio.to_thread(psutil.wait_procs, processes(), timeout=20)
    assert alive == []
