"""Tasks that nobody awaits: each set of them has one owner, and no failure is lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from tk_ai_extension.model.errors import ToolError

_log = logging.getLogger(__name__)

T = TypeVar("T")


class BackgroundTasks:
    """The background tasks of one object, which closes them with itself.

    `asyncio.TaskGroup` cancels all its tasks when one fails; these have nothing to do with each other.

    Args:
        logger: Where failures are logged.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Starts a task; a failure is logged under its name."""
        task = asyncio.create_task(work, name=name)
        self.follow(task)
        return task

    def follow(self, task: asyncio.Task[Any]) -> None:
        """Holds a task until it has ended; a failure is logged under its name."""
        self.keep(task)
        task.add_done_callback(lambda ended: log_failure(ended, self._logger))

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Holds a task until it has ended; a failure is for whoever awaits it (`outcome`)."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def join(self) -> None:
        """Waits until all have ended, those that begin meanwhile too."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self, grace: float = 0.0) -> None:
        """Cancels what has not ended within ``grace`` seconds, and waits for its end."""
        if grace:
            with suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self.join()
        for task in self._tasks:
            task.cancel()
        await self.join()


async def outcome(task: asyncio.Task[T], logger: logging.Logger) -> T:
    """Awaits a task that goes on if the caller is cancelled; its failure is logged then."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(lambda ended: log_failure(ended, logger))
        raise


async def run_to_completion(work: Coroutine[Any, Any, T]) -> T:
    """Awaits work that goes to its end also when the caller is cancelled; a failure is logged then."""
    task = asyncio.create_task(work, name="Work whose caller was cancelled")
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await asyncio.wait([task])
        log_failure(task, _log)
        raise


def log_failure(task: asyncio.Task[Any], logger: logging.Logger) -> None:
    """Logs why an ended task failed, if it did."""
    if task.cancelled() or (error := task.exception()) is None:
        return
    if isinstance(error, ToolError):
        logger.warning("%s failed: %s", task.get_name(), error.message)
    else:
        logger.error("%s failed", task.get_name(), exc_info=error)
