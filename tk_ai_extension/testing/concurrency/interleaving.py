"""Random delays at every point at which a task yields to others.

Code without an ``await`` is atomic. `interleaved` delays every task at random when it resumes after an
``await``, for some iterations of the loop or some milliseconds. This widens each gap between a read and
the commit that follows from it, in the code under test and in libraries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from random import Random
from typing import Any


class _Delayed(Coroutine[Any, Any, Any]):
    """A coroutine that is resumed late."""

    def __init__(self, inner: Coroutine[Any, Any, Any], random: Random, share: float) -> None:
        self._inner = inner
        self._random = random
        self._share = share
        self._turns = 0
        self._pause = False

    def send(self, value: Any) -> Any:
        if self._pause:
            self._pause = False
            return self._asleep()
        if self._turns:
            self._turns -= 1
            return None
        result = self._inner.send(value)
        chance = self._random.random()
        if chance < self._share:
            self._turns = self._random.randrange(1, 6)
            self._pause = chance < self._share / 8
        return result

    def _asleep(self) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        loop.call_later(self._random.random() * 0.004, _wake, future)
        # As a future's own `__await__` does for the task that awaits it.
        future._asyncio_future_blocking = True  # noqa: SLF001
        return future

    def throw(self, *error: Any) -> Any:
        self._turns, self._pause = 0, False
        return self._inner.throw(*error)

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._inner.__await__()

    def __getattr__(self, name: str) -> Any:
        # ``cr_frame`` and the like, by which asyncio and anyio describe a task.
        return getattr(self._inner, name)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


@contextmanager
def interleaved(random: Random, share: float = 0.3) -> Generator[None]:
    """Delay the tasks that are created in the block.

    Args:
        random: Decides when and how long.
        share: Fraction of resumptions that are delayed.
    """
    loop = asyncio.get_running_loop()
    before = loop.get_task_factory()

    def factory(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        return asyncio.Task(_Delayed(work, random, share), loop=loop, **options)

    loop.set_task_factory(factory)
    try:
        yield
    finally:
        loop.set_task_factory(before)
