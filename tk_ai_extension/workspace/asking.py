"""Kernels whose running cell waits for an answer: what is queued there begins only afterwards."""

from __future__ import annotations

from collections import Counter

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import KernelBusy

LATER = (
    "The kernel runs the very cell that waits for your answer: this runs by itself when you have "
    "answered. Do not wait for it."
)
"""What a caller is told of a run that cannot begin before their own answer."""


class AskingKernels:
    """Which callers a kernel waits for, because its running cell asks them something (`%tk`).

    Such a caller and its kernel would wait for each other for ever: their calls wait for nothing in
    this kernel, and do not end what asks.
    """

    def __init__(self) -> None:
        self._asked: Counter[tuple[str, str]] = Counter()

    def begin(self, kernel_id: str, caller: Caller) -> None:
        """A cell of this kernel waits for the caller from now on."""
        self._asked[kernel_id, caller.identity] += 1

    def end(self, kernel_id: str, caller: Caller) -> None:
        """It has its answer, or waits no more."""
        self._asked[kernel_id, caller.identity] -= 1
        self._asked = +self._asked

    def waits_for(self, kernel_id: str, caller: Caller) -> bool:
        """Whether a cell of this kernel waits for the caller."""
        return self._asked[kernel_id, caller.identity] > 0

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
