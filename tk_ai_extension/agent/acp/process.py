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

MAX_LINE = 64 << 20
"""Maximum length of a message, in bytes: images are large."""
LAST_LINES = 8
"""Number of lines of stderr that are kept for an error message."""
GRACE = 1.5
"""Grace period, in seconds, for the process to end by itself, and again after SIGTERM."""

KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
"""The signal that a process cannot ignore."""


class _Protocol(asyncio.subprocess.SubprocessStreamProtocol):
    """The streams of a process. `asyncio.subprocess.Process.wait` would also wait for their end."""

    def __init__(self) -> None:
        super().__init__(limit=MAX_LINE, loop=asyncio.get_running_loop())
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        self.exited.set()
        super().process_exited()


class AgentProcess:
    """A running agent, in a process group of its own.

    Args:
        transport: The process, with pipes.
        protocol: Its streams.
        redact: Removes secrets from what it writes.
    """

    def __init__(
        self,
        transport: asyncio.SubprocessTransport,
        protocol: _Protocol,
        redact: Callable[[str], str],
    ) -> None:
        self._transport = transport
        self._exited = protocol.exited
        self._redact = redact
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        stdin, stdout, stderr = protocol.stdin, protocol.stdout, protocol.stderr
        assert stdin is not None
        assert stdout is not None
        assert stderr is not None
        self.pid = transport.get_pid()
        """The process id."""
        self.reader = stdout
        """Its standard output."""
        self.writer = stdin
        """Its standard input."""
        self._listening = asyncio.create_task(self._listen(stderr), name="tk-ai stderr of an agent")
        self._watching = asyncio.create_task(self._watch(), name="tk-ai end of an agent")

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
        transport, protocol = await asyncio.get_running_loop().subprocess_exec(
            _Protocol,
            *command,
            env=dict(environment),
            cwd=folder,
            start_new_session=True,
        )
        return cls(transport, protocol, redact)

    @property
    def running(self) -> bool:
        """Whether it has not ended, as far as is known."""
        return not self._exited.is_set()

    async def why_ended(self) -> str:
        """Return how the process ended and its last words on stderr, without secrets."""
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await self._exited.wait()
                await asyncio.wait((self._listening,))
        status = self._transport.get_returncode()
        parts = ["it closed its output" if status is None else f"it ended with status {status}"]
        if self._last:
            parts.append(" / ".join(self._last)[-500:])
        return ": ".join(parts)

    async def end(self) -> None:
        """End the process and all its descendants: close its input, then SIGTERM, then SIGKILL.

        Idempotent.
        """
        descendants = await asyncio.to_thread(_descendants, self.pid) if self.running else []
        self.writer.close()
        if not await self._ends():
            self._signal(signal.SIGTERM)
            if not await self._ends():
                self._signal(KILL)
        await asyncio.wait((self._watching,))
        for each in descendants:
            with suppress(psutil.Error):
                # It may have left the group.
                each.kill()

    async def close(self) -> None:
        """Close its pipes, once it has ended."""
        self._transport.close()
        self._listening.cancel()
        await asyncio.wait((self._listening,))

    async def _watch(self) -> None:
        """Kill what is left of its group when it has ended: at once, while the id is still its own."""
        await self._exited.wait()
        self._signal(KILL)

    async def _ends(self) -> bool:
        try:
            async with asyncio.timeout(GRACE):
                await self._exited.wait()
        except TimeoutError:
            return False
        return True

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if os.name == "nt":
                self._transport.send_signal(number)
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
