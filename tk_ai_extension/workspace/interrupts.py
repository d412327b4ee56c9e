"""Interrupts of runs: each reaches the code of its run, or nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tk_ai_extension.kernels.base import Kernels
from tk_ai_extension.model.background import BackgroundTasks
from tk_ai_extension.model.executions import ExecutionRequest
from tk_ai_extension.workspace.runs import Run

logger = logging.getLogger(__name__)

GRACE = 5.0
"""Grace period in seconds for an interrupt that is being sent when the code ends."""


class RunInterrupts:
    """Interrupts the requests of runs.

    Args:
        kernels: Sends an interrupt only while the kernel runs the request.
    """

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels
        self._accepting: dict[str, tuple[ExecutionRequest, BackgroundTasks]] = {}

    @asynccontextmanager
    async def accepted(self, run: Run, request: ExecutionRequest) -> AsyncGenerator[None]:
        """Accept interrupts of a run while it executes this request.

        On exit, wait for interrupts that are being sent: in the next turn they would reach the code
        of another caller.
        """
        tasks = BackgroundTasks(logger)
        self._accepting[run.id] = request, tasks
        try:
            yield
        finally:
            del self._accepting[run.id]
            await tasks.close(GRACE)

    def start(self, run: Run) -> asyncio.Task[None] | None:
        """Start to interrupt a run; return the task, or None if the run executes nothing."""
        accepting = self._accepting.get(run.id)
        if accepting is None:
            return None
        request, tasks = accepting
        interrupt = self._kernels.interrupt(run.kernel_id, only=request)
        return tasks.spawn(interrupt, f"Interrupting run {run.id}")

    async def interrupt(self, run: Run) -> None:
        """Interrupt a run, unless it executes nothing.

        Raises:
            ToolError: The kernel cannot be interrupted.
        """
        task = self.start(run)
        if task is not None:
            await asyncio.wait({task})
            if not task.cancelled():
                task.result()
