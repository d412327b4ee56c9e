"""The tools of a session as an MCP server that the agent starts: a relay to a Unix socket.

Only the agent's processes may connect, if the system can identify the peer of a socket. A call counts
only during a turn: it carries that turn's credential, which the agent never sees.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any, cast

from anyio import AsyncFile
from mcp.server import Server
from mcp.server.stdio import stdio_server

from tk_ai_extension.agent.acp import relay
from tk_ai_extension.agent.tool_server import SERVER
from tk_ai_extension.model.agent_errors import AgentUnavailable
from tk_ai_extension.workspace.private_socket import PrivateSocket, comes_from

logger = logging.getLogger(__name__)

MAX_LINE = 64 << 20
"""Maximum length of a line from an agent, in bytes."""


class ToolSocket:
    """The socket of one session, in a folder that only the server's user can open.

    Args:
        server: The MCP server of the session.
        pid: The agent's process.
    """

    def __init__(self, server: Server[Any], pid: int) -> None:
        self._server = server
        self._pid = pid
        self._listener = PrivateSocket(self._serve, MAX_LINE)
        self.close = self._listener.close

    async def open(self) -> dict[str, Any]:
        """Listen, and return the MCP server for the parameters of ``session/new``.

        Raises:
            AgentUnavailable: The system has no Unix sockets, or the socket cannot be created.
        """
        try:
            path = await self._listener.open()
        except OSError as error:
            raise AgentUnavailable(
                f"The tools cannot be offered to the agent: {error.strerror}.",
                hint="Agents other than Claude need a system with Unix sockets.",
            ) from error
        arguments = ["-I", "-S", relay.__file__, str(path)]
        return {"name": SERVER, "command": sys.executable, "args": arguments, "env": []}

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not await comes_from(writer, self._pid):
            logger.warning("A process that is not the agent's opened the tools of an agent")
            return
        options = self._server.create_initialization_options()
        # The transport iterates over lines, and writes and flushes texts.
        lines, texts = cast("AsyncFile[str]", reader), cast("AsyncFile[str]", _Texts(writer))
        try:
            async with stdio_server(lines, texts) as (incoming, outgoing):
                await self._server.run(incoming, outgoing, options)
        except* ConnectionError:
            pass
        except* Exception:
            logger.exception("The connection of an agent to the tools failed")


class _Texts:
    """The writing half of a connection, as a text file."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, text: str) -> None:
        self._writer.write(text.encode())

    async def flush(self) -> None:
        await self._writer.drain()
