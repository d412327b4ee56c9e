"""MCP over a line-based connection, by the SDK's stdio transport."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Protocol, cast

from mcp.server import Server
from mcp.server.stdio import stdio_server

from tk_ai_extension.mcp.callers import client_name
from tk_ai_extension.mcp.http import McpHttp
from tk_ai_extension.mcp.sdk import Context
from tk_ai_extension.mcp.server import build_server
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.tools.registry import Registry


class LineConnection(Protocol):
    """Line-based connection."""

    async def read_line(self) -> bytes:
        """Return the next line; empty at the end.

        Raises:
            ValueError: the line is too long.
        """
        ...

    def write(self, data: bytes) -> None:
        """Send data."""
        ...

    async def drain(self) -> None:
        """Wait until it is sent."""
        ...


logger = logging.getLogger(__name__)


async def serve_stdio(
    mcp: McpHttp, registry: Registry, caller: Caller, lines: LineConnection
) -> None:
    """Serve MCP to one client until its connection ends.

    Args:
        mcp: The MCP server.
        registry: The client's tools.
        caller: The client as a caller.
        lines: The connection, one message per line.
    """

    def caller_of(context: Context) -> Caller:
        return Caller(caller.user, caller.key, "mcp", caller.mode, client_name(context))

    gone = asyncio.Event()
    built = build_server(
        mcp.workspace,
        registry_of=lambda _context: registry,
        default_registry=mcp.default_registry,
        caller_of=caller_of,
        gone_of=lambda _context: gone,
        running=mcp.running,
    )
    mcp.others.add(built)
    try:
        await serve_server(built.server, lines, gone)
    finally:
        mcp.others.discard(built)


async def serve_server(
    server: Server[Any], lines: LineConnection, gone: asyncio.Event | None = None
) -> None:
    """Serve an MCP server to one client until its connection ends.

    Args:
        server: The server.
        lines: The connection, one message per line.
        gone: Set when the connection ends, before the handlers of its requests are cancelled.
    """
    gone = gone or asyncio.Event()
    # The SDK's transport cancels the task that it ends in: run it in a separate one.
    serving = asyncio.create_task(
        _serve(server, lines, gone), name="MCP over a connection of lines"
    )
    try:
        await asyncio.wait((serving,))
    finally:
        gone.set()
        serving.cancel()
    if not serving.cancelled():
        serving.result()


async def _serve(server: Server[Any], lines: LineConnection, gone: asyncio.Event) -> None:
    files = cast("Any", _TextStreams(lines, gone))
    async with stdio_server(files, files) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


class _TextStreams:
    """A connection as the text streams that the SDK's stdio transport uses."""

    def __init__(self, lines: LineConnection, gone: asyncio.Event) -> None:
        self._lines = lines
        self._gone = gone

    def __aiter__(self) -> _TextStreams:
        return self

    async def __anext__(self) -> str:
        try:
            line = await self._lines.read_line()
        except ValueError:
            logger.warning("An MCP message is too long: closing its connection")
            line = b""
        if not line:
            self._gone.set()
            raise StopAsyncIteration
        return line.decode("utf-8", "replace")

    async def write(self, text: str) -> None:
        self._lines.write(text.encode())

    async def flush(self) -> None:
        await self._lines.drain()
