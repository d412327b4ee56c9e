"""This package's own queries of kernels, such as the list of variables."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from tk_ai_extension.model.background import BackgroundTasks, outcome
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import KernelBusy
from tk_ai_extension.workspace.runs import FairQueue

logger = logging.getLogger(__name__)

T = TypeVar("T")

WAIT = 5.0
"""Seconds for which a query waits for others."""


class KernelQueries:
    """Runs queries of each kernel one after the other: one looks like running code to another."""

    def __init__(self) -> None:
        self._queue = FairQueue()
        self._tasks = BackgroundTasks(logger)

    @asynccontextmanager
    async def turn(self, kernel_id: str, caller: Caller) -> AsyncGenerator[None]:
        """Wait until no query of a kernel is in progress; none begins within the ``async with`` block.

        Raises:
            KernelBusy: Other queries did not end in time.
        """
        waiting = asyncio.timeout(WAIT)
        try:
            async with waiting, self._queue.turn(kernel_id, caller.identity):
                waiting.reschedule(None)
                yield
        except TimeoutError:
            if not waiting.expired():
                raise
            raise KernelBusy("The kernel is answering other queries.", hint="Call again.") from None

    async def run(
        self, kernel_id: str, caller: Caller, query: Callable[[], Coroutine[Any, Any, T]]
    ) -> T:
        """Run a query in its turn.

        A query that has begun goes on if the caller is cancelled, and keeps the turn until its end.

        Raises:
            KernelBusy: Other queries did not end in time.
        """
        begun = False

        async def within_turn() -> T:
            nonlocal begun
            async with self.turn(kernel_id, caller):
                begun = True
                return await query()

        task = asyncio.create_task(within_turn(), name="A query of a kernel")
        self._tasks.keep(task)
        try:
            return await outcome(task, logger)
        except asyncio.CancelledError:
            if not begun:
                task.cancel()
            raise

    async def close(self) -> None:
        """Cancel the queries."""
        await self._tasks.close()
