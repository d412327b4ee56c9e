"""MCP with one message per line, as `nb mcp` has it, for the official client and for raw lines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage

LIMIT = 1 << 26
"""Bytes of a line."""


class Lines:
    """A connection to ``api/tk-ai/mcp/stdio``."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, line: bytes) -> None:
        self._writer.write(line + b"\n")
        await self._writer.drain()

    async def receive(self) -> bytes:
        """The next line; empty at the end."""
        return await self._reader.readline()

    async def answer(self) -> Any:
        """The next message."""
        return json.loads(await self.receive())

    def cut(self) -> None:
        """Ends the connection without a word."""
        self._writer.transport.abort()


async def open_lines(address: str, headers: dict[str, str], query: str = "") -> Lines:
    """Opens a connection to the server at the address of its MCP over HTTP."""
    url = urlsplit(address)
    reader, writer = await asyncio.open_connection(url.hostname, url.port, limit=LIMIT)
    named = {"Host": url.netloc, "Connection": "Upgrade", "Upgrade": "tk-ai-ndjson", **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    writer.write(f"GET {url.path}/stdio{query} HTTP/1.1\r\n{head}\r\n".encode())
    answer = await reader.readuntil(b"\r\n\r\n")
    assert b" 101 " in answer, answer
    return Lines(reader, writer)


@asynccontextmanager
async def lines_transport(
    address: str, headers: dict[str, str], query: str = ""
) -> AsyncGenerator[Any]:
    """The streams of the official client; their end is that of the connection."""
    lines = await open_lines(address, headers, query)
    into, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, sent = anyio.create_memory_object_stream[SessionMessage](0)

    async def receive() -> None:
        with suppress(anyio.BrokenResourceError, ConnectionError):
            async with into:
                while line := await lines.receive():
                    await into.send(
                        SessionMessage(types.jsonrpc_message_adapter.validate_json(line))
                    )

    async def send() -> None:
        async with sent:
            async for each in sent:
                text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                await lines.send(text.encode())

    async with anyio.create_task_group() as group:
        group.start_soon(receive)
        group.start_soon(send)
        try:
            yield incoming, outgoing
        finally:
            lines.cut()
            group.cancel_scope.cancel()
            for stream in (into, incoming, outgoing, sent):
                stream.close()
