"""Values that take long to make, made when they are first asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Lazy(Generic[T]):
    """A value that is made once, in a task of its own, when it is first asked for.

    Args:
        make: Makes it.
        name: The name of the task.
    """

    def __init__(self, make: Callable[[], Coroutine[Any, Any, T]], name: str) -> None:
        self._make = make
        self._name = name
        self._task: asyncio.Task[T] | None = None

    @property
    def made(self) -> T | None:
        """The value; None while it is not made, and where making it failed."""
        task = self._task
        if task is None or not task.done() or task.cancelled() or task.exception() is not None:
            return None
        return task.result()

    async def get(self) -> T:
        """Return the value, made by now. A caller that is cancelled leaves the others theirs."""
        if self._task is None:
            self._task = asyncio.create_task(self._make(), name=self._name)
        return await asyncio.shield(self._task)

    async def settled(self) -> T | None:
        """Wait until it is made where somebody has asked for it, and return it as `made` does."""
        if self._task is not None:
            await asyncio.wait((self._task,))
        return self.made
