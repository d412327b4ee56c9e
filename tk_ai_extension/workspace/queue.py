"""Whose turn it is on a kernel."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tk_ai_extension.model.errors import LimitReached

MAX_WAITING = 256
"""How many may wait for one kernel."""
MAX_WAITING_PER_CALLER = 128
"""How many of them may be one caller's, so that one cannot shut the others out."""


@dataclass
class _Line:
    """Those who use or wait for one kernel.

    ``waiting`` is the rotation: the caller in front is served next and then goes to the end, with
    what else it waits for. A caller enters at the end.
    """

    running: str
    waiting: OrderedDict[str, deque[asyncio.Future[None]]] = field(
        default_factory=OrderedDict[str, deque[asyncio.Future[None]]]
    )


class FairQueue:
    """One at a time on each kernel: first come first served, in turns between callers.

    A caller's own requests keep their order. Besides the turn that runs, a caller that comes waits
    for at most one turn of each other caller before its first one, for two before its second, and
    so on, however much they queue. An error or a cancellation in one turn passes the turn on and
    touches nobody else's.

    Used on one event loop. Kernels that nobody uses or waits for take no room.

    Args:
        max_waiting: The bound on those who wait for one kernel.
        max_waiting_per_caller: The bound on how many of them are one caller's.
    """

    def __init__(
        self, max_waiting: int = MAX_WAITING, max_waiting_per_caller: int = MAX_WAITING_PER_CALLER
    ) -> None:
        self._max = max_waiting
        self._max_per_caller = max_waiting_per_caller
        self._lines: dict[str, _Line] = {}

    @asynccontextmanager
    async def turn(self, kernel_id: str, caller: str) -> AsyncGenerator[None]:
        """Wait for the caller's turn on a kernel and holds it for the body of the ``async with``.

        Args:
            kernel_id: The kernel.
            caller: The identity of the caller (`Caller.identity`).

        Raises:
            LimitReached: too many wait already; nothing was queued.
        """
        line = self._lines.get(kernel_id)
        if line is None:
            self._lines[kernel_id] = _Line(running=caller)
        else:
            await self._wait(kernel_id, line, caller)
        try:
            yield
        finally:
            self._pass_on(kernel_id)

    def running(self, kernel_id: str) -> str | None:
        """The identity of the caller whose turn it is, or None."""
        line = self._lines.get(kernel_id)
        return None if line is None else line.running

    def waiting(self, kernel_id: str) -> list[str]:
        """The identities of those who wait, one for each turn, in the order of their turns."""
        line = self._lines.get(kernel_id)
        if line is None:
            return []
        rounds = max((len(own) for own in line.waiting.values()), default=0)
        return [
            caller
            for turn in range(rounds)
            for caller, own in line.waiting.items()
            if len(own) > turn
        ]

    async def _wait(self, kernel_id: str, line: _Line, caller: str) -> None:
        if sum(len(own) for own in line.waiting.values()) >= self._max:
            raise LimitReached(f"{self._max} executions wait for this kernel already.")
        own = line.waiting.get(caller)
        if own is not None and len(own) >= self._max_per_caller:
            raise LimitReached(
                f"{self._max_per_caller} of your executions wait for this kernel already."
            )
        granted = asyncio.get_running_loop().create_future()
        line.waiting.setdefault(caller, deque()).append(granted)
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                # The turn came in the same moment as the cancellation.
                self._pass_on(kernel_id)
            else:
                self._leave(line, caller, granted)
            raise

    def _pass_on(self, kernel_id: str) -> None:
        """End the present turn and begins the next one, if anybody waits."""
        line = self._lines[kernel_id]
        while line.waiting:
            caller, own = line.waiting.popitem(last=False)
            # Cancelled in this same moment: these have not left by themselves yet.
            while own and own[0].cancelled():
                own.popleft()
            if own:
                granted = own.popleft()
                if own:
                    line.waiting[caller] = own
                line.running = caller
                granted.set_result(None)
                return
        del self._lines[kernel_id]

    @staticmethod
    def _leave(line: _Line, caller: str, granted: asyncio.Future[None]) -> None:
        own = line.waiting.get(caller)
        if own is not None and granted in own:
            own.remove(granted)
            if not own:
                del line.waiting[caller]
