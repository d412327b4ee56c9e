"""Start executions, run their steps in kernels, and find, wait for, interrupt and cancel them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Literal

from tk_ai_extension.kernels.kernel_run import OtherClientRun
from tk_ai_extension.kernels.kernel_service import KernelService
from tk_ai_extension.kernels.output_collector import OTHER_DISPLAY_MIME
from tk_ai_extension.model.background_tasks import BackgroundTasks
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.cells import Cell
from tk_ai_extension.model.errors import (
    CellNotFound,
    Conflict,
    LimitReached,
    NotebookNotFound,
    NotFound,
    ToolError,
)
from tk_ai_extension.model.executions import (
    Execution,
    ExecutionEvent,
    ExecutionRequest,
    ExecutionStarted,
    InputRequested,
    OutputsChanged,
    StatusDisplay,
)
from tk_ai_extension.model.output_changes import OutputBuffer, summarise
from tk_ai_extension.notebooks.notebook import KernelIncarnations, Notebook, Notebooks
from tk_ai_extension.notebooks.running_outputs import CellOutputWriter
from tk_ai_extension.workspace.activity import ActivityEvent, ActivityPublisher
from tk_ai_extension.workspace.display_updates import DisplayRegistry, DisplayUpdates
from tk_ai_extension.workspace.journal import Journal
from tk_ai_extension.workspace.permission_requests import CallApproval
from tk_ai_extension.workspace.runs import (
    FairQueue,
    OpenDocument,
    Run,
    RunReport,
    RunStep,
    RunSupervisor,
)

logger = logging.getLogger(__name__)

GRACE = 5.0
"""Grace period in seconds for an interrupt that is being sent when the code ends."""


async def _written(step: RunStep, write: Awaitable[None]) -> None:
    """Await a write to the cell. If it fails, add a warning: the outcome is that of the code."""
    try:
        await write
    except ToolError as error:
        logger.warning("Outputs could not be written to the notebook: %s", error.message)
        step.warning = step.warning or error.message
    except Exception as error:
        logger.exception("Outputs could not be written to the notebook")
        step.warning = step.warning or f"Its outputs could not be written to the notebook: {error}"


def _check_source(run: Run, step: RunStep, cell: Cell) -> None:
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


MAX_KEPT = 500
"""Maximum ended executions of a user that are kept for `wait_execution`."""
MAX_KEPT_OUTPUT = 200_000_000
"""Approximate maximum characters of output that are kept of ended executions of all users."""
MAX_ACTIVE = 1_000
"""Maximum queued and running executions of a user."""
STOPPED = (
    "The server stopped during this execution, so its outcome is unknown. After the server has "
    "restarted, call list_running_kernels. If the kernel is not running, run the cells from the top."
)
NOT_STARTED = "The server stopped before this execution started. Run it again after a restart."
Cancellation = Literal["ended", "waiting", "ignored"]
"""The outcome of a cancellation: ended; not started yet, so that it will end then; or still running."""


class ExecutionService:
    """Starts, finds, waits for and cancels the runs of a server.

    Args:
        kernels: Runs the code.
        queue: Orders the runs of each kernel.
        journal: Records each run.
        notebooks: The notebooks by path.
        activity: Publishes the start and the end of each cell.
        incarnations: The present incarnations of the kernels.
        displays: Tracks displays that later code may update.
        open_document: Opens a notebook to update its displays.
        file_of: Identifies the file of a notebook, which may have several names.
        max_kept_output: Approximate maximum characters of output of ended runs. The oldest is dropped first.
    """

    def __init__(
        self,
        kernels: KernelService,
        queue: FairQueue,
        journal: Journal,
        notebooks: Notebooks,
        activity: ActivityPublisher,
        *,
        incarnations: KernelIncarnations | None = None,
        displays: DisplayRegistry | None = None,
        open_document: OpenDocument | None = None,
        file_of: Callable[[str], str] = str,
        max_kept_output: int = MAX_KEPT_OUTPUT,
    ) -> None:
        self._kernels = kernels
        self._queue = queue
        self._notebooks = notebooks
        self._journal = journal
        self._activity = activity
        self._incarnations = incarnations or KernelIncarnations()
        self._displays = displays or DisplayRegistry()
        self._open = open_document
        self._file_of = file_of
        self._runs: dict[str, Run] = {}
        self._ended: deque[Run] = deque()
        self._closing = False
        self._max_kept_output = max_kept_output
        self._kept_output = 0
        self._tasks = BackgroundTasks(logger)

    def start(
        self,
        caller: Caller,
        kernel_id: str,
        steps: Sequence[RunStep],
        *,
        open_document: OpenDocument | None = None,
        path: str | None = None,
        timeout: float | None = None,
        stop_on_error: bool = True,
        approval: CallApproval | None,
        tool: str = "",
        supervisor: RunSupervisor | None = None,
        report: RunReport | None = None,
        entry: int | None = None,
    ) -> Run:
        """Queue steps for a kernel and return the run at once.

        A step with a cell runs the cell's source as of its turn. With an ``approval`` it fails if the
        source is no longer the approved one.

        Args:
            caller: The caller.
            kernel_id: The kernel.
            steps: The cells or the scratch code, in order.
            open_document: Opens the notebook that outputs are written to; None to write none.
            path: The notebook; None for a kernel without one.
            timeout: Seconds after which a step is interrupted; None for no limit.
            stop_on_error: Whether to skip the remaining steps after one fails.
            approval: The person's approval of the call, if one was needed.
            tool: The tool's name.
            supervisor: Supervises a kernel that belongs to no notebook.
            report: What a reader gets instead of the outputs.
            entry: The journal entry of the run, if there is one already.

        Raises:
            LimitReached: Too many executions of the user are active.
            Conflict: The approval is not for this code in this notebook.
        """
        if approval is not None:
            approval.check_run(path, (step.code for step in steps))
        if len(self._runs) - len(self._ended) >= MAX_ACTIVE:
            raise LimitReached(f"{MAX_ACTIVE} executions are active.")
        run = Run(
            caller,
            kernel_id,
            None if path is None else self._notebooks.at(path),
            list(steps),
            tool=tool,
            open_document=open_document,
            timeout=timeout,
            stop_on_error=stop_on_error,
            is_source_pinned=approval is not None,
            supervisor=supervisor,
            report=report,
        )
        self._runs[run.id] = run
        run.task = self._tasks.spawn(self._carry_out(run, entry), f"Run {run.id}")
        return run

    def carry_on(
        self, caller: Caller, kernel_id: str, path: str, runs: Iterable[tuple[str, OtherClientRun]]
    ) -> Run:
        """Continue the runs that a person's page has begun: cells, in order, by their ids."""
        steps = [RunStep(cell, code=run.request.code, followed=run) for cell, run in runs]
        # If one fails, the kernel itself drops the later ones.
        return self.start(
            caller,
            kernel_id,
            steps,
            open_document=self._open,
            path=path,
            stop_on_error=False,
            approval=None,
            tool="execute_cell",
        )

    def get(self, caller: Caller, execution_id: str) -> Run:
        """Return the user's run with this id.

        Raises:
            NotFound: The user has no such run.
        """
        run = self._runs.get(execution_id)
        if run is None or run.caller.user != caller.user:
            raise NotFound(
                f"No execution `{execution_id}`.",
                hint="Executions expire. Read the outputs in the notebook.",
            )
        return run

    def active(
        self,
        *,
        kernel_id: str | None = None,
        notebook: Notebook | None = None,
        turn: str | None = None,
    ) -> list[Run]:
        """Return the active runs, oldest first, optionally only of a kernel, a notebook or a turn."""
        return [
            run
            for run in self._runs.values()
            if not run.done
            and kernel_id in (None, run.kernel_id)
            and notebook in (None, run.notebook)
            and turn in (None, run.caller.turn)
        ]

    def running(self, notebook: Notebook) -> list[ActivityEvent]:
        """Return the cells of a notebook that run now."""
        return [
            ActivityEvent("running", run.caller.author, (run.current.cell,), run.caller.turn)
            for run in self.active(notebook=notebook)
            if run.current.status == "running" and run.current.cell is not None
        ]

    def check_replaceable(self, path: str) -> None:
        """Check that no run writes its outputs to a notebook, under any of its names.

        Raises:
            Conflict: A run does, or is about to.
        """
        file = self._file_of(path)
        writing = next(
            (
                run
                for run in self.active()
                if run.open_document is not None
                and run.path is not None
                and self._file_of(run.path) == file
            ),
            None,
        )
        if writing is None:
            return
        raise Conflict(
            f"Execution `{writing.id}` is writing its outputs to {path}, so {path} is not replaced.",
            hint="Choose another name, or run again after its end.",
        )

    def latest(self, caller: Caller) -> Run | None:
        """Return the caller's oldest active run, else their newest ended one, or None."""
        mine = [run for run in self._runs.values() if run.caller.identity == caller.identity]
        return next((run for run in mine if not run.done), mine[-1] if mine else None)

    async def cancel(self, run: Run, *, grace: float = 5.0) -> Cancellation:
        """Remove a run from the queue or interrupt it; return the outcome after the grace period.

        Code that waits in the kernel behind another caller's code is interrupted when it starts.
        Cancellations of a run at the same time send one interrupt: a second one would hit the code's
        cleanup after the first.

        Args:
            run: The run.
            grace: Seconds to wait for its end.
        """
        if run.done:
            return "ended"
        run.cancelled = True
        run.cancellations += 1
        try:
            if run.cancellations == 1:
                await self._begin_cancellation(run)
            return await self._end_cancellation(run, grace)
        finally:
            run.cancellations -= 1

    async def _begin_cancellation(self, run: Run) -> None:
        if run.current.started:
            interrupt = self._start_interrupt(run)
            if interrupt is not None:
                await asyncio.wait({interrupt})
                if not interrupt.cancelled():
                    interrupt.result()
        elif run.current.status == "queued" and run.phase == "running" and run.task is not None:
            run.task.cancel()

    def _start_interrupt(self, run: Run) -> asyncio.Task[None] | None:
        """Interrupt what a run executes now; return the task, or None for nothing."""
        if run.request is None:
            return None
        interrupt = self._kernels.interrupt(run.kernel_id, only=run.request)
        task = self._tasks.spawn(interrupt, f"Interrupting run {run.id}")
        run.interrupts.add(task)
        return task

    async def _end_cancellation(self, run: Run, grace: float) -> Cancellation:
        if await run.wait(grace) or run.current.execution is not None:
            return "ended"  # Its outputs may not be saved yet.
        if run.supervisor is not None and run.current.started:
            await run.supervisor.on_interrupt_ignored(run)
            if await run.wait(grace):
                return "ended"
        return "ignored" if run.current.started else "waiting"

    async def close(self) -> None:
        """End all runs with a message that the server stopped. Kernels continue to run their code."""
        self._closing = True
        for run in self._runs.values():
            if run.task is not None and run.phase != "ending":
                run.task.cancel()
        await self._tasks.join()

    def _keep(self, ended: Run) -> None:
        """Keep a run that has ended, and drop the oldest runs and outputs beyond the limits."""
        ended.kept = sum(summarise(step.outputs).size for step in ended.steps)
        if ended.report is not None:
            ended.kept += ended.report.size
        self._kept_output += ended.kept
        if len(self._ended) == MAX_KEPT:
            oldest = self._ended.popleft()
            del self._runs[oldest.id]
            self._kept_output -= oldest.kept
        for run in self._ended if self._kept_output > self._max_kept_output else ():
            self._drop_outputs(run)
            if self._kept_output <= self._max_kept_output:
                break
        self._ended.append(ended)

    def _drop_outputs(self, run: Run) -> None:
        for step in run.steps:
            step.drop_outputs()
        if run.report is not None:
            run.report.drop_outputs()
        self._kept_output -= run.kept
        run.kept = 0

    async def _carry_out(self, run: Run, entry: int | None) -> None:
        """Run the steps and end the run, whatever fails."""
        error: BaseException | None = None
        try:
            if entry is None:
                entry = await self._begin_entry(run)
            run.phase = "running"
            await self._run_steps(run)
        except (Exception, asyncio.CancelledError) as failure:  # noqa: BLE001 - the run ends with it
            error = failure
        run.phase = "ending"
        self._note_outcome(run, error)
        ends = [partial(self._save_outputs, run)]
        if run.supervisor is not None:
            ends.append(partial(self._end_supervision, run, run.supervisor))
        if entry is None:
            ends.append(partial(self._record, run))
        for end in ends:
            try:
                await end()
            except (Exception, asyncio.CancelledError) as failure:
                logger.exception("The end of run %s failed", run.id)
                _warn(run, f"The end of this run failed: {str(failure) or type(failure).__name__}")
        self._keep(run)
        run.record(done=True)
        self._journal.emit("run", run.caller, run.path or "", run.tool, run.outcome)
        if entry is not None:
            ran = [step.cell for step in run.steps if step.cell and step.started]
            await self._journal.end_run(entry, _summary(run), ran if run.open_document else ())

    async def _run_steps(self, run: Run) -> None:
        for step in run.steps:
            # The kernel already has a page's request in its queue, so it waits for no turn.
            is_done = step.followed is not None
            if is_done:
                try:
                    await self._run_step(run, step)
                except CellNotFound:
                    step.status = "skipped"
            while not is_done:
                if run.cancelled and run.current.status == "queued":
                    raise asyncio.CancelledError
                async with self._queue.turn(run.kernel_id, run.caller.identity):
                    is_done = await self._take_turn(run, step)
            if run.cancelled or run.stopped or (step.has_failed and run.stop_on_error):
                break

    def _note_outcome(self, run: Run, error: BaseException | None) -> None:
        """Record why a run's steps have ended, if not all of them ran."""
        if isinstance(error, asyncio.CancelledError):
            if self._closing:
                run.current.warning = STOPPED if run.current.started else NOT_STARTED
            run.current.status = "interrupted"
        elif error is not None:
            if not isinstance(error, ToolError):
                logger.error("Execution %s failed", run.id, exc_info=error)
                error = ToolError(f"The execution failed: {error}")
            run.error = error
            run.current.status = "error"
        for step in run.steps:
            if step.status == "queued":
                step.status = "skipped"

    async def _take_turn(self, run: Run, step: RunStep) -> bool:
        """Run a step within a turn, and again if the supervisor asks for it.

        Returns:
            Whether it is done; False if the run has another kernel now and must wait for that one.
        """
        supervisor, kernel_id = run.supervisor, run.kernel_id
        if supervisor is None:
            await self._run_step(run, step)
            return True
        while True:
            await supervisor.before_step(run, step)
            if run.kernel_id != kernel_id:
                return False
            await self._run_step(run, step)
            if not await supervisor.after_step(run, step) or run.cancelled:
                return True
            step.run_again()
            run.record()

    async def _end_supervision(self, run: Run, supervisor: RunSupervisor) -> None:
        """Notify the supervisor that the run has ended."""
        try:
            await supervisor.on_end(run)
        except ToolError as error:
            logger.warning("The kernel of run %s was not released: %s", run.id, error.message)

    async def _save_outputs(self, run: Run) -> None:
        """Save the outputs of a run of several cells, which are not saved at the end of each cell."""
        if len(run.steps) == 1 or run.open_document is None or run.notebook is None:
            return
        if run.notebook.is_deleted:
            return
        try:
            await (await run.open_document(run.notebook.path)).flush()
        except ToolError as error:
            run.current.warning = error.message

    async def _begin_entry(self, run: Run) -> int | None:
        """Record the start of a run of cells; return its entry.

        The intent is on disk before the code runs, in case the server is killed. Scratch code changes no
        cell, so it is recorded once, at its end.
        """
        if run.path is None or (run.report is None and run.steps[0].cell is None):
            return None
        try:
            return await self._journal.record(
                run.caller,
                run.path,
                run.tool,
                f"runs {_cells_of(run)}",
                kind="run",
                state="intended",
            )
        except ToolError as error:
            logger.warning("The start of run %s is not recorded: %s", run.id, error.message)
            return None

    async def _record(self, run: Run) -> None:
        """Record a run that has ended, if its start was not recorded."""
        if run.path is None:
            return
        try:
            await self._journal.record(run.caller, run.path, run.tool, _summary(run), kind="run")
        except ToolError as error:
            _warn(run, f"This run is not in the notebook's history: {error.message}")

    async def _run_step(self, run: Run, step: RunStep) -> None:
        """Run a step within its turn.

        Raises:
            ToolError: It did not run, or ended without a result.
        """
        if step.cell is None or run.open_document is None or run.notebook is None:
            await self._execute(run, step, None)
            return
        if run.notebook.is_deleted:
            # Another notebook may have its path.
            raise NotebookNotFound(f"{run.path} was deleted. Cell @{step.cell} did not run.")
        document = await run.open_document(run.notebook.path)
        try:
            async with document.writing(step.cell) as writer:
                # Check the cell that the writer has opened: another read could see moved cells.
                cell = writer.cell
                step.index = writer.index
                if step.followed is None:
                    if cell.source != step.code:
                        _check_source(run, step, cell)
                    step.code = cell.source
                if not step.code.strip():
                    step.status = "ok"
                    step.execution = Execution("ok")
                    return
                await self._execute(run, step, writer)
        except CellNotFound:
            if step.status != "queued":
                raise
            raise CellNotFound(
                f"Cell @{step.cell} was deleted or is not a code cell any more. It did not run.",
                hint="Call list_cells to see the current cells.",
            ) from None
        if cell.source == step.code:
            self._remember(run, run.notebook, cell, step)

    async def _execute(self, run: Run, step: RunStep, writer: CellOutputWriter | None) -> None:
        step.status = "running"
        run.record()
        try:
            self._activity.publish(run.notebook, run.caller, "running", [step.cell])
            await self._run_code(run, step, writer)
        finally:
            ended = step.execution.status if step.execution else "error"
            self._activity.publish(run.notebook, run.caller, "ran", [step.cell], status=ended)
        if step.execution is None:
            raise ToolError("The executor ended without a result.")
        step.status = step.execution.status
        run.record()

    async def _run_code(self, run: Run, step: RunStep, writer: CellOutputWriter | None) -> None:
        updates: DisplayUpdates | None = None
        if step.followed is None:
            run.request = ExecutionRequest(step.code, timeout=run.timeout)
            source = self._kernels.execute(run.kernel_id, run.request)
        else:
            run.request, source = step.followed.request, step.followed.events()
        try:
            async with aclosing(source) as events:
                async for event in events:
                    if isinstance(event, StatusDisplay) and event.mime == OTHER_DISPLAY_MIME:
                        updates = updates or DisplayUpdates(
                            self._displays, run.kernel_id, self._open
                        )
                        updates.add(event.data)
                        if step.on_status is not None:
                            step.on_status(event)
                        continue
                    await self._handle(run, step, event, writer)
        finally:
            run.request = None
            if run.interrupts:
                # In the next turn they would reach the code of another caller.
                await asyncio.wait(run.interrupts, timeout=GRACE)
                for interrupt in run.interrupts:
                    interrupt.cancel()
                run.interrupts.clear()
            if updates is not None:
                await updates.finish()
            if writer is not None:
                count = step.execution.execution_count if step.execution else None
                # A run of several cells saves once at its end: saving can take longer than a cell.
                await _written(step, writer.finish(count, save=len(run.steps) == 1))

    async def _handle(
        self, run: Run, step: RunStep, event: ExecutionEvent, writer: CellOutputWriter | None
    ) -> None:
        """Handle an event of an executor."""
        match event:
            case ExecutionStarted():
                step.started = True
                if run.cancelled:
                    self._start_interrupt(run)
                self._begin(run, step, writer)
            case OutputsChanged(changes):
                for change in changes:
                    step.outputs.apply(change)
                if writer is not None:
                    await _written(step, writer.write(changes))
                run.record()
            case StatusDisplay():
                step.add_status(event)
            case InputRequested():
                run.record()
            case Execution():
                interrupted = run.cancelled and event.status == "error"
                step.execution = replace(event, status="interrupted") if interrupted else event
                step.outputs = OutputBuffer(event.outputs)
                # The message of its start may be lost. A page also clears a cell that did not run.
                if event.execution_count is not None or step.followed is not None:
                    self._begin(run, step, writer)

    def _begin(self, run: Run, step: RunStep, writer: CellOutputWriter | None) -> None:
        """Clear the cell once the kernel has taken its code: one that did not run keeps its outputs."""
        if step.incarnation is None:
            step.incarnation = self._incarnations.of(run.kernel_id)
            if writer is not None:
                writer.start()

    def _remember(self, run: Run, notebook: Notebook, cell: Cell, step: RunStep) -> None:
        """Record how the cell ended, unless the kernel that ran it has been restarted or has ended."""
        execution, incarnation = step.execution, step.incarnation
        if execution is None or incarnation is None or incarnation.has_ended:
            return
        if execution.displays or run.kernel_id in self._displays.kernels:
            self._displays.ran(run.kernel_id, notebook, cell, execution)
        if execution.execution_count is not None:
            is_ok = step.status == "ok"
            notebook.last_runs.record(cell.key, cell.hash, incarnation, ok=is_ok)


def _warn(run: Run, warning: str) -> None:
    run.current.warning = " ".join(filter(None, (run.current.warning, warning)))


def _summary(run: Run) -> str:
    compared = None if run.report is None or run.cancelled else run.report.outcome
    return f"ran {_cells_of(run)}: {compared or run.outcome}"


def _cells_of(run: Run) -> str:
    if run.report is not None:
        return run.report.subject
    cells = ", ".join(f"@{step.cell}" for step in run.steps[:5] if step.cell) or "scratch code"
    more = f" and {len(run.steps) - 5} more" if len(run.steps) > 5 else ""
    return f"{cells}{more}"
