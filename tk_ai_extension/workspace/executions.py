"""Executions as callers follow them: started here, awaited, cancelled, replayed."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from typing import Literal

from tk_ai_extension.kernels.base import Kernels
from tk_ai_extension.kernels.collector import OTHER_DISPLAY_MIME
from tk_ai_extension.model.background import BackgroundTasks
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.cells import Cell
from tk_ai_extension.model.errors import (
    CellNotFound,
    Conflict,
    ExecutionNotFound,
    LimitReached,
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
from tk_ai_extension.model.outputs import OutputBuffer, OutputChange, summarise
from tk_ai_extension.model.paths import moved
from tk_ai_extension.notebooks.base import OutputWriter
from tk_ai_extension.workspace.activity import ActivityFeed
from tk_ai_extension.workspace.approvals import Approval
from tk_ai_extension.workspace.displays import DisplayRegistry, DisplayUpdates, OpenDocument
from tk_ai_extension.workspace.journal import Journal
from tk_ai_extension.workspace.kernel_questions import KernelQuestions
from tk_ai_extension.workspace.queue import FairQueue
from tk_ai_extension.workspace.runs import Run, RunSupervisor, StatusLog, Step
from tk_ai_extension.workspace.staleness import RunRecords

logger = logging.getLogger(__name__)


MAX_KEPT = 500
"""How many ended executions are kept for `wait_execution`."""
MAX_KEPT_OUTPUT = 200_000_000
"""Characters of output of ended executions that are kept, about; notebooks have theirs anyway."""
MAX_ACTIVE = 1_000
"""How many may be queued or running in the whole server."""
STOPPED = (
    "The server stopped while this ran: how it ended is not known. When the server is up again, "
    "list_running_kernels says whether its kernel still runs; if not, run the cells from the top."
)
NOT_BEGUN = "The server stopped before this ran. Run it again when the server is up."
Cancellation = Literal["ended", "waiting", "ignored"]
"""What came of a cancellation: it has ended, it has not begun and will end then, or it runs on."""


class Executions:
    """All runs of a server: starts them, finds them, ends them with the server.

    Args:
        kernels: Where they run.
        queue: Whose turn it is.
        journal: Where each is written down when it is over.
        records: Where it is kept what ran last, for the states of cells.
        activity: Who is told that a cell begins and ends.
        displays: Where the displays of cells stand, which later code may update.
        open_document: Opens the notebooks that they stand in.
        questions: Kernels whose running cell waits for a caller's answer. Runs of that caller start
            afterwards.
        max_kept_output: The bound on the output of ended runs; the oldest go first. The newest
            always stays, and what somebody reads just now.
    """

    def __init__(
        self,
        kernels: Kernels,
        queue: FairQueue,
        journal: Journal,
        records: RunRecords,
        activity: ActivityFeed,
        *,
        displays: DisplayRegistry | None = None,
        open_document: OpenDocument | None = None,
        questions: KernelQuestions | None = None,
        max_kept_output: int = MAX_KEPT_OUTPUT,
    ) -> None:
        self._kernels = kernels
        self._queue = queue
        self._journal = journal
        self._records = records
        self._activity = activity
        self._displays = displays or DisplayRegistry()
        self._open = open_document
        self._questions = questions or KernelQuestions()
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._supervisors: dict[str, RunSupervisor] = {}
        self._under_way = 0
        self._closing = False
        self._max_kept_output = max_kept_output
        self._kept_output = 0
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
    ) -> Run:
        """Queue steps for a kernel and returns at once.

        Steps that name a cell run its source as it is when their turn comes, with outputs streamed
        into the document that ``open_document`` gives; with an ``approval`` only if it is
        still the step's, since a person approved just that. ``supervisor`` looks after a kernel that is no
        notebook's.

        Raises:
            LimitReached: too many are under way.
            Conflict: the approval is not for this code in this notebook.
        """
        if approval is not None:
            approval.check_run(path, (step.code for step in steps))
        if self._under_way >= MAX_ACTIVE:
            raise LimitReached(f"{MAX_ACTIVE} executions are under way.")
        run = Run(caller, kernel_id, path, list(steps), is_source_pinned=approval is not None)
        self._runs[run.id] = run
        if supervisor is not None:
            self._supervisors[run.id] = supervisor
        self._under_way += 1
        self._forget_old()
        run.task = asyncio.create_task(
            self._drive(run, open_document, timeout, stop_on_error, tool)
        )
        return run

    def get(self, caller: Caller, execution_id: str) -> Run:
        """The run with this id, if it is this user's.

        Raises:
            ExecutionNotFound.
        """
        run = self._runs.get(execution_id)
        if run is None or run.caller.user != caller.user:
            raise ExecutionNotFound(f"There is no execution `{execution_id}`.")
        return run

    def active(self, *, kernel_id: str | None = None, path: str | None = None) -> list[Run]:
        """The runs under way, of a kernel or a notebook where given, oldest first."""
        return [
            run
            for run in self._runs.values()
            if not run.done and kernel_id in (None, run.kernel_id) and path in (None, run.path)
        ]

    def latest(self, caller: Caller) -> Run | None:
        """The caller's run under way that is the first to end, else the newest they had; or None."""
        mine = [run for run in self._runs.values() if run.caller.identity == caller.identity]
        return next((run for run in mine if not run.done), mine[-1] if mine else None)

    async def cancel(self, run: Run, *, grace: float = 5.0) -> Cancellation:
        """Take a run out of the queue, or interrupts it; what has come of it within the grace.

        Code that waits inside the kernel behind somebody else's is interrupted when it begins.
        """
        if run.done:
            return "ended"
        run.cancelled = True
        if run.current.started:
            await self._kernels.interrupt(run.kernel_id)
        elif run.current.status == "queued" and run.task is not None:
            run.task.cancel()
        if await run.wait(grace):
            return "ended"
        supervisor = self._supervisors.get(run.id)
        if supervisor is not None and run.current.started:
            await supervisor.on_interrupt_ignored(run)
            if await run.wait(grace):
                return "ended"
        return "ignored" if run.current.started else "waiting"

    def forget(self, caller: Caller) -> None:
        """The caller's session is over; its runs go on, and it is forgotten how far it has read."""
        for run in self._runs.values():
            run.cursors.pop(caller.identity, None)

    def renamed(self, old: str, new: str) -> None:
        """A notebook, or a folder above some, has another path now; runs under way follow it."""
        for run in self._runs.values():
            if run.path is not None and (now := moved(run.path, old, new)) is not None:
                run.path = now

    async def close(self) -> None:
        """Stop following, and says so to those who wait; kernels go on by themselves."""
        self._closing = True
        tasks = [
            run.task for run in self._runs.values() if run.task is not None and not run.task.done()
        ]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # What ended just now is written down too.
        await self._background.join()

    def _forget_old(self) -> None:
        while len(self._runs) - self._under_way > MAX_KEPT:
            gone = self._runs.pop(next(key for key, run in self._runs.items() if run.done))
            self._kept_output -= gone.kept

    def _let_go_of_outputs(self, newest: Run) -> None:
        newest.kept = sum(summarise(step.outputs).size for step in newest.steps)
        self._kept_output += newest.kept
        for run in self._runs.values():
            if self._kept_output <= self._max_kept_output:
                return
            if run.kept and not run.followers and run is not newest:
                for step in run.steps:
                    step.drop_outputs()
                self._kept_output -= run.kept
                run.kept = 0

    async def _drive(
        self,
        run: Run,
        open_document: OpenDocument | None,
        timeout: float | None,
        stop_on_error: bool,
        tool: str,
    ) -> None:
        journaled = self._begin_entry(run, tool)
        try:
            if journaled is not None:
                # On disk before the code runs: a server that is killed in it leaves a row.
                await asyncio.wait([journaled])
            for step in run.steps:
                await self._questions.wait_until_answered(run.kernel_id, run.caller)
                async with self._queue.turn(run.kernel_id, run.caller.identity):
                    await self._take_turn(run, step, open_document, timeout)
                if run.cancelled or (step.status != "ok" and stop_on_error):
                    break
        except asyncio.CancelledError:
            if self._closing:
                run.current.warning = STOPPED if run.current.started else NOT_BEGUN
            run.current.status = "interrupted"
        except ToolError as error:
            run.error = error
            run.current.status = "error"
        except Exception as error:
            logger.exception("Execution %s failed", run.id)
            run.error = ToolError(f"The execution failed: {error}")
            run.current.status = "error"
        finally:
            for step in run.steps:
                if step.status == "queued":
                    step.status = "skipped"
            await self._save_outputs(run, open_document)
            await self._let_go_of_kernel(run)
            self._under_way -= 1
            self._let_go_of_outputs(run)
            await self._end_entry(run, tool, journaled)
            run.record("done", {"status": run.outcome})

    async def _take_turn(
        self, run: Run, step: Step, open_document: OpenDocument | None, timeout: float | None
    ) -> None:
        """Run a step in its turn; once more where the run's supervisor says so."""
        supervisor = self._supervisors.get(run.id)
        if supervisor is None:
            await self._step(run, step, open_document, timeout)
            return
        while True:
            await supervisor.before_step(run, step)
            await self._step(run, step, open_document, timeout)
            if not await supervisor.after_step(run, step):
                return
            step.outputs, step.statuses, step.execution = OutputBuffer(), StatusLog(), None
            step.status, step.started = "queued", False
            run.record("outputs", {"cell": step.cell, "count": 0, "rewritten": 0})

    async def _let_go_of_kernel(self, run: Run) -> None:
        """Notify a run's supervisor that it is over."""
        supervisor = self._supervisors.pop(run.id, None)
        try:
            if supervisor is not None:
                await supervisor.on_end(run)
        except ToolError as error:
            logger.warning("The kernel of run %s could not be let go: %s", run.id, error.message)

    async def _save_outputs(self, run: Run, open_document: OpenDocument | None) -> None:
        """Save what the cells of a run have printed, where their ends did not."""
        if len(run.steps) == 1 or open_document is None or run.path is None:
            return
        try:
            await (await open_document(run.path)).flush()
        except ToolError as error:
            run.current.warning = error.message

    async def _step(
        self, run: Run, step: Step, open_document: OpenDocument | None, timeout: float | None
    ) -> None:
        if step.cell is None or open_document is None or run.path is None:
            await self._execute(run, step, timeout, None)
            return
        document = await open_document(run.path)
        async with AsyncExitStack() as stack:
            try:
                writer = await stack.enter_async_context(document.writing(step.cell))
            except CellNotFound:
                raise CellNotFound(
                    f"Cell @{step.cell} was deleted, or is no code cell any more; it did not run.",
                    hint="list_cells shows the cells as they are now.",
                ) from None
            # Decided on the very cell that gets the outputs: between two reads others may move cells.
            cell = writer.cell
            if cell.source != step.code:
                _check_source(run, step, cell)
            step.code, step.index = cell.source, cell.index
            if not cell.source.strip():
                step.status = "ok"
                step.execution = Execution("ok")
                return
            await writer.start()
            await self._execute(run, step, timeout, writer)
        self._remember(run, cell, step)
        execution = step.execution
        if execution is not None:
            places, count = execution.displays, len(execution.outputs)
            self._displays.ran(run.kernel_id, document.path, cell.key, places, count)

    async def _execute(
        self, run: Run, step: Step, timeout: float | None, writer: OutputWriter | None
    ) -> None:
        step.status = "running"
        run.record("started", {"cell": step.cell})
        try:
            self._activity.publish(run.path, run.caller, "running", [step.cell])
            await self._run_code(run, step, timeout, writer)
        finally:
            ended = step.execution.status if step.execution else "error"
            self._activity.publish(run.path, run.caller, "ran", [step.cell], status=ended)
        if step.execution is None:
            raise ToolError("The executor ended without saying how.")
        step.status = step.execution.status
        run.record("ended", {"cell": step.cell, "status": step.status})

    async def _run_code(
        self, run: Run, step: Step, timeout: float | None, writer: OutputWriter | None
    ) -> None:
        request = ExecutionRequest(step.code, timeout=timeout)
        updates = DisplayUpdates(self._displays, run.kernel_id, self._open)
        try:
            executor = self._kernels.executor(run.kernel_id)
            async with aclosing(executor.execute(run.kernel_id, request)) as events:
                async for event in events:
                    if isinstance(event, StatusEvent) and event.mime == OTHER_DISPLAY_MIME:
                        updates.add(event.data)
                    await self._hear(run, step, event, writer)
        finally:
            await updates.finish()
            if writer is not None:
                count = step.execution.execution_count if step.execution else None
                try:
                    # Of many cells not each is saved at its end, which would take longer than they do.
                    await writer.finish(count, save=len(run.steps) == 1)
                except ToolError as error:
                    step.warning = step.warning or error.message

    async def _hear(
        self, run: Run, step: Step, event: ExecutionEvent, writer: OutputWriter | None
    ) -> None:
        """Take in one event of an executor."""
        match event:
            case Started():
                step.started = True
                if run.cancelled:
                    await self._kernels.interrupt(run.kernel_id)
            case OutputsChanged(changes):
                applied = [step.outputs.apply(change) for change in changes]
                places = [place for place in applied if place is not None]
                if writer is not None:
                    await self._write(step, writer, changes)
                # Whoever has read beyond the place reads on from there.
                rewritten = {"rewritten": min(places)} if places else {}
                if places:
                    run.rewind_cursors(step, *min(places))
                count = len(step.outputs)
                run.record("outputs", {"cell": step.cell, "count": count, **rewritten})
            case StatusEvent():
                step.statuses.append(event)
            case InputRequested(prompt):
                run.record("input", {"cell": step.cell, "prompt": prompt})
            case Execution():
                interrupted = run.cancelled and event.status == "error"
                step.execution = replace(event, status="interrupted") if interrupted else event
                step.outputs = OutputBuffer(event.outputs)

    @staticmethod
    async def _write(step: Step, writer: OutputWriter, changes: Sequence[OutputChange]) -> None:
        """Write outputs to the cell; where its notebook cannot be written any more, it runs on."""
        try:
            await writer.write(changes)
        except ToolError as error:
            logger.warning("Outputs could not be written to the notebook: %s", error.message)
            step.warning = error.message

    def _remember(self, run: Run, cell: Cell, step: Step) -> None:
        if (
            run.path is not None
            and step.execution is not None
            and step.execution.execution_count is not None
        ):
            self._records.ran(run.path, cell.key, cell.hash, run.kernel_id, ok=step.status == "ok")

    def _begin_entry(self, run: Run, tool: str) -> asyncio.Task[int] | None:
        """Write into the journal that a notebook's run begins; None for one of no notebook."""
        if run.path is None:
            return None
        intent = self._journal.intend(
            run.caller, run.path, tool, f"runs {_cells_of(run)}", kind="run"
        )
        return self._background.spawn(intent, f"The journal entry of run {run.id}")

    async def _end_entry(self, run: Run, tool: str, begun: asyncio.Task[int] | None) -> None:
        """Write into the journal how a run ended; nobody waits for it where the row is there."""
        if run.path is None or begun is None:
            return
        said = f"ran {_cells_of(run)}: {run.outcome}"
        try:
            entry = await begun
        except ToolError:
            try:
                await self._journal.record(run.caller, run.path, tool, said, kind="run")
            except ToolError as error:
                lost = f"This run is not in the notebook's history: {error.message}"
                run.current.warning = " ".join(filter(None, (run.current.warning, lost)))
        else:
            self._background.spawn(
                self._journal.done(entry, summary=said), f"The journal entry of run {run.id}"
            )


def _cells_of(run: Run) -> str:
    cells = ", ".join(f"@{step.cell}" for step in run.steps[:5] if step.cell) or "scratch code"
    more = f" and {len(run.steps) - 5} more" if len(run.steps) > 5 else ""
    return f"{cells}{more}"


def _check_source(run: Run, step: Step, cell: Cell) -> None:
    """Refuse to run a cell whose source is another than when it was queued, where that matters.

    Raises:
        Conflict: a person approved the other source, or the cell is known by its place alone and may
            be another cell.
    """
    if run.is_source_pinned:
        raise Conflict(
            f"Cell @{step.cell} was changed after the user approved it; it did not run.",
            hint="Read it, and call again.",
        )
    if cell.key != cell.id:
        raise Conflict(
            f"The cells of {run.path} have no ids, and {step.cell} is not what it was when it was "
            "queued; it did not run.",
            hint="list_cells shows the cells as they are now.",
        )
