"""Fresh kernels: each runs the cells of one notebook once, and is shut down after them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tk_ai_extension.kernels.service import Kernels
from tk_ai_extension.model.background import run_to_completion
from tk_ai_extension.model.errors import LimitReached
from tk_ai_extension.model.executions import INTERRUPT_IGNORED
from tk_ai_extension.verification.fresh_kernel import shut_down, start_fresh
from tk_ai_extension.workspace.runs import Run, Step

MAX_FRESH = 8
"""Maximum fresh kernels of a user."""


class FreshKernels:
    """The fresh kernels of a workspace.

    Args:
        kernels: Starts and stops kernels.
        max_kernels: Maximum kernels of a user at a time.
    """

    def __init__(self, kernels: Kernels, *, max_kernels: int = MAX_FRESH) -> None:
        self._kernels = kernels
        self._max = max_kernels
        self._counts = Counter[str]()
        self._users: dict[str, str] = {}

    async def start(self, user: str, name: str | None, path: str) -> str:
        """Start a kernel for a notebook and return its id. Call `stop` afterwards.

        Raises:
            LimitReached: Too many fresh kernels of the user are running.
            InvalidArguments, KernelStartFailed, KernelUnsupported.
        """
        if self._counts[user] >= self._max:
            raise LimitReached(
                f"{self._max} of your notebooks already run in a kernel of their own."
            )
        self._counts[user] += 1
        try:
            kernel_id = await start_fresh(self._kernels, name, path)
        except BaseException:
            self._counts[user] -= 1
            raise
        self._users[kernel_id] = user
        return kernel_id

    @asynccontextmanager
    async def handed_over(self, user: str, name: str | None, path: str) -> AsyncGenerator[str]:
        """Start a kernel for a run that is started in the block, and then stops it at its end.

        An exception in the block stops the kernel.

        Raises:
            LimitReached, InvalidArguments, KernelStartFailed, KernelUnsupported: As `start`.
        """
        kernel_id = await self.start(user, name, path)
        try:
            yield kernel_id
        except BaseException:
            await self.stop(kernel_id)
            raise

    async def stop(self, kernel_id: str) -> None:
        """Shut a kernel down, also if the caller is cancelled: nobody else knows the kernel."""
        if (user := self._users.pop(kernel_id, None)) is not None:
            self._counts[user] -= 1
        await run_to_completion(shut_down(self._kernels, kernel_id))

    async def kill(self, kernel_id: str) -> None:
        """Shut a kernel down that ignored an interrupt; its run then ends and calls `stop`."""
        await shut_down(self._kernels, kernel_id)


class FreshKernelSupervisor:
    """Shuts the kernel of one run down at its end (`workspace.runs.RunSupervisor`)."""

    def __init__(self, fresh: FreshKernels) -> None:
        self._fresh = fresh

    async def before_step(self, run: Run, step: Step) -> None:
        """Do nothing: the kernel is ready."""

    async def after_step(self, run: Run, step: Step) -> bool:
        """Stop the run if its kernel cannot run further cells. No step runs again."""
        ended = step.execution
        is_stuck = step.status == "timed_out" and ended and INTERRUPT_IGNORED in ended.message
        if is_stuck or step.status not in ("ok", "error", "interrupted", "timed_out"):
            run.stopped = (ended.message if ended else "") or str(step.status)
        return False

    async def on_interrupt_ignored(self, run: Run) -> None:
        """Kill the kernel of a cancelled run."""
        await self._fresh.kill(run.kernel_id)

    async def on_end(self, run: Run) -> None:
        """Shut the kernel down."""
        await self._fresh.stop(run.kernel_id)
