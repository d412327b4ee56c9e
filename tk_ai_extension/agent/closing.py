"""Closing of what may not answer any more: the agent of a chat, and the servers of its tools."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from tk_ai_extension.model.background import BackgroundTasks, log_failure

logger = logging.getLogger(__name__)

DEADLINE = 30.0
"""Deadline for each close, in seconds. Each has shorter ones of its own."""


class Closable(Protocol):
    """Something that is closed."""

    async def close(self) -> None:
        """Release what it holds."""
        ...


C = TypeVar("C", bound=Closable)


class Closing:
    """What one owner closes: at once, each under a deadline of its own.

    A close goes on if its caller is cancelled; the next call of `close` waits for it as well. One that
    fails or hangs is logged, and does not keep the others from being closed.
    """

    def __init__(self, deadline: float = DEADLINE) -> None:
        self._deadline = deadline
        self._tasks = BackgroundTasks(logger)

    async def close(self, *resources: Closable | None) -> None:
        """Close resources, and wait until all that were given so far are closed."""
        for each in resources:
            if each is not None:
                self._tasks.spawn(self._close(each), f"Closing of {type(each).__name__}")
        await self._tasks.join()

    async def begin(self, work: Coroutine[Any, Any, C], name: str) -> C:
        """Start a resource that is closed later.

        A cancelled caller goes on at once. The start is then cancelled once, so that nothing ends its
        cleanup halfway, and the next call of `close` waits for it.
        """
        task = asyncio.create_task(work, name=name)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            self._tasks.spawn(self._end(task), f"End of: {name}")
            raise

    async def _end(self, task: asyncio.Task[C]) -> None:
        await asyncio.wait((task,), timeout=self._deadline)
        if not task.done():
            logger.warning("%s did not end within %.0f s", task.get_name(), self._deadline)
            task.cancel()
        elif task.cancelled() or task.exception() is not None:
            log_failure(task, logger)
        else:
            # It had started before it was cancelled.
            await self._close(task.result())

    async def _close(self, resource: Closable) -> None:
        try:
            async with asyncio.timeout(self._deadline):
                await resource.close()
        except TimeoutError:
            name = type(resource).__name__
            logger.warning("%s was not closed within %.0f s", name, self._deadline)
