"""The chat: its first streamed token beside the SDK alone, ten chats at once, and what turns leave behind."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import claude_agent_sdk as sdk
import httpx2
import psutil
from contents import cell_id, write
from family import Options, main
from measure import WARM_UPS, Row, at_most, timed
from script import scripted
from serving import Server, own_folders, server_command, serving

from tests.support.scripted_model import MODEL

CELLS = 500
SAMPLES = 40
CHATS = 10
ROUNDS = 5
TURNS = 100
SEEN = "20 @318a code [7] ok: 1+1\n" * 400
"""About what is seen of a large notebook with each message: the SDK alone is asked with as much."""

Talk = Callable[[], Awaitable[float]]
"""Sends a message and receives the whole answer; seconds until its first piece of text."""


async def measure(options: Options) -> AsyncGenerator[Row]:
    """A warm session and ten of them, with the same script for a model."""
    root = options.new_folder("root")
    write(root / "many.ipynb", ["1+1"] * CELLS)
    async with scripted() as model, served(options, root, model) as there:
        count = options.count(SAMPLES)
        looking = {"notebook": "many.ipynb", "active_cell": cell_id(CELLS // 2)}
        plain, seeing = there.chat(), there.chat(**looking)
        async with (
            alone(options, "bare", model) as bare,
            alone(options, "much", model, SEEN) as much,
        ):
            floor, chat, much_floor, about = await first_tokens(count, bare, plain, much, seeing)
        yield timed("first token of a warm chat (floor: the SDK alone)", chat, floor, above=30)
        yield timed(f"the same, about a cell of {CELLS}", about, much_floor, above=30)
        async with AsyncExitStack() as stack:
            names = [f"alone-{number}" for number in range(CHATS)]
            floors = [await stack.enter_async_context(alone(options, n, model)) for n in names]
            floor = await at_once(options.count(ROUNDS), floors)
        chats = [there.chat() for _ in range(CHATS)]
        together = await at_once(options.count(ROUNDS), chats)
        yield timed(f"{CHATS} warm chats at once (floor: the SDK alone)", together, floor, times=2)
        turns, before = options.count(TURNS), there.megabytes()
        for _ in range(turns):
            await plain()
        gained = max(there.megabytes() - before, 0.0)
        yield at_most(f"memory that the server gains in {turns} turns", gained, 10, "MB")


# -- the two ways ----------------------------------------------------------------------------------


@asynccontextmanager
async def alone(
    options: Options, name: str, model: Mapping[str, str], seen: str = ""
) -> AsyncGenerator[Talk]:
    """The SDK with its CLI and nothing else, asked with what is seen before it."""
    client = sdk.ClaudeSDKClient(
        sdk.ClaudeAgentOptions(
            tools=[],
            setting_sources=[],
            strict_mcp_config=True,
            include_partial_messages=True,
            model=MODEL,
            system_prompt="Answer.",
            env={**model, "CLAUDE_CONFIG_DIR": str(options.new_folder(name))},
            stderr=ignored,
        )
    )
    await client.connect()

    async def talk() -> float:
        began, first = time.perf_counter(), 0.0
        await client.query(f"{seen}What is six by seven?")
        async for message in client.receive_response():
            is_text = isinstance(message, sdk.StreamEvent) and (
                message.event.get("delta", {}).get("type") == "text_delta"
            )
            first = first or (time.perf_counter() - began if is_text else 0.0)
        assert first
        return first

    try:
        yield talk
    finally:
        await client.disconnect()


def ignored(line: str) -> None:
    """What the CLI says on the side."""
    del line


@dataclass(frozen=True, slots=True)
class Served:
    """A server in a process of its own."""

    server: Server
    http: httpx2.AsyncClient
    process: psutil.Process

    def chat(self, **fields: Any) -> Talk:
        """A chat of its own, asked over HTTP and received as events."""
        chat: list[str] = []

        async def talk() -> float:
            began, first = time.perf_counter(), 0.0
            body = {"message": "What is six by seven?", "mode": "auto", **fields}
            body |= {"chat": chat[0]} if chat else {}
            async for event in self._events(body):
                if event["kind"] == "message" and not chat:
                    chat.append(event["chat"])
                if event["kind"] == "text":
                    first = first or time.perf_counter() - began
            assert first
            return first

        return talk

    async def _events(self, body: dict[str, Any]) -> AsyncGenerator[dict[str, Any]]:
        address = f"{self.server.url}api/tk-ai/mcp/chat"
        accept = {"Accept": "text/event-stream"}
        async with self.http.stream("POST", address, json=body, headers=accept) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))

    def megabytes(self) -> float:
        """The memory of the server's own process."""
        return self.process.memory_info().rss / 2**20


@asynccontextmanager
async def served(options: Options, root: Path, model: Mapping[str, str]) -> AsyncGenerator[Served]:
    """A plain Jupyter Server with the extension, which asks this model."""
    folder = options.new_folder("server")
    environment = {**os.environ, **own_folders(folder), **model}
    del environment["JUPYTER_NO_CONFIG"]
    command = server_command(
        root,
        "--ServerApp.jpserver_extensions=jupyter_server_ydoc=False",
        f"--TkAIExtensionApp.chat_model={MODEL}",
        "--TkAIExtensionApp.max_chats=20",
    )
    async with (
        serving(command, folder, environment, folder / "server.log") as server,
        httpx2.AsyncClient(headers=server.headers, timeout=60, trust_env=False) as http,
    ):
        (runtime,) = (folder / "runtime").glob("jpserver-*.json")
        pid = json.loads(runtime.read_text(encoding="utf-8"))["pid"]
        yield Served(server, http, psutil.Process(pid))


# -- what is measured ------------------------------------------------------------------------------


async def first_tokens(count: int, *talks: Talk) -> list[list[float]]:
    """Seconds until the first piece of text, each way in turns, once all are warm."""
    taken: list[list[float]] = [[] for _ in talks]
    for turn in range(WARM_UPS + count):
        for samples, talk in zip(taken, talks, strict=True):
            first = await talk()
            if turn >= WARM_UPS:
                samples.append(first)
    return taken


async def at_once(count: int, talks: Sequence[Talk]) -> list[float]:
    """Seconds until all have been answered who asked at once, after a round that does not count."""
    taken: list[float] = []
    for turn in range(1 + count):
        began = time.perf_counter()
        await asyncio.gather(*(talk() for talk in talks))
        if turn:
            taken.append(time.perf_counter() - began)
    return taken


if __name__ == "__main__":
    main(measure, __doc__)
