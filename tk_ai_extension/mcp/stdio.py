"""MCP over a line-based connection, one message per line as in the SDK's stdio transport."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Protocol

import mcp_types as types
from anyio import create_memory_object_stream, create_task_group
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.server import Server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

logger = logging.getLogger(__name__)


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
    # The task group cancels the task that it ends in: run it in a separate one.
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
    into, incoming = create_memory_object_stream[SessionMessage | Exception]()
    outgoing, sent = create_memory_object_stream[SessionMessage]()
    with into, incoming, outgoing, sent:
        async with create_task_group() as sending:
            sending.start_soon(_send, sent, lines)
            async with create_task_group() as receiving:
                receiving.start_soon(_receive, lines, into, gone)
                await server.run(incoming, outgoing, server.create_initialization_options())
                receiving.cancel_scope.cancel()
            outgoing.close()


async def _receive(
    lines: LineConnection,
    into: ObjectSendStream[SessionMessage | Exception],
    gone: asyncio.Event,
) -> None:
    async with into:
        try:
            while line := await lines.read_line():
                try:
                    message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValidationError as error:
                    await into.send(error)
                else:
                    await into.send(SessionMessage(message))
        except ValueError:
            logger.warning("An MCP message is too long: closing its connection")
        gone.set()


async def _send(sent: ObjectReceiveStream[SessionMessage], lines: LineConnection) -> None:
    async for each in sent:
        text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
        lines.write(f"{text}\n".encode())
        await lines.drain()
