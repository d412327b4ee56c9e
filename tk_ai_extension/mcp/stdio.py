"""MCP over a line-based connection, as the SDK's stdio transport but with a response to each request."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Protocol

import mcp_types as types
from anyio import create_memory_object_stream, create_task_group
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.server import Server
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from pydantic import ValidationError

from tk_ai_extension.mcp.callers import client_name
from tk_ai_extension.mcp.http import McpHttp
from tk_ai_extension.mcp.messages import InvalidMessage, RunningRequests, read_message
from tk_ai_extension.mcp.sdk import Context
from tk_ai_extension.mcp.server import build_server
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.json_values import Json
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
    server = build_server(
        mcp.workspace,
        registry_of=lambda _context: registry,
        default_registry=mcp.default_registry,
        caller_of=caller_of,
        gone_of=lambda _context: gone,
        running=mcp.running,
    )
    await serve_server(server, lines, gone)


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
    running = RunningRequests()
    with into, incoming, outgoing, sent:
        async with create_task_group() as sending:
            sending.start_soon(_send, sent, lines, running)
            async with create_task_group() as receiving:
                receiving.start_soon(_receive, lines, into, gone, running)
                await server.run(incoming, outgoing, server.create_initialization_options())
                receiving.cancel_scope.cancel()
            outgoing.close()


async def _receive(
    lines: LineConnection,
    into: ObjectSendStream[SessionMessage | Exception],
    gone: asyncio.Event,
    running: RunningRequests,
) -> None:
    """Pass on the messages of a connection, and respond to what is none."""
    async with into:
        while line := await _next_line(lines):
            if not line.strip():
                continue
            try:
                # A character that is cut in half must not cost the whole message.
                _, found = read_message(line.decode("utf-8", "replace").encode())
                message = _session_message(found, running)
            except InvalidMessage as error:
                logger.warning("An invalid MCP message: %s", error)
                if (response := error.response()) is not None:
                    lines.write(response + b"\n")
                    await lines.drain()
            else:
                await into.send(message)
        gone.set()


async def _send(
    sent: ObjectReceiveStream[SessionMessage], lines: LineConnection, running: RunningRequests
) -> None:
    async for each in sent:
        if isinstance(each.message, types.JSONRPCResponse | types.JSONRPCError):
            running.end(each.message.id)
        text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
        lines.write(f"{text}\n".encode())
        await lines.drain()


async def _next_line(lines: LineConnection) -> bytes:
    try:
        return await lines.read_line()
    except ValueError:
        logger.warning("An MCP message is too long: closing its connection")
        return b""


def _session_message(found: Json, running: RunningRequests) -> SessionMessage:
    """Return a message for the SDK; a request is running from now on.

    Raises:
        InvalidMessage.
    """
    try:
        message = types.jsonrpc_message_adapter.validate_python(found, by_name=False)
    except ValidationError as error:
        raise InvalidMessage(types.INVALID_REQUEST, "It is not a message.", found) from error
    if not isinstance(message, types.JSONRPCRequest):
        return SessionMessage(message)
    running.begin(found)

    async def unanswered() -> None:
        """Handle the end of a cancelled request, which has no response."""
        running.end(message.id)

    return SessionMessage(message, ServerMessageMetadata(on_request_unanswered=unanswered))
