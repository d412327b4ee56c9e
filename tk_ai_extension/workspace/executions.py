"""Start executions, run their steps in kernels, and find, wait for, interrupt and cancel them."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Literal

from tk_ai_extension.kernels.base import Kernels
from tk_ai_extension.kernels.collector import OTHER_DISPLAY_MIME
from tk_ai_extension.model.background import BackgroundTasks
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
    InputRequested,
    OutputsChanged,
    Started,
    StatusEvent,
)
from tk_ai_extension.model.outputs import OutputBuffer, summarise
from tk_ai_extension.notebooks.base import OutputWriter
from tk_ai_extension.notebooks.notebook import Notebook, Notebooks
from tk_ai_extension.notebooks.staleness import Incarnations
from tk_ai_extension.workspace.activity import ActivityFeed
from tk_ai_extension.workspace.displays import DisplayRegistry, DisplayUpdates, OpenDocument
from tk_ai_extension.workspace.journal import Journal
from tk_ai_extension.workspace.permission_requests import Approval
from tk_ai_extension.workspace.runs import FairQueue, Run, RunReport, RunSupervisor, Step

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


class Executions:
    """All runs of a server.

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
        max_kept_output: Approximate maximum characters of output of ended runs. The oldest of the user
            with the most is dropped first. The newest, those being read and an equal share of each user
            are kept.
    """

    def __init__(
        self,
        kernels: Kernels,
        queue: FairQueue,
        journal: Journal,
        notebooks: Notebooks,
        activity: ActivityFeed,
        *,
        incarnations: Incarnations | None = None,
        displays: DisplayRegistry | None = None,
        open_document: OpenDocument | None = None,
        file_of: Callable[[str], str] = str,
        max_kept_output: int = MAX_KEPT_OUTPUT,
    ) -> None:
        self._interrupts = RunInterrupts(kernels)
        self._queue = queue
        self._notebooks = notebooks
        self._journal = journal
        self._runner = StepRunner(
            kernels,
            self._interrupts,
            incarnations or Incarnations(),
            activity,
            displays=displays or DisplayRegistry(),
            open_document=open_document,
        )
        self._file_of = file_of
        # The files that runs which have not begun are about to replace.
        self._replaced: set[str] = set()
        self._runs: dict[str, Run] = {}
        # The ended runs of each user, and the number of the others.
        self._ended: defaultdict[str, deque[Run]] = defaultdict(deque)
        self._active: Counter[str] = Counter()
        self._supervisors: dict[str, RunSupervisor] = {}
        self._closing = False
        self._max_kept_output = max_kept_output
        self._kept_output: Counter[str] = Counter()
        self._ends = BackgroundTasks(logger)
        self._background = BackgroundTasks(logger)

    def start(
        self,
        caller: Caller,
        kernel_id: str,
        steps: Sequence[Step],
        *,
        open_document: OpenDocument | None = None,
        path: str | None = None,
        timeout: float | None = None,
        stop_on_error: bool = True,
        approval: Approval | None,
        tool: str = "",
        supervisor: RunSupervisor | None = None,
        report: RunReport | None = None,
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

        Raises:
            LimitReached: Too many executions of the user are active.
            Conflict: The approval is not for this code in this notebook.
        """
        if approval is not None:
            approval.check_run(path, (step.code for step in steps))
        if self._active[caller.user] >= MAX_ACTIVE:
            raise LimitReached(f"{MAX_ACTIVE} of your executions are active.")
        run = Run(
            caller,
            kernel_id,
            None if path is None else self._notebooks.at(path),
            list(steps),
            is_source_pinned=approval is not None,
            writes_outputs=open_document is not None,
            report=report,
        )
        self._runs[run.id] = run
        if supervisor is not None:
            self._supervisors[run.id] = supervisor
        self._active[caller.user] += 1
        begun = self._begin_entry(run, tool)
        run.task = asyncio.create_task(
            self._run_steps(run, begun, open_document, timeout, stop_on_error)
        )
        self._ends.spawn(
            self._end(run, run.task, begun, open_document, tool), f"The end of run {run.id}"
        )
        return run

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
                if run.writes_outputs and run.path is not None and self._file_of(run.path) == file
            ),
            None,
        )
        if writing is None and file not in self._replaced:
            return
        which = "Another run" if writing is None else f"Execution `{writing.id}`"
        raise Conflict(
            f"{which} writes its outputs to {path}, which is not replaced meanwhile.",
            hint="Choose another name, or run again after its end.",
        )

    @contextmanager
    def replacing(self, path: str) -> Generator[None]:
        """Reserve a notebook that is replaced in the block, in which the run of the new one starts.

        Raises:
            Conflict: See `check_replaceable`.
        """
        self.check_replaceable(path)
        file = self._file_of(path)
        self._replaced.add(file)
        try:
            yield
        finally:
            self._replaced.discard(file)

    def latest(self, caller: Caller) -> Run | None:
        """Return the caller's oldest active run, else their newest ended one, or None."""
        mine = [run for run in self._runs.values() if run.caller.identity == caller.identity]
        return next((run for run in mine if not run.done), mine[-1] if mine else None)

    async def cancel(self, run: Run, *, grace: float = 5.0) -> Cancellation:
        """Remove a run from the queue or interrupt it; return the outcome after the grace period.

        Code that waits in the kernel behind somebody else's code is interrupted when it starts.
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
            await self._interrupts.interrupt(run)
        elif run.current.status == "queued" and run.task is not None:
            run.task.cancel()

    async def _end_cancellation(self, run: Run, grace: float) -> Cancellation:
        if await run.wait(grace) or run.current.execution is not None:
            return "ended"  # Its outputs may still be being saved.
        supervisor = self._supervisors.get(run.id)
        if supervisor is not None and run.current.started:
            await supervisor.on_interrupt_ignored(run)
            if await run.wait(grace):
                return "ended"
        return "ignored" if run.current.started else "waiting"

    def forget(self, caller: Caller) -> None:
        """Forget the cursors of a caller whose session has ended. Its runs continue."""
        for run in self._runs.values():
            run.cursors.pop(caller.identity, None)

    async def close(self) -> None:
        """End all runs with a message that the server stopped. Kernels continue to run their code."""
        self._closing = True
        for run in self._runs.values():
            if run.task is not None:
                run.task.cancel()
        await self._ends.join()
        # Wait for the journal entries of the runs that just ended.
        await self._background.join()

    def _keep(self, ended: Run) -> None:
        """Keep a run that has ended, within the limits."""
        user = ended.caller.user
        self._active[user] -= 1
        self._ended[user].append(ended)
        if len(self._ended[user]) > MAX_KEPT:
            oldest = self._ended[user].popleft()
            del self._runs[oldest.id]
            self._kept_output[user] -= oldest.kept
            oldest.kept = 0
        ended.kept = sum(summarise(step.outputs).size for step in ended.steps)
        if ended.report is not None:
            ended.kept += ended.report.size
        self._kept_output[user] += ended.kept
        if self._kept_output.total() > self._max_kept_output:
            self._evict_outputs(ended)

    def _evict_outputs(self, ended: Run) -> None:
        kept = self._kept_output
        share = self._max_kept_output / sum(size > 0 for size in kept.values())
        droppable = {
            user: deque(run for run in runs if run.kept and not run.followers and run is not ended)
            for user, runs in self._ended.items()
        }
        while kept.total() > self._max_kept_output:
            users = [user for user, runs in droppable.items() if runs and kept[user] > share]
            if not users:
                return
            self._drop_outputs(droppable[max(users, key=lambda user: kept[user])].popleft())

    def _drop_outputs(self, run: Run) -> None:
        for step in run.steps:
            step.drop_outputs()
        if run.report is not None:
            run.report.drop_outputs()
        self._kept_output[run.caller.user] -= run.kept
        run.kept = 0

    async def _run_steps(
        self,
        run: Run,
        begun: asyncio.Task[int] | None,
        open_document: OpenDocument | None,
        timeout: float | None,
        stop_on_error: bool,
    ) -> None:
        if begun is not None:
            # The intent must be on disk before the code runs, in case the server is killed.
            await asyncio.wait([begun])
        for step in run.steps:
            is_done = False
            while not is_done:
                async with self._queue.turn(run.kernel_id, run.caller.identity):
                    is_done = await self._take_turn(run, step, open_document, timeout)
            if run.cancelled or run.stopped or (step.has_failed and stop_on_error):
                break

    async def _end(
        self,
        run: Run,
        steps: asyncio.Task[None],
        begun: asyncio.Task[int] | None,
        open_document: OpenDocument | None,
        tool: str,
    ) -> None:
        """Wait for the last step, and end the run: in a task that nobody cancels, whatever fails."""
        await asyncio.wait({steps})
        self._note_outcome(run, steps)
        for end in (
            partial(self._save_outputs, run, open_document),
            partial(self._end_supervision, run),
            partial(self._end_entry, run, tool, begun),
        ):
            try:
                await end()
            except (Exception, asyncio.CancelledError) as error:
                logger.exception("The end of run %s failed", run.id)
                _warn(run, f"The end of this run failed: {str(error) or type(error).__name__}")
        self._keep(run)
        run.record("done", {"status": run.outcome})

    def _note_outcome(self, run: Run, steps: asyncio.Task[None]) -> None:
        """Note why a run's steps have ended, if not all of them ran."""
        if steps.cancelled():
            if self._closing:
                run.current.warning = STOPPED if run.current.started else NOT_STARTED
            run.current.status = "interrupted"
        elif (error := steps.exception()) is not None:
            if not isinstance(error, ToolError):
                logger.error("Execution %s failed", run.id, exc_info=error)
                error = ToolError(f"The execution failed: {error}")
            run.error = error
            run.current.status = "error"
        for step in run.steps:
            if step.status == "queued":
                step.status = "skipped"

    async def _take_turn(
        self, run: Run, step: Step, open_document: OpenDocument | None, timeout: float | None
    ) -> bool:
        """Run a step within a turn, and again if the supervisor asks for it.

        Returns:
            Whether it is done; False if the run has another kernel now, whose turn it needs.
        """
        supervisor, kernel_id = self._supervisors.get(run.id), run.kernel_id
        if supervisor is None:
            await self._runner.run(run, step, open_document, timeout)
            return True
        while True:
            await supervisor.before_step(run, step)
            if run.kernel_id != kernel_id:
                return False
            await self._runner.run(run, step, open_document, timeout)
            if not await supervisor.after_step(run, step) or run.cancelled:
                return True
            step.run_again()
            run.record("outputs", {"cell": step.cell, "count": 0, "rewritten": 0})

    async def _end_supervision(self, run: Run) -> None:
        """Notify the supervisor that the run has ended."""
        supervisor = self._supervisors.pop(run.id, None)
        try:
            if supervisor is not None:
                await supervisor.on_end(run)
        except ToolError as error:
            logger.warning("The kernel of run %s was not released: %s", run.id, error.message)

    async def _save_outputs(self, run: Run, open_document: OpenDocument | None) -> None:
        """Save the outputs of a run of several cells, which are not saved at the end of each cell."""
        if len(run.steps) == 1 or open_document is None or run.notebook is None:
            return
        if run.notebook.is_deleted:
            return
        try:
            await (await open_document(run.notebook.path)).flush()
        except ToolError as error:
            run.current.warning = error.message

    def _begin_entry(self, run: Run, tool: str) -> asyncio.Task[int] | None:
        """Record the start of a run in the journal; return None for a run without a notebook."""
        if run.path is None:
            return None
        summary = f"runs {_cells_of(run)}"
        intent = self._journal.record(
            run.caller, run.path, tool, summary, kind="run", state="intended"
        )
        return self._background.spawn(intent, f"The journal entry of run {run.id}")

    async def _end_entry(self, run: Run, tool: str, begun: asyncio.Task[int] | None) -> None:
        """Record the end of a run in the journal, in the background if the entry exists."""
        if run.path is None or begun is None:
            return
        compared = None if run.report is None or run.cancelled else run.report.outcome
        summary = f"ran {_cells_of(run)}: {compared or run.outcome}"
        try:
            entry = await begun
        except ToolError:
            try:
                await self._journal.record(run.caller, run.path, tool, summary, kind="run")
            except ToolError as error:
                _warn(run, f"This run is not in the notebook's history: {error.message}")
        else:
            self._background.spawn(
                self._journal.end_run(entry, summary), f"The journal entry of run {run.id}"
            )


def _warn(run: Run, warning: str) -> None:
    run.current.warning = " ".join(filter(None, (run.current.warning, warning)))


def _cells_of(run: Run) -> str:
    if run.report is not None:
        return run.report.subject
    cells = ", ".join(f"@{step.cell}" for step in run.steps[:5] if step.cell) or "scratch code"
    more = f" and {len(run.steps) - 5} more" if len(run.steps) > 5 else ""
    return f"{cells}{more}"
