"""Progress notifications that never hold up the tool which reports them."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from mcp.server.session import ServerSession

MAX_WAITING = 100
"""How many reports wait for a slow client; the oldest go first, the answer has everything."""
DRAIN = 1.0
"""Seconds for which the answer waits for the reports before it."""


class ProgressReporter:
    """Sends what a tool reports, in order, as fast as the client takes it.

    Does nothing where the client gave no progress token.
    """

    def __init__(self, session: ServerSession) -> None:
        self._session = session
        self._waiting: asyncio.Queue[str] = asyncio.Queue(MAX_WAITING)
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def __call__(self, message: str) -> None:
        """Takes a report and returns at once."""
        if self._closed:
            return
        if self._waiting.full():
            self._waiting.get_nowait()
            self._waiting.task_done()
        self._waiting.put_nowait(message)
        if self._task is None:
            self._task = asyncio.create_task(self._send())

    async def close(self) -> None:
        """Lets waiting reports go out for a moment, then drops them: the answer comes next."""
        self._closed = True
        task = self._task
        if task is None:
            return
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._waiting.join(), DRAIN)
        finally:
            task.cancel()
            await asyncio.wait((task,))

    async def _send(self) -> None:
        sent = 0
        while True:
            message = await self._waiting.get()
            sent += 1
            await self._session.report_progress(sent, message=message)
            self._waiting.task_done()
