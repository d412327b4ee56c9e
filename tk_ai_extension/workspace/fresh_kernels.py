"""Fresh kernels: each runs the cells of one notebook once, and is shut down after them."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from tk_ai_extension.kernels.kernel_info import NO_NOTEBOOK
from tk_ai_extension.kernels.kernel_service import KernelService
from tk_ai_extension.model.background_tasks import run_to_completion
from tk_ai_extension.model.errors import KernelNotFound, ToolError
from tk_ai_extension.model.executions import INTERRUPT_IGNORED, ExecutionRequest
from tk_ai_extension.verification.report import QUIET, NotebookReport, Verification
from tk_ai_extension.workspace.runs import Run, RunStep

logger = logging.getLogger(__name__)


@asynccontextmanager
async def fresh_kernel(kernels: KernelService, name: str | None, path: str) -> AsyncGenerator[str]:
    """Start a kernel in a notebook's folder, for a run with a `FreshKernelSupervisor`; yield its id.

    It is not the notebook's kernel. It starts in a sandbox if the notebook's project has one. An exception
    in the block shuts it down.

    Args:
        kernels: Starts it.
        name: The kernelspec; None for the default one.
        path: The notebook's path.

    Raises:
        InvalidArguments, KernelStartFailed, KernelUnsupported.
    """
    folder = path.rpartition("/")[0]
    place = f"{folder}/{NO_NOTEBOOK}{secrets.token_hex(6)}".lstrip("/")
    kernel_id = await kernels.start(name, path=place)
    try:
        if (await kernels.info(kernel_id)).language == "python":
            request = ExecutionRequest(QUIET, silent=True)
            async for _ in kernels.execute(kernel_id, request):
                pass
        yield kernel_id
    except BaseException:
        await run_to_completion(_shut_down(kernels, kernel_id))
        raise


async def _shut_down(kernels: KernelService, kernel_id: str) -> None:
    """Shut down a kernel; interrupt it first if it is busy, so that it ends by itself."""
    with suppress(ToolError):
        if kernel_id in kernels.ids() and (await kernels.info(kernel_id)).state == "busy":
            await kernels.interrupt(kernel_id)
    with suppress(KernelNotFound):
        if kernel_id in kernels.ids():
            await kernels.shutdown(kernel_id)


class FreshKernelSupervisor:
    """Shuts down the kernel of one run at its end (`workspace.runs.RunSupervisor`)."""

    def __init__(self, kernels: KernelService) -> None:
        self._kernels = kernels

    async def before_step(self, run: Run, step: RunStep) -> None:
        """Do nothing: the kernel is ready."""

    async def after_step(self, run: Run, step: RunStep) -> bool:
        """Stop the run if its kernel cannot run further cells. No step runs again."""
        ended = step.execution
        is_stuck = step.status == "timed_out" and ended and INTERRUPT_IGNORED in ended.message
        if is_stuck or step.status not in ("ok", "error", "interrupted", "timed_out"):
            run.stopped = (ended.message if ended else "") or str(step.status)
        return False

    async def on_interrupt_ignored(self, run: Run) -> None:
        """Kill the kernel of a cancelled run."""
        await _shut_down(self._kernels, run.kernel_id)

    async def on_end(self, run: Run) -> None:
        """Shut down the kernel, even if the caller is cancelled: the kernel has no other owner."""
        await run_to_completion(_shut_down(self._kernels, run.kernel_id))


class VerificationRun(FreshKernelSupervisor):
    """Verifies a notebook by a run: its supervisor, and its report (`workspace.runs.RunReport`).

    Attributes:
        verification: The verification.
        finished: The report; None until the run has ended.
        subject: What it runs, for the journal.
    """

    subject = "all code cells in a fresh kernel, to verify their outputs"

    def __init__(self, kernels: KernelService, verification: Verification) -> None:
        super().__init__(kernels)
        self.verification = verification
        self.finished: NotebookReport | None = None

    @property
    def steps(self) -> list[RunStep]:
        """The steps that run its cells without writing their outputs into the notebook."""
        snapshot = self.verification.snapshot
        return [
            RunStep(
                index=snapshot.index(cell), code=cell.source, on_status=self.verification.observe
            )
            for cell in self.verification.cells
        ]

    @property
    def outcome(self) -> str | None:
        """The result of the comparison, in which an exception may match the stored output."""
        if self.finished is None:
            return None
        return "verified" if self.finished.status == "same" else self.finished.status

    @property
    def size(self) -> int:
        """Approximate characters of the report's diffs and tracebacks."""
        cells = () if self.finished is None else self.finished.cells
        return sum(len(cell.diff) for cell in cells)

    def drop_outputs(self) -> None:
        """Drop the outputs, and the diffs and tracebacks of the report."""
        self.verification.ended.clear()
        if self.finished is not None:
            cells = tuple(replace(cell, diff="") for cell in self.finished.cells)
            self.finished = replace(self.finished, cells=cells)

    async def after_step(self, run: Run, step: RunStep) -> bool:
        """Record how the cell has ended."""
        await super().after_step(run, step)
        if step.execution is not None and not run.cancelled:
            cell = self.verification.cells[run.steps.index(step)]
            self.verification.record(cell, step.execution)
        return False

    async def on_end(self, run: Run) -> None:
        """Compare the outputs, and shut down the kernel."""
        why = "interrupted" if run.cancelled else run.stopped
        try:
            # A thread continues when its caller is cancelled.
            report = asyncio.to_thread(self.verification.report, why)
            self.finished = await run_to_completion(report)
        except ToolError as error:
            run.error = run.error or error
        except Exception as error:
            logger.exception("The report of run %s could not be created", run.id)
            run.error = run.error or ToolError(f"The report could not be created: {error}")
        finally:
            self.verification.stored = {}
            await super().on_end(run)
