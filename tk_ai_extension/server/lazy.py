"""Lazy asynchronous values."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Lazy(Generic[T]):
    """A value that is created once, in a task, on first use; if that fails, on the next use again.

    Args:
        make: Creates the value.
        name: The name of the task.
    """

    def __init__(self, make: Callable[[], Coroutine[Any, Any, T]], name: str) -> None:
        self._make = make
        self._name = name
        self._task: asyncio.Task[T] | None = None

    @property
    def made(self) -> T | None:
        """The value; None until it is created."""
        task = self._task
        return task.result() if task is not None and task.done() and not _failed(task) else None

    async def get(self) -> T:
        """Return the value, creating it if needed; cancelling one caller does not affect others."""
        if self._task is None:
            self._task = asyncio.create_task(self._make(), name=self._name)
            self._task.add_done_callback(self._ended)
        elif self._task.done():
            return self._task.result()
        return await asyncio.shield(self._task)

    async def settled(self) -> T | None:
        """Wait for a creation in progress, if any, and return the value as `made` does."""
        if self._task is not None:
            await asyncio.wait((self._task,))
        return self.made

    def _ended(self, task: asyncio.Task[T]) -> None:
        if _failed(task):
            self._task = None


def _failed(task: asyncio.Task[Any]) -> bool:
    return task.cancelled() or task.exception() is not None
