"""Messages of the protocol over the pipes of a process, within limits."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast

from tk_ai_extension.model.encoding import encodable

logger = logging.getLogger(__name__)

MAX_PREAMBLE = 200
"""Maximum number of lines that an agent may write before its first message."""


class PipeTransport:
    """Transport of the protocol's `Connection`: one JSON object per line.

    It ends at the first invalid message. Lines before the first message are skipped: some programs
    greet.

    Args:
        reader: The agent's output.
        writer: The agent's input.
        ready: Awaited before each message is read, so that an agent cannot send faster than its
            events are handled.
        on_end: Called once at the end of the output, with what was wrong with it; None for nothing.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ready: Callable[[], Awaitable[object]],
        on_end: Callable[[str | None], None],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._ready = ready
        self._on_end = on_end
        self._sending = asyncio.Lock()
        self._skipped = 0
        self._begun = False

    async def send(self, message: dict[str, Any]) -> None:
        """Send a message.

        Raises:
            ConnectionError: The agent has closed its input.
        """
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        async with self._sending:
            self._writer.write(line)
            await self._writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message; None at the end."""
        problem: str | None = None
        while True:
            await self._ready()
            try:
                line = await self._reader.readuntil(b"\n")
            except asyncio.LimitOverrunError:
                problem = "it sent a message that is too long"
                break
            except (asyncio.IncompleteReadError, ConnectionError):
                break
            if not line.strip():
                continue
            message = _parsed(line)
            if message is not None:
                self._begun = True
                return message
            self._skipped += 1
            if self._begun or self._skipped > MAX_PREAMBLE:
                problem = "it sent a line that is not a message of the protocol"
                break
        self._on_end(problem)
        return None

    async def close(self) -> None:
        """Do nothing: the process is ended by its owner."""


def _parsed(line: bytes) -> dict[str, Any] | None:
    """Return a JSON-RPC message, or None if it is none."""
    try:
        # A browser cannot parse NaN, and a file cannot hold half a character.
        found = encodable(json.loads(line))
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    message = cast("dict[str, Any]", found)
    method, params = message.get("method"), message.get("params")
    if not isinstance(message.get("id"), int | str | None):
        return None
    if method is None:
        return message if _is_response(message) else None
    is_request = isinstance(method, str) and (params is None or isinstance(params, dict))
    return message if is_request else None


def _is_response(message: dict[str, Any]) -> bool:
    if "result" in message:
        return True
    return "error" in message and (message["error"] is None or isinstance(message["error"], dict))
