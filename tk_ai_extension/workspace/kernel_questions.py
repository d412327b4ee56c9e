"""Kernels whose running cell waits for an answer: what is queued there begins only afterwards."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import KernelBusy

LATER = (
    "The kernel runs the very cell that waits for your answer: this runs by itself when you have "
    "answered. Do not wait for it."
)
"""What a caller is told of a run that cannot begin before their own answer."""


@dataclass
class _Waiting:
    """How many questions of a kernel a caller has not answered yet, and when that is none."""

    count: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)


class AskingKernels:
    """Which callers a kernel waits for, because its running cell asks them something (`%tk`).

    Such a caller and its kernel would wait for each other for ever: their calls wait for nothing in
    this kernel, do not end what asks, and what they run begins when the question is over.
    """

    def __init__(self) -> None:
        self._asked: dict[tuple[str, str], _Waiting] = {}

    def begin(self, kernel_id: str, caller: Caller) -> None:
        """A cell of this kernel waits for the caller from now on."""
        self._asked.setdefault((kernel_id, caller.identity), _Waiting()).count += 1

    def end(self, kernel_id: str, caller: Caller) -> None:
        """It has its answer, or waits no more."""
        key = (kernel_id, caller.identity)
        waiting = self._asked[key]
        waiting.count -= 1
        if waiting.count == 0:
            del self._asked[key]
            waiting.over.set()

    def waits_for(self, kernel_id: str, caller: Caller) -> bool:
        """Whether a cell of this kernel waits for the caller."""
        return (kernel_id, caller.identity) in self._asked

    async def over(self, kernel_id: str, caller: Caller) -> None:
        """Returns when no cell of this kernel waits for the caller."""
        while (waiting := self._asked.get((kernel_id, caller.identity))) is not None:
            await waiting.over.wait()

    def spare(self, kernel_id: str, caller: Caller) -> None:
        """Keeps the caller from ending the cell that waits for them.

        Raises:
            KernelBusy: one does.
        """
        if self.waits_for(kernel_id, caller):
            raise KernelBusy(
                "The kernel runs the very cell that waits for your answer.",
                hint="Answer first; the person can restart the kernel then, or ask in the chat.",
            )
