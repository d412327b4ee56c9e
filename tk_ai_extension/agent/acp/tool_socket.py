"""Socket over which the processes of agents call the tools, with a key for each session.

An agent starts `relay` as its MCP server. Its key is valid only in processes of that agent, if the
system can identify the peer of a socket: other programs of the user can read a process's environment.
A call counts only during a turn: it carries that turn's credential, which the agent never sees.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp.server import Server

from tk_ai_extension.agent.acp import relay
from tk_ai_extension.agent.tool_server import SERVER
from tk_ai_extension.mcp.stdio import serve_stream
from tk_ai_extension.model.agent_errors import AgentUnavailable
from tk_ai_extension.workspace.peers import comes_from, peer_of
from tk_ai_extension.workspace.socket_listener import SocketListener

logger = logging.getLogger(__name__)

MAX_LINE = 64 << 20
"""Maximum length of a line from an agent, in bytes."""


@dataclass
class ToolAccess:
    """Access of one agent to the tools.

    Attributes:
        server: The MCP server of its session.
        path: Path of the socket.
        key: Secret that names the session.
        pid: The agent's process.
    """

    server: Server[Any]
    path: Path
    pid: int
    key: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    def as_mcp_server(self) -> dict[str, Any]:
        """Return the MCP server for the parameters of ``session/new``."""
        environment = {relay.SOCKET: str(self.path), relay.KEY: self.key}
        return {
            "name": SERVER,
            "command": sys.executable,
            "args": ["-I", "-S", str(Path(relay.__file__).resolve())],
            "env": [{"name": name, "value": value} for name, value in environment.items()],
        }


class ToolSocket:
    """Listens while there is a session."""

    def __init__(self) -> None:
        self._sessions: dict[str, ToolAccess] = {}
        self._listener: SocketListener | None = None

    async def open(self, server: Server[Any], pid: int) -> ToolAccess:
        """Offer an MCP server to the agent of a process.

        Raises:
            AgentUnavailable: The system has no Unix sockets, or the socket cannot be created.
        """
        if self._listener is None:
            self._listener = SocketListener("tools.sock", self._accept, MAX_LINE)
        try:
            path = await self._listener.open()
        except OSError as error:
            raise AgentUnavailable(
                f"The tools cannot be offered to the agent: {error.strerror}.",
                hint="Agents other than Claude need a system with Unix sockets.",
            ) from error
        assert path is not None
        access = ToolAccess(server, path, pid)
        self._sessions[access.key] = access
        return access

    async def close(self, access: ToolAccess) -> None:
        """End an agent's access. Idempotent."""
        self._sessions.pop(access.key, None)
        if not self._sessions and self._listener is not None:
            listener, self._listener = self._listener, None
            await listener.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            access = await self._admit(reader, writer)
            if access is not None:
                await serve_stream(access.server, reader, writer)
        except ConnectionError:
            pass
        except Exception:
            logger.exception("The connection of an agent to the tools failed")

    async def _admit(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> ToolAccess | None:
        """Return the access of a connection by its first line; None if it is refused."""
        try:
            shown = (await reader.readline()).strip()
        except ValueError:
            return None
        access = next(
            (each for each in self._sessions.values() if _equal(each.key, shown)),
            None,
        )
        if access is None:
            logger.warning("A program without a valid key connected to the tools of an agent")
            return None
        peer = peer_of(writer.get_extra_info("socket"))
        if peer and not await asyncio.to_thread(comes_from, peer, access.pid):
            logger.warning("The key of an agent was used by process %d, which is not its own", peer)
            return None
        return access


def _equal(key: str, shown: bytes) -> bool:
    return secrets.compare_digest(key.encode(), shown)
