"""MCP over a stream with one message per line, as in the SDK's stdio transport."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import mcp_types as types
from anyio import create_memory_object_stream, create_task_group
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.server import Server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

logger = logging.getLogger(__name__)


async def serve_stream(
    server: Server[Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Serve an MCP server to one client until its connection ends."""
    # The task group cancels the task that it ends in: run it in a separate one.
    serving = asyncio.create_task(_serve(server, reader, writer), name="MCP over a stream")
    try:
        await asyncio.wait((serving,))
    finally:
        serving.cancel()
    if not serving.cancelled():
        serving.result()


async def _serve(
    server: Server[Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    into, incoming = create_memory_object_stream[SessionMessage | Exception]()
    outgoing, sent = create_memory_object_stream[SessionMessage]()
    with into, incoming, outgoing, sent:
        async with create_task_group() as sending:
            sending.start_soon(_send, sent, writer)
            async with create_task_group() as receiving:
                receiving.start_soon(_receive, reader, into)
                await server.run(incoming, outgoing, server.create_initialization_options())
                receiving.cancel_scope.cancel()
            outgoing.close()


async def _receive(
    reader: asyncio.StreamReader, into: ObjectSendStream[SessionMessage | Exception]
) -> None:
    async with into:
        try:
            while line := await reader.readline():
                try:
                    message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValidationError as error:
                    await into.send(error)
                else:
                    await into.send(SessionMessage(message))
        except ConnectionError:
            pass
        except ValueError:
            logger.warning("An MCP message is too long: closing its connection")


async def _send(sent: ObjectReceiveStream[SessionMessage], writer: asyncio.StreamWriter) -> None:
    async for each in sent:
        text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
        if not writer.is_closing():
            writer.write(f"{text}\n".encode())
            await writer.drain()
