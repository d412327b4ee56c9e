"""Process of an agent: its start, what it writes to stderr, and its end with all its descendants."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

logger = logging.getLogger(__name__)

MAX_READ = 1 << 20
"""Size of the buffer of its output, in bytes."""
LAST_LINES = 8
"""Number of lines of stderr that are kept for an error message."""
GRACE = 1.5
"""Grace period, in seconds, for the process to end by itself, and again after SIGTERM."""


class AgentProcess:
    """A running agent, in a process group of its own.

    Args:
        process: The process, with pipes.
        redact: Removes secrets from what it writes.
    """

    def __init__(self, process: asyncio.subprocess.Process, redact: Callable[[str], str]) -> None:
        self._process = process
        self._redact = redact
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.pid = process.pid
        """The process id."""
        self.reader = process.stdout
        """Its standard output."""
        self.writer = process.stdin
        """Its standard input."""
        self._listening = asyncio.create_task(
            self._listen(process.stderr), name="tk-ai stderr of an agent"
        )

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        redact: Callable[[str], str],
    ) -> AgentProcess:
        """Start a process.

        Args:
            command: The program's path and its arguments.
            environment: Its whole environment.
            folder: Its working directory.
            redact: Removes secrets from what it writes.

        Raises:
            OSError: The program cannot be started.
        """
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            limit=MAX_READ,
            env=dict(environment),
            cwd=folder,
            start_new_session=True,
        )
        return cls(process, redact)

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
        descendants = await asyncio.to_thread(_descendants, self.pid) if self.running else []
        self.writer.close()
        if not await self._ends():
            self._signal(signal.SIGTERM)
            await self._ends()
        # Also what it has left behind.
        self._signal(getattr(signal, "SIGKILL", signal.SIGTERM))
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

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if os.name == "nt":
                self._process.send_signal(number)
            else:
                os.killpg(self.pid, number)

    async def _listen(self, stderr: asyncio.StreamReader) -> None:
        while True:
            try:
                line = await stderr.readline()
            except ValueError:
                # A line of more than the limit: the rest of it follows.
                continue
            if not line:
                return
            said = self._redact(line.decode("utf-8", "replace").strip())
            if said:
                self._last.append(said[:300])
                logger.debug("agent: %s", said)


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []
