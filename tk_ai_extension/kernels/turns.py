"""What is done to one kernel's life, one thing after the other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from tk_ai_extension.model.background import BackgroundTasks, outcome

log = logging.getLogger(__name__)

Action = Callable[[], Coroutine[Any, Any, None]]


class Turns:
    """Restarts and shutdowns of one kernel: each waits for those that were asked for before.

    What has begun is carried through, also where whoever asked for it stops waiting: a manager of
    jupyter_client that is left in the middle of a restart can do nothing more.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._tasks = BackgroundTasks(log)
        self._last: tuple[str, asyncio.Task[None]] | None = None

    async def take(self, kind: str, action: Action, *, join: bool = False) -> None:
        """Carries something out when all before it is done.

        Args:
            kind: What it is.
            action: Does it.
            join: Whether the last thing that was asked for will do, if it is of that kind and is
                not done yet.
        """
        if join and self._last is not None and self._last[0] == kind:
            await outcome(self._last[1], log)
            return
        task = asyncio.create_task(self._carry_out(action), name=f"A {kind} of a kernel")
        self._last = (kind, task)
        self._tasks.keep(task)
        task.add_done_callback(self._done)
        await outcome(task, log)

    async def over(self) -> bool:
        """Waits until nothing is being done; returns whether anything was."""
        had_any = bool(self._tasks)
        await self._tasks.join()
        return had_any

    async def close(self) -> None:
        """Breaks off what is not done yet."""
        await self._tasks.close()

    async def _carry_out(self, action: Action) -> None:
        async with self._lock:
            await action()

    def _done(self, task: asyncio.Task[None]) -> None:
        if self._last is not None and self._last[1] is task:
            self._last = None
