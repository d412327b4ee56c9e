"""Background tasks: each set has one owner, and failures are logged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from tk_ai_extension.model.errors import ToolError

_log = logging.getLogger(__name__)

T = TypeVar("T")


class BackgroundTasks:
    """The background tasks of one object, which closes them when it is closed.

    `asyncio.TaskGroup` cancels all its tasks when one fails; these tasks are independent.

    Args:
        logger: Logs failures.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Start a task. A failure is logged with its name."""
        task = asyncio.create_task(work, name=name)
        self.follow(task)
        return task

    def follow(self, task: asyncio.Task[Any]) -> None:
        """Keep a reference to a task until it has ended. A failure is logged with its name."""
        self.keep(task)
        task.add_done_callback(lambda ended: log_failure(ended, self._logger))

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Keep a reference to a task until it has ended. The code that awaits it handles a failure."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def complete(
        self, work: Coroutine[Any, Any, T], name: str, undo: Callable[[T], Awaitable[None]]
    ) -> T:
        """Await work; if the caller is cancelled, complete the work and then undo it.

        Work that is cancelled halfway could leave resources without an owner.
        """
        task = asyncio.create_task(work, name=name)
        self.keep(task)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self.spawn(self._undo(task, undo), f"The undo of: {name}")
            raise

    async def _undo(self, task: asyncio.Task[T], undo: Callable[[T], Awaitable[None]]) -> None:
        await asyncio.wait({task})
        if task.cancelled() or task.exception() is not None:
            log_failure(task, self._logger)
        else:
            await undo(task.result())

    async def join(self) -> None:
        """Wait until all tasks have ended, including those that start in the meantime."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self, grace: float = 0.0) -> None:
        """Cancel the tasks that have not ended within ``grace`` seconds, and wait for their end."""
        if grace:
            with suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self.join()
        for task in self._tasks:
            task.cancel()
        await self.join()


async def run_to_completion(work: Coroutine[Any, Any, T]) -> T:
    """Await work that runs to completion even if the caller is cancelled, once or repeatedly.

    A cancelled caller gets its CancelledError when the work has ended; then a failure is logged.
    """
    task = asyncio.create_task(work, name="Work of a cancelled caller")
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        log_failure(task, _log)
        raise


def log_failure(task: asyncio.Task[Any], logger: logging.Logger) -> None:
    """Log the failure of an ended task, if it failed."""
    if task.cancelled() or (error := task.exception()) is None:
        return
    if isinstance(error, ToolError):
        logger.warning("%s failed: %s", task.get_name(), error.message)
    else:
        logger.error("%s failed", task.get_name(), exc_info=error)
