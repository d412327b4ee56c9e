"""Process of an agent: what it writes to stderr, its end with all its descendants, and its tools.

The tools of a session are an MCP server that the agent starts: a relay to a Unix socket. Only the agent's
processes may connect, if the system can identify the peer of a socket.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import Process
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import psutil
from anyio import AsyncFile
from mcp.server import Server
from mcp.server.stdio import stdio_server

from tk_ai_extension.agent.acp import relay
from tk_ai_extension.agent.backend import SERVER
from tk_ai_extension.model.agent_errors import AgentUnavailable
from tk_ai_extension.workspace.private_socket import PrivateSocket, comes_from

logger = logging.getLogger(__name__)

MAX_LINE = 64 << 20
"""Maximum length of a line from an agent, in bytes."""
LAST_LINES = 8
"""Number of lines of stderr that are kept for an error message."""
GRACE = 1.5
"""Grace period, in seconds, for the process to end by itself, and again after SIGTERM."""


class AgentProcess:
    """An agent, in a process group of its own.

    Args:
        process: The process, with pipes, the leader of its group.
        redact: Removes secrets from what it writes.
    """

    def __init__(self, process: Process, redact: Callable[[str], str]) -> None:
        self._process = process
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self.redact = redact
        self.pid = process.pid
        self.reader = cast("StreamReader", process.stdout)
        self.writer = cast("StreamWriter", process.stdin)
        self._listening = asyncio.create_task(self._listen(cast("StreamReader", process.stderr)))

    @property
    def running(self) -> bool:
        """Whether it has not ended, as far as is known."""
        return self._process.returncode is None

    async def why_ended(self) -> str:
        """Return how the process ended and its last words on stderr, without secrets."""
        await self._ends()
        await asyncio.wait((self._listening,), timeout=0.2)
        status = self._process.returncode
        parts = ["it closed its output" if status is None else f"it ended with status {status}"]
        if self._last:
            parts.append(" / ".join(self._last)[-500:])
        return ": ".join(parts)

    async def end(self) -> None:
        """End it and its descendants: close its input, then SIGTERM, then SIGKILL. Idempotent."""
        descendants: list[psutil.Process] = []
        if self.running:
            with suppress(psutil.Error):
                process = psutil.Process(self.pid)
                descendants = await asyncio.to_thread(process.children, recursive=True)
        self.writer.close()
        if not await self._ends():
            self._process.terminate()
            await self._ends()
        with suppress(ProcessLookupError, PermissionError):
            # Also what it has left behind.
            if os.name == "nt":
                self._process.kill()
            else:
                os.killpg(self.pid, signal.SIGKILL)
        for each in descendants:
            with suppress(psutil.Error):
                # It may have left the group.
                each.kill()
        await self._ends()
        self._listening.cancel()
        await asyncio.wait((self._listening,))

    async def _ends(self) -> bool:
        # A child that it has left may keep its pipes open.
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), GRACE)
        return not self.running

    async def _listen(self, stderr: StreamReader) -> None:
        while True:
            try:
                line = await stderr.readline()
            except ValueError:
                # A line of more than the limit: the rest of it follows.
                continue
            if not line:
                return
            said = self.redact(line.decode("utf-8", "replace").strip())[:300]
            if said:
                self._last.append(said)
                logger.debug("agent: %s", said)


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
