"""The end of a chat, whose servers and agent may not answer any more."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.agent.conftest import USER
from tests.harness import ToolHarness
from tests.support.echo_agent import EchoBackend
from tk_ai_extension.agent.chats import Chats
from tk_ai_extension.agent.requests import parse_request
from tk_ai_extension.agent.server_connection import ServerConnection
from tk_ai_extension.agent.services import ChatServices, ChatSettings
from tk_ai_extension.agent.transcripts import Transcripts
from tk_ai_extension.agent.user_servers import ServerConfig
from tk_ai_extension.model.agent_errors import ServerFailed

PROMPT = 15.0
"""Seconds in which a close returns on a busy machine; without a deadline it takes minutes."""

pytestmark = pytest.mark.proves("chat:close-deadline")


class Address:
    """An MCP server over HTTP that answers some methods, and then nothing any more."""

    def __init__(self, *silent: str) -> None:
        self.silent = silent
        self.asked: asyncio.Queue[str] = asyncio.Queue()
        self._open: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await self._answer(head.decode().lower(), reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()

    async def _answer(
        self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        lengths = [line for line in head.split("\r\n") if line.startswith("content-length:")]
        size = int(lengths[0].partition(":")[2]) if lengths else 0
        message: dict[str, Any] = json.loads(await reader.readexactly(size) or b"{}")
        name = message.get("method") or head.partition(" ")[0]
        self.asked.put_nowait(name)
        if name in self.silent:
            await reader.read()
            return
        result: dict[str, Any] = {"tools": []}
        if name == "initialize":
            result = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "silent", "version": "1"},
            }
        status, body = "405 No", b""
        if "id" in message:
            status = "200 OK"
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        elif "method" in message:
            status = "202 Accepted"
        writer.write(
            f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nMcp-Session-Id: 1\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        await writer.drain()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[str]:
        """Its address."""
        server = await asyncio.start_server(self.serve, "127.0.0.1")
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        finally:
            server.close()
            for each in self._open:
                each.close()


async def test_a_server_that_stops_answering_is_left_after_a_grace_period(tmp_path: Path) -> None:
    address = Address("delete")
    async with address.running() as url:
        connection = ServerConnection(ServerConfig("silent", url=url), tmp_path)
        assert await connection.tools() == []
        async with asyncio.timeout(PROMPT):
            await connection.close()
        assert not connection.alive
        while await address.asked.get() != "delete":
            pass


@pytest.mark.parametrize("does_close", [True, False])
async def test_a_server_that_does_not_start_is_left_after_a_grace_period(
    tmp_path: Path, does_close: bool
) -> None:
    address = Address("tools/list", "delete")
    async with address.running() as url:
        config = ServerConfig("silent", url=url)
        connection = ServerConnection(config, tmp_path, start=60.0 if does_close else 1.0)
        async with asyncio.timeout(PROMPT):
            while await address.asked.get() != "tools/list":
                pass
            if does_close:
                await connection.close()
            with pytest.raises(ServerFailed):
                await connection.tools()
            await connection.close()


class Resource:
    """Something that is closed."""

    def __init__(self, error: Exception | None = None, *, hangs: bool = False) -> None:
        self.error = error
        self.hangs = asyncio.Event()
        self.begun = asyncio.Event()
        self.closed = False
        if not hangs:
            self.hangs.set()

    async def close(self) -> None:
        self.begun.set()
        await self.hangs.wait()
        if self.error is not None:
            raise self.error
        self.closed = True


async def test_one_that_hangs_or_fails_keeps_no_other_from_being_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    from tk_ai_extension.agent.closing import Closing

    fine = Resource()
    with caplog.at_level(logging.WARNING):
        async with asyncio.timeout(PROMPT):
            await Closing(0.05).close(Resource(hangs=True), Resource(OSError("no")), None, fine)
    assert fine.closed
    assert len([each for each in caplog.records if "Resource" in each.getMessage()]) == 2


async def test_a_close_goes_on_if_its_caller_is_cancelled() -> None:
    from tk_ai_extension.agent.closing import Closing

    closing, resource = Closing(), Resource(hangs=True)
    caller = asyncio.create_task(closing.close(resource))
    await resource.begun.wait()
    caller.cancel()
    await asyncio.wait((caller,))
    again = asyncio.create_task(closing.close())
    resource.hangs.set()
    await again
    assert resource.closed


async def test_the_log_is_saved_before_the_agent_is_closed(
    harness: ToolHarness, tmp_path: Path
) -> None:
    services = ChatServices(
        workspace=harness.workspace,
        registry=harness.registry,
        transcripts=Transcripts(tmp_path / "chats.sqlite"),
        backend=EchoBackend(),
        settings=ChatSettings(),
    )
    chats: Any = Chats(services)
    begun = await chats.send(USER, parse_request({"message": "wait"}))
    async for event in begun.events:
        if event.kind == "text":
            break
    live = chats._live[begun.chat]
    agent, is_saved = live._agent, []
    close = agent.close

    async def observed_close() -> None:
        is_saved.append(not live.log._unsaved and live.log._saving is None)
        await close()

    agent.close = observed_close
    await chats.close()
    assert is_saved == [True]
