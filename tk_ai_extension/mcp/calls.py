"""Running tool calls: they outlive their connections, and report their progress.

After a disconnect a call continues: a lost connection must not kill a training run.
``notifications/cancelled`` cancels the call, and the tool interrupts its code. The SDK cancels the
handler in both cases (docs/adr/0009).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import mcp_types as types
from mcp.server.session import ServerSession

from tk_ai_extension.mcp.requests import Context, is_cancelled

logger = logging.getLogger(__name__)

GRACE = 0.5
"""Grace period for calls when the server stops, in seconds."""
MAX_WAITING = 100
"""Maximum number of queued reports for a slow client; the oldest are dropped: the result is complete."""
DRAIN = 1.0
"""Grace period for queued reports before the result, in seconds."""

Outcome = types.CallToolResult | types.InputRequiredResult
"""Result of a tool call."""


class RunningCalls:
    """Running calls of all clients."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Outcome]] = set()

    async def run(self, context: Context, call: Coroutine[Any, Any, Outcome]) -> Outcome:
        """Run a call to its end, even after a disconnect."""
        task = asyncio.create_task(call)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if is_cancelled(context):
                task.cancel()
            elif not task.done():
                logger.info("The client of %s has disconnected; the call continues", context.method)
            raise

    async def close(self) -> None:
        """End all calls: calls with ended executions return by themselves, the others are cancelled."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=GRACE)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Outcome]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # A waiting client gets the exception as well; otherwise this is the only trace.
            logger.error("A tool call failed", exc_info=error)


class ProgressReporter:
    """Sends a tool's progress in order, as fast as the client reads; never blocks the tool."""

    def __init__(self, session: ServerSession) -> None:
        self._session = session
        # None is the end.
        self._waiting: asyncio.Queue[str | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def __call__(self, message: str) -> None:
        """Queue a report; does not block."""
        if self._closed:
            return
        if self._waiting.qsize() == MAX_WAITING:
            self._waiting.get_nowait()
        self._waiting.put_nowait(message)
        if self._task is None:
            self._task = asyncio.create_task(self._send())

    async def close(self) -> None:
        """Flush queued reports for a moment, then drop the rest: the result follows."""
        self._closed = True
        if self._task is not None:
            self._waiting.put_nowait(None)
            await asyncio.wait((self._task,), timeout=DRAIN)
            self._task.cancel()
            (failed,) = await asyncio.gather(self._task, return_exceptions=True)
            if isinstance(failed, Exception):
                logger.warning("Reporting progress failed", exc_info=failed)

    async def _send(self) -> None:
        sent = 0
        while (message := await self._waiting.get()) is not None:
            sent += 1
            await self._session.report_progress(sent, message=message)
