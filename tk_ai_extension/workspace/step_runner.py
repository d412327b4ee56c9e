"""Run one step of a run in its kernel, and write its outputs into the notebook."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace

from tk_ai_extension.kernels.base import Kernels
from tk_ai_extension.kernels.collector import OTHER_DISPLAY_MIME
from tk_ai_extension.model.cells import Cell
from tk_ai_extension.model.errors import CellNotFound, Conflict, NotebookNotFound, ToolError
from tk_ai_extension.model.executions import (
    Execution,
    ExecutionEvent,
    ExecutionRequest,
    InputRequested,
    OutputsChanged,
    Started,
    StatusEvent,
)
from tk_ai_extension.model.outputs import OutputBuffer
from tk_ai_extension.notebooks.base import OutputWriter
from tk_ai_extension.notebooks.notebook import Notebook
from tk_ai_extension.notebooks.staleness import Incarnations
from tk_ai_extension.workspace.activity import ActivityFeed
from tk_ai_extension.workspace.displays import DisplayRegistry, DisplayUpdates, OpenDocument
from tk_ai_extension.workspace.interrupts import RunInterrupts
from tk_ai_extension.workspace.runs import Run, Step

logger = logging.getLogger(__name__)


class StepRunner:
    """Runs the steps of runs.

    Args:
        kernels: Runs the code.
        interrupts: Interrupts it.
        incarnations: The present incarnations of the kernels.
        activity: Publishes the start and the end of each cell.
        displays: Tracks displays that later code may update.
        open_document: Opens a notebook to update its displays.
    """

    def __init__(
        self,
        kernels: Kernels,
        interrupts: RunInterrupts,
        incarnations: Incarnations,
        activity: ActivityFeed,
        *,
        displays: DisplayRegistry,
        open_document: OpenDocument | None,
    ) -> None:
        self._kernels = kernels
        self._interrupts = interrupts
        self._incarnations = incarnations
        self._activity = activity
        self._displays = displays
        self._open = open_document

    async def run(
        self, run: Run, step: Step, open_document: OpenDocument | None, timeout: float | None
    ) -> None:
        """Run a step within its turn.

        Args:
            run: The run.
            step: Its step.
            open_document: Opens the notebook that outputs are written to; None to write none.
            timeout: Seconds after which the step is interrupted; None for no limit.

        Raises:
            ToolError: It did not run, or ended without a result.
        """
        if step.cell is None or open_document is None or run.notebook is None:
            await self._execute(run, step, timeout, None)
            return
        if run.notebook.is_deleted:
            # Another notebook may have its path.
            raise NotebookNotFound(f"{run.path} was deleted. Cell @{step.cell} did not run.")
        document = await open_document(run.notebook.path)
        async with AsyncExitStack() as stack:
            try:
                writer = await stack.enter_async_context(document.writing(step.cell))
            except CellNotFound:
                raise CellNotFound(
                    f"Cell @{step.cell} was deleted or is not a code cell any more. It did not run.",
                    hint="Call list_cells to see the current cells.",
                ) from None
            # Check the cell that the writer has opened: another read could see moved cells.
            cell = writer.cell
            if cell.source != step.code:
                _check_source(run, step, cell)
            step.code, step.index = cell.source, cell.index
            if not cell.source.strip():
                step.status = "ok"
                step.execution = Execution("ok")
                return
            await self._execute(run, step, timeout, writer)
        self._remember(run, run.notebook, cell, step)

    async def _execute(
        self, run: Run, step: Step, timeout: float | None, writer: OutputWriter | None
    ) -> None:
        step.status = "running"
        run.record("started", {"cell": step.cell})
        try:
            self._activity.publish(run.notebook, run.caller, "running", [step.cell])
            await self._run_code(run, step, timeout, writer)
        finally:
            ended = step.execution.status if step.execution else "error"
            self._activity.publish(run.notebook, run.caller, "ran", [step.cell], status=ended)
        if step.execution is None:
            raise ToolError("The executor ended without a result.")
        step.status = step.execution.status
        run.record("ended", {"cell": step.cell, "status": step.status})

    async def _run_code(
        self, run: Run, step: Step, timeout: float | None, writer: OutputWriter | None
    ) -> None:
        request = ExecutionRequest(step.code, timeout=timeout)
        updates = DisplayUpdates(self._displays, run.kernel_id, self._open)
        try:
            executor = self._kernels.executor(run.kernel_id)
            async with (
                self._interrupts.accepted(run, request),
                aclosing(executor.execute(run.kernel_id, request)) as events,
            ):
                async for event in events:
                    if isinstance(event, StatusEvent) and event.mime == OTHER_DISPLAY_MIME:
                        updates.add(event.data)
                        if step.on_status is not None:
                            step.on_status(event)
                        continue
                    await self._handle(run, step, event, writer)
        finally:
            await updates.finish()
            if writer is not None:
                count = step.execution.execution_count if step.execution else None
                # A run of several cells saves once at its end: saving can take longer than a cell.
                await _written(step, writer.finish(count, save=len(run.steps) == 1))

    async def _handle(
        self, run: Run, step: Step, event: ExecutionEvent, writer: OutputWriter | None
    ) -> None:
        """Handle an event of an executor."""
        match event:
            case Started():
                step.started = True
                if run.cancelled:
                    self._interrupts.start(run)
                await self._begin(run, step, writer)
            case OutputsChanged(changes):
                applied = [step.outputs.apply(change) for change in changes]
                places = [place for place in applied if place is not None]
                if writer is not None:
                    await _written(step, writer.write(changes))
                # Callers that have read beyond the first change receive the output again.
                rewritten = {"rewritten": min(places)} if places else {}
                if places:
                    run.rewind_cursors(step, *min(places))
                count = len(step.outputs)
                run.record("outputs", {"cell": step.cell, "count": count, **rewritten})
            case StatusEvent():
                step.add_status(event)
            case InputRequested(prompt):
                run.record("input", {"cell": step.cell, "prompt": prompt})
            case Execution():
                interrupted = run.cancelled and event.status == "error"
                step.execution = replace(event, status="interrupted") if interrupted else event
                step.outputs = OutputBuffer(event.outputs)
                if event.execution_count is not None:  # The message of its start may be lost.
                    await self._begin(run, step, writer)

    async def _begin(self, run: Run, step: Step, writer: OutputWriter | None) -> None:
        """Clear the cell once the kernel has taken its code: one that did not run keeps its outputs."""
        if step.incarnation is None:
            step.incarnation = self._incarnations.of(run.kernel_id)
            if writer is not None:
                await _written(step, writer.start())

    def _remember(self, run: Run, notebook: Notebook, cell: Cell, step: Step) -> None:
        """Record how the cell ended, unless the kernel that ran it has been restarted or has ended."""
        execution, incarnation = step.execution, step.incarnation
        if execution is None or incarnation is None or incarnation.has_ended:
            return
        self._displays.ran(run.kernel_id, notebook, cell, execution)
        if execution.execution_count is not None:
            is_ok = step.status == "ok"
            notebook.last_runs.record(cell.key, cell.hash, incarnation, ok=is_ok)


async def _written(step: Step, write: Awaitable[None]) -> None:
    """Await a write to the cell. If it fails, add a warning: the outcome is that of the code."""
    try:
        await write
    except ToolError as error:
        logger.warning("Outputs could not be written to the notebook: %s", error.message)
        step.warning = step.warning or error.message
    except Exception as error:
        logger.exception("Outputs could not be written to the notebook")
        step.warning = step.warning or f"Its outputs could not be written to the notebook: {error}"


def _check_source(run: Run, step: Step, cell: Cell) -> None:
    """Check whether a cell may run although its source changed after it was queued.

    Raises:
        Conflict: A person approved the previous source, or the cell has no id and may be another
            cell.
    """
    if run.is_source_pinned:
        raise Conflict(
            f"Cell @{step.cell} changed after the user approved it. It did not run.",
            hint="Read it, then call again.",
        )
    if cell.key != cell.id:
        raise Conflict(
            f"The cells of {run.path} have no ids, and {step.cell} changed after it was queued. "
            "It did not run.",
            hint="Call list_cells to see the current cells.",
        )
