"""Run a whole notebook in a fresh kernel, with its outputs written into it."""

from __future__ import annotations

from collections.abc import Collection

from tk_ai_extension.workspace.fresh_kernels import FreshKernels, FreshKernelSupervisor
from tk_ai_extension.workspace.runs import Run, Step


class NotebookRun:
    """The report of a run of a whole notebook (`workspace.runs.RunReport`).

    Args:
        may_fail: The keys of cells that may fail; None if all may.
    """

    def __init__(self, may_fail: Collection[str] | None) -> None:
        self._may_fail = may_fail

    @property
    def subject(self) -> str:
        """What it runs, for the journal."""
        return "all code cells in a fresh kernel"

    @property
    def outcome(self) -> None:
        """None: it ends as its steps do."""

    @property
    def size(self) -> int:
        """None: the steps keep all outputs."""
        return 0

    def drop_outputs(self) -> None:
        """Do nothing: the steps keep all outputs."""

    def is_failure(self, step: Step) -> bool:
        """Return whether a step has failed that may not."""
        if step.status in ("ok", "skipped", "queued", "running"):
            return False
        if step.status == "error":
            return self._may_fail is not None and step.cell not in self._may_fail
        return True


class NotebookRunSupervisor(FreshKernelSupervisor):
    """Stops the run at the first cell that fails and may not."""

    def __init__(self, fresh: FreshKernels, report: NotebookRun) -> None:
        super().__init__(fresh)
        self._report = report

    async def after_step(self, run: Run, step: Step) -> bool:
        """Stop after a failure."""
        await super().after_step(run, step)
        if self._report.is_failure(step) and not run.stopped:
            run.stopped = "a cell above failed"
        return False
