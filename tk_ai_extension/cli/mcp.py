"""MCP over the host's socket: a message a line, by the SDK's own server and its own stdio transport."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import uuid
from typing import Any, cast

from mcp.server.stdio import stdio_server

from tk_ai_extension.cli.headless import Headless
from tk_ai_extension.mcp.callers import client_name
from tk_ai_extension.mcp.sdk import Context
from tk_ai_extension.mcp.server import BuiltServer, build_server
from tk_ai_extension.model.callers import Caller, checked_key
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.tools.registry import Registry
from tk_ai_extension.workspace.permissions import MODES

logger = logging.getLogger(__name__)


class McpOverSocket:
    """Serves MCP to each connection as to a client of its own.

    The first line of a connection is a JSON object with what the command was called with:
    ``toolsets``, ``mode``, ``caller``. It is answered with an empty line, or with why not.
    """

    def __init__(self, headless: Headless) -> None:
        self._headless = headless
        self._sessions: dict[asyncio.Task[None], BuiltServer] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one connection to its end."""
        try:
            wanted = json.loads(await reader.readline() or b"{}")
            registry = self._headless.registry_of(wanted.get("toolsets"))
            caller = self._caller(wanted)
        except (ToolError, ValueError) as error:
            logger.warning("nb mcp was refused: %s", error)
            writer.write(" ".join(str(error).split()).encode() + b"\n")
            writer.close()
            return
        writer.write(b"\n")
        built = self._build(registry, caller)
        session = asyncio.create_task(self._run(built, reader, writer))
        self._sessions[session] = built
        try:
            await asyncio.shield(session)
        finally:
            self._sessions.pop(session, None)
            if wanted.get("caller") is None:
                self._headless.workspace.forget(caller)
            writer.close()

    async def close(self) -> None:
        """Ends all connections."""
        for session, built in list(self._sessions.items()):
            await built.close()
            session.cancel()
        await asyncio.gather(*self._sessions, return_exceptions=True)

    def _caller(self, wanted: dict[str, Any]) -> Caller:
        mode = wanted.get("mode", "auto")
        if mode not in MODES:
            raise ValueError(f"There is no mode `{mode}`; the modes are {', '.join(MODES)}.")
        key = checked_key(wanted.get("caller")) or uuid.uuid4().hex
        return Caller(user=self._headless.user, key=key, face="mcp", mode=mode)

    def _build(self, registry: Registry, caller: Caller) -> BuiltServer:
        def caller_of(context: Context) -> Caller:
            return Caller(caller.user, caller.key, "mcp", caller.mode, client_name(context))

        return build_server(
            self._headless.workspace,
            registry_of=lambda _context: registry,
            default_registry=lambda: self._headless.registry,
            caller_of=caller_of,
        )

    async def _run(
        self, built: BuiltServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        lines = cast("Any", _Lines(reader, writer))
        with contextlib.suppress(ConnectionError):
            async with stdio_server(lines, lines) as (incoming, outgoing):
                await built.server.run(
                    incoming, outgoing, built.server.create_initialization_options()
                )


class _Lines:
    """A connection as the text files that the SDK's stdio transport reads and writes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def __aiter__(self) -> _Lines:
        return self

    async def __anext__(self) -> str:
        try:
            line = await self._reader.readline()
        except ValueError:  # StreamReader's, for a line beyond its limit
            logger.warning("A message of MCP is too long: its connection ends")
            line = b""
        if not line:
            raise StopAsyncIteration
        return line.decode("utf-8", "replace")

    async def write(self, text: str) -> None:
        self._writer.write(text.encode())

    async def flush(self) -> None:
        await self._writer.drain()
