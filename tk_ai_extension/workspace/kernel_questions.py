"""Kernels whose running cell waits for a caller's answer: that caller's runs start afterwards."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import KernelBusy
from tk_ai_extension.model.sentences import Sentence

RUNS_AFTER_ANSWER = Sentence("runs_after_answer")
"""The notice for a run that cannot start before the caller has answered."""


@dataclass
class _OpenQuestions:
    """The number of questions that a caller has not answered yet; the event is set at zero."""

    count: int = 0
    answered: asyncio.Event = field(default_factory=asyncio.Event)


class KernelQuestions:
    """The callers that a kernel waits for, because its running cell asks them something (`%tk`).

    If such a caller waited for the kernel, both would wait forever. So the caller's calls do not
    wait for this kernel, cannot end the cell that asks, and their runs start after the answer.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], _OpenQuestions] = {}

    def begin(self, kernel_id: str, caller: Caller) -> None:
        """Record that a cell of this kernel waits for the caller."""
        self._open.setdefault((kernel_id, caller.identity), _OpenQuestions()).count += 1

    def end(self, kernel_id: str, caller: Caller) -> None:
        """Record that a question is answered or withdrawn."""
        key = (kernel_id, caller.identity)
        questions = self._open[key]
        questions.count -= 1
        if questions.count == 0:
            del self._open[key]
            questions.answered.set()

    def waits_for(self, kernel_id: str, caller: Caller) -> bool:
        """Return whether a cell of this kernel waits for the caller."""
        return (kernel_id, caller.identity) in self._open

    async def wait_until_answered(self, kernel_id: str, caller: Caller) -> None:
        """Wait until no cell of this kernel waits for the caller."""
        while (questions := self._open.get((kernel_id, caller.identity))) is not None:
            await questions.answered.wait()

    def reject_if_waiting(self, kernel_id: str, caller: Caller) -> None:
        """Prevent the caller from ending the cell that waits for them.

        Raises:
            KernelBusy: A cell of this kernel waits for the caller.
        """
        if self.waits_for(kernel_id, caller):
            raise KernelBusy(
                "The kernel is running the cell that waits for your answer.",
                hint="Answer first. Then the user can restart the kernel, or ask in the chat.",
            )
