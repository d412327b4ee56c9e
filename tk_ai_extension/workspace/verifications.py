"""Verify notebooks in fresh kernels, as runs of a server."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from tk_ai_extension.model.background import run_to_completion
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.verification.report import NotebookReport
from tk_ai_extension.verification.verifying import Verification
from tk_ai_extension.workspace.fresh_kernels import FreshKernels, FreshKernelSupervisor
from tk_ai_extension.workspace.runs import Run, Step

logger = logging.getLogger(__name__)


class VerificationRun:
    """The report of a run that verifies a notebook (`workspace.runs.RunReport`).

    Attributes:
        verification: The verification.
        kernel: The kernelspec that runs the cells.
        finished: The report; None until the run has ended.
        size: Approximate characters of output that the verification and its report keep.
    """

    def __init__(self, verification: Verification, kernel: str) -> None:
        self.verification = verification
        self.kernel = kernel
        self.finished: NotebookReport | None = None
        self.size = 0

    @property
    def subject(self) -> str:
        """What it runs, for the journal."""
        return "all code cells in a fresh kernel, to verify their outputs"

    @property
    def outcome(self) -> str | None:
        """The result of the comparison: an exception may be the stored output."""
        if self.finished is None:
            return None
        return "verified" if self.finished.status == "same" else self.finished.status

    def finish(self, why: str) -> None:
        """Make the report; the reason is why the cells that are left did not run."""
        self.finished = self.verification.report(self.kernel, why)
        self.size = self.verification.size

    def drop_outputs(self) -> None:
        """Drop the outputs, and the diffs and tracebacks of the report."""
        self.verification.drop_outputs()
        if self.finished is not None:
            cells = tuple(cell.without_details() for cell in self.finished.cells)
            self.finished = replace(self.finished, cells=cells)


class VerificationSupervisor(FreshKernelSupervisor):
    """Records how each cell ended."""

    def __init__(self, fresh: FreshKernels, report: VerificationRun) -> None:
        super().__init__(fresh)
        self._report = report

    async def after_step(self, run: Run, step: Step) -> bool:
        """Compare the cell that has run."""
        await super().after_step(run, step)
        verification = self._report.verification
        if step.execution is not None and not run.cancelled:
            cell = verification.cells[run.steps.index(step)]
            # A thread goes on when its run is cancelled, and `end` must not come before its end.
            await run_to_completion(asyncio.to_thread(verification.record, cell, step.execution))
        return False

    async def on_end(self, run: Run) -> None:
        """Make the report, and shut the kernel down."""
        why = "interrupted" if run.cancelled else run.stopped
        try:
            self._report.verification.end()
            await asyncio.to_thread(self._report.finish, why)
        except Exception as error:
            logger.exception("The report of run %s could not be made", run.id)
            run.error = run.error or ToolError(f"The report could not be made: {error}")
        finally:
            await super().on_end(run)


def steps_of(verification: Verification) -> list[Step]:
    """Return the steps that run its cells without writing their outputs into the notebook."""
    return [
        Step(index=cell.index, code=cell.source, on_status=verification.observe)
        for cell in verification.cells
    ]
