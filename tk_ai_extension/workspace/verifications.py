"""Verify notebooks in fresh kernels, as runs of a server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from tk_ai_extension.model.cells import Cell
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.verification.fresh_kernel import display_update
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
    """

    def __init__(self, verification: Verification, kernel: str) -> None:
        self.verification = verification
        self.kernel = kernel
        self.finished: NotebookReport | None = None

    @property
    def subject(self) -> str:
        """What it runs, for the journal."""
        return "all code cells in a fresh kernel, to verify their outputs"


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
            updates = [display_update(event) for event in step.statuses.since(0)]
            await asyncio.to_thread(
                verification.record,
                verification.cells[run.steps.index(step)],
                step.execution,
                [update for update in updates if update is not None],
            )
        return False

    async def on_end(self, run: Run) -> None:
        """Make the report, and shut the kernel down."""
        verification = self._report.verification
        verification.end()
        why = "interrupted" if run.cancelled else run.stopped
        try:
            self._report.finished = await asyncio.to_thread(
                verification.report, self._report.kernel, why
            )
        except Exception as error:
            logger.exception("The report of run %s could not be made", run.id)
            run.error = run.error or ToolError(f"The report could not be made: {error}")
        finally:
            await super().on_end(run)


def steps_of(cells: Sequence[Cell]) -> list[Step]:
    """Return the steps that run cells without writing their outputs into the notebook."""
    return [Step(index=cell.index, code=cell.source) for cell in cells]
