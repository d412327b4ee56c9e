"""`nb mcp`: MCP over standard input and output, forwarded to the server's MCP over HTTP.

The SDK's transports do the work at both ends. Messages pass unchanged, so that the client and the server
negotiate everything themselves. When another server has the project's folder, because JupyterLab was
started there or the project's server has ended, the next request goes to that one.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import anyio
import httpx2
from anyio.abc import TaskGroup
from mcp.client.streamable_http import streamable_http_client
from mcp.server.stdio import stdio_server
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
)
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from tk_ai_extension.cli.command_context import OK, CommandContext
from tk_ai_extension.cli.project_folder import CommandError
from tk_ai_extension.cli.servers import API, Server, ToolFailed
from tk_ai_extension.mcp import MODE

INITIALIZE = "initialize"
INITIALIZED = "notifications/initialized"
VERSION = "io.modelcontextprotocol/protocolVersion"
"""Key in the ``_meta`` of messages without a session."""


def bridge(context: CommandContext, options: dict[str, str]) -> int:
    """Forward messages until the client closes its side; return the exit status.

    Args:
        context: The command; its project's server, or a person's server with its folder, is used.
        options: ``toolsets`` and ``caller`` of the connection, ``mode`` of its calls.

    Raises:
        CommandError, ToolFailed: no server can be used.
    """
    context.server(context.project.root)
    anyio.run(_Bridge(context, options).run)
    return OK


class _Bridge:
    def __init__(self, context: CommandContext, options: dict[str, str]) -> None:
        self._context = context
        self._mode = options.pop("mode", None)
        # A client without sessions gets a separate current notebook and undo as well.
        self._query = urlencode({"caller": uuid4().hex, **options})
        self._url = ""
        self._version = ""
        self._to_server: Any = None
        self._to_client: Any = None
        # Pending requests, and the messages that began the session.
        self._pending: set[object] = set()
        self._opening: list[SessionMessage] = []
        self._is_replayed = False
        self._answered = anyio.Event()

    async def run(self) -> None:
        async with (
            stdio_server() as (from_client, self._to_client),
            anyio.create_task_group() as group,
        ):
            async for message in from_client:
                if isinstance(message, SessionMessage):
                    await self._forward(group, message)
            # Answers to the client's last requests still arrive.
            await self._settled()
            group.cancel_scope.cancel()
            # What writes the answers ends with its stream, and `stdio_server` waits for it.
            await self._to_client.aclose()

    async def _forward(self, group: TaskGroup, message: SessionMessage) -> None:
        sent = message.message
        if isinstance(sent, JSONRPCRequest) and not self._pending:
            server = await anyio.to_thread.run_sync(self._find)
            if server is not None and server.url != self._url:
                is_first = not self._opening or sent.method == INITIALIZE
                self._url = server.url
                self._to_server = await group.start(self._connect, server)
                if not is_first:
                    await self._replay()
        if isinstance(sent, JSONRPCNotification) and sent.method == INITIALIZED:
            self._opening.append(message)
        if isinstance(sent, JSONRPCRequest):
            self._pending.add(sent.id)
        await self._to_server.send(self._for_http(message))
        if isinstance(sent, JSONRPCRequest) and sent.method == INITIALIZE:
            self._opening = [message]
            # The next messages need the id of the session.
            await self._settled()

    def _find(self) -> Server | None:
        context = self._context
        try:
            return context.server(context.project.root)
        except (CommandError, ToolFailed):  # The present server answers, or reports its error.
            return None

    async def _replay(self) -> None:
        """Begin a session at another server with the client's first messages."""
        self._is_replayed = True
        for message in self._opening:
            if isinstance(message.message, JSONRPCRequest):
                self._pending.add(message.message.id)
            await self._to_server.send(self._for_http(message))
            await self._settled()
        self._is_replayed = False

    def _for_http(self, message: SessionMessage) -> SessionMessage:
        """Return a message with the headers that the protocol's version requires over HTTP."""
        sent = message.message
        if not isinstance(sent, JSONRPCRequest | JSONRPCNotification):
            return message
        params = sent.params or {}
        if self._mode is not None and sent.method == "tools/call":
            meta = {**(params.get("_meta") or {}), MODE: self._mode}
            params = {**params, "_meta": meta}
            sent = sent.model_copy(update={"params": params})
        version = (params.get("_meta") or {}).get(VERSION)
        headers = {MCP_PROTOCOL_VERSION_HEADER: str(version or self._version)}
        if version is not None:
            headers[MCP_METHOD_HEADER] = sent.method
            name = params.get(NAME_BEARING_METHODS.get(sent.method, ""))
            if isinstance(name, str):
                headers[MCP_NAME_HEADER] = encode_header_value(name)
        is_stamped = sent.method != INITIALIZE and (version or self._version)
        metadata = ClientMessageMetadata(headers=headers) if is_stamped else None
        return SessionMessage(sent, metadata)

    async def _settled(self) -> None:
        """Wait until no request is pending."""
        while self._pending:
            self._answered = anyio.Event()
            await self._answered.wait()

    async def _connect(self, server: Server, *, task_status: Any) -> None:
        """Connect to a server and forward its messages until it ends."""
        headers = {"Authorization": f"token {server.token}"} if server.token else {}
        # A cell may run for hours.
        client = httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(30, read=None))
        url = f"{server.url}{API}/mcp?{self._query}"
        async with (
            client,
            streamable_http_client(url, http_client=client) as (from_server, to_server),
        ):
            task_status.started(to_server)
            async for message in from_server:
                if isinstance(message, SessionMessage):
                    await self._answer(message)

    async def _answer(self, message: SessionMessage) -> None:
        sent = message.message
        is_answer = isinstance(sent, JSONRPCResponse | JSONRPCError)
        if not (is_answer and self._is_replayed):
            await self._to_client.send(message)
        if isinstance(sent, JSONRPCResponse) and "protocolVersion" in sent.result:
            self._version = str(sent.result["protocolVersion"])
        if isinstance(sent, JSONRPCError) and sent.error.code == CONNECTION_CLOSED:
            self._url = ""  # The next request finds the server again.
        if isinstance(sent, JSONRPCResponse | JSONRPCError):
            self._pending.discard(sent.id)
            self._answered.set()
