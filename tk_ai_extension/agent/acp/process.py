"""Process of an agent: what it writes to stderr, and its end with all its descendants."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import Process
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import cast

import psutil

logger = logging.getLogger(__name__)

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
