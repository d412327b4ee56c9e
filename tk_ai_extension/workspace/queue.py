"""A fair queue of executions for each kernel."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tk_ai_extension.model.errors import LimitReached

MAX_WAITING = 256
"""Maximum waiting executions of one kernel."""
MAX_WAITING_PER_CALLER = 128
"""Maximum waiting executions of one caller on one kernel, so that it cannot block the others."""


_Waiting = OrderedDict[str, deque[asyncio.Future[None]]]
"""Those that wait for a kernel that is in use, in a round-robin order of callers.

The first caller is served next and then moves to the end with its other requests. A new caller enters
at the end.
"""


class FairQueue:
    """Serialises executions on each kernel, round robin between callers.

    A caller's own requests keep their order. After the running turn, a new caller waits for at most
    one turn of each other caller before its first turn, two before its second, and so on, however
    many requests they have. If a turn fails or is cancelled, the next one starts.

    Use it on one event loop. Unused kernels take no memory.

    Args:
        max_waiting: Maximum waiting requests of one kernel.
        max_waiting_per_caller: Maximum waiting requests of one caller on one kernel.
    """

    def __init__(
        self, max_waiting: int = MAX_WAITING, max_waiting_per_caller: int = MAX_WAITING_PER_CALLER
    ) -> None:
        self._max = max_waiting
        self._max_per_caller = max_waiting_per_caller
        self._waiting: dict[str, _Waiting] = {}

    @asynccontextmanager
    async def turn(self, kernel_id: str, caller: str) -> AsyncGenerator[None]:
        """Wait for the caller's turn on a kernel and hold it within the ``async with`` block.

        Args:
            kernel_id: The kernel.
            caller: The identity of the caller (`Caller.identity`).

        Raises:
            LimitReached: Too many requests are waiting. Nothing was queued.
        """
        waiting = self._waiting.get(kernel_id)
        if waiting is None:
            self._waiting[kernel_id] = _Waiting()
        else:
            await self._wait(kernel_id, waiting, caller)
        try:
            yield
        finally:
            self._pass_on(kernel_id)

    async def _wait(self, kernel_id: str, waiting: _Waiting, caller: str) -> None:
        if sum(len(own) for own in waiting.values()) >= self._max:
            raise LimitReached(f"{self._max} executions are already waiting for this kernel.")
        own = waiting.get(caller)
        if own is not None and len(own) >= self._max_per_caller:
            raise LimitReached(
                f"{self._max_per_caller} of your executions are already waiting for this kernel."
            )
        granted = asyncio.get_running_loop().create_future()
        waiting.setdefault(caller, deque()).append(granted)
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                # The turn was granted at the same time as the cancellation.
                self._pass_on(kernel_id)
            else:
                self._withdraw(waiting, caller, granted)
            raise

    def _pass_on(self, kernel_id: str) -> None:
        """End the current turn and start the next one, if there is one."""
        waiting = self._waiting[kernel_id]
        while waiting:
            caller, own = waiting.popitem(last=False)
            # Skip futures that are cancelled but not withdrawn yet.
            while own and own[0].cancelled():
                own.popleft()
            if own:
                granted = own.popleft()
                if own:
                    waiting[caller] = own
                granted.set_result(None)
                return
        del self._waiting[kernel_id]

    @staticmethod
    def _withdraw(waiting: _Waiting, caller: str, granted: asyncio.Future[None]) -> None:
        own = waiting.get(caller)
        if own is not None and granted in own:
            own.remove(granted)
            if not own:
                del waiting[caller]
