"""Executions as callers follow them: started here, awaited, cancelled, replayed."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tk_ai_extension.kernels.base import Kernels
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.cells import Cell, Json
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
    RunStatus,
    Started,
    StatusEvent,
)
from tk_ai_extension.model.outputs import apply_change, overwritten
from tk_ai_extension.notebooks.base import NotebookDocument, OutputWriter
from tk_ai_extension.workspace.journal import Journal
from tk_ai_extension.workspace.paths import moved
from tk_ai_extension.workspace.pump import OutputPump
from tk_ai_extension.workspace.queue import FairQueue
from tk_ai_extension.workspace.runs import RunRecords

logger = logging.getLogger(__name__)

MAX_KEPT = 500
"""How many ended executions are kept for `wait_execution`."""
MAX_ACTIVE = 1_000
"""How many may be queued or running in the whole server."""
MAX_EVENTS = 2_000
"""How many events of an execution are kept for replay; older ones are summed up in a reset."""

StepStatus = RunStatus | Literal["skipped"]
OpenDocument = Callable[[str], Awaitable[NotebookDocument]]
"""Opens the notebook at a path: `NotebookStore.open`."""


@dataclass
class Step:
    """One cell (or one piece of scratch code) of a run."""

    cell: str | None = None
    index: int | None = None
    code: str = ""
    status: StepStatus = "queued"
    started: bool = False
    """Whether the kernel has begun it; before that an interrupt would hit somebody else's code."""
    outputs: list[Json] = field(default_factory=list[Json])
    execution: Execution | None = None
    statuses: list[StatusEvent] = field(default_factory=list[StatusEvent])
    warning: str | None = None
    """Why outputs could not be written to the notebook, where that happened."""


@dataclass(frozen=True, slots=True)
class RunEvent:
    """One event of a run, numbered from 1: started, outputs, input, ended, done; or a reset."""

    id: int
    kind: str
    data: Json


class Run:
    """Code on its way through a kernel: one or more cells in order, or scratch code.

    It goes on whoever listens; `wait` returns when it has ended or when time is up.
    """

    def __init__(
        self,
        caller: Caller,
        kernel_id: str,
        path: str | None,
        steps: list[Step],
        *,
        as_shown: bool = False,
    ) -> None:
        self.id = secrets.token_hex(5)
        self.caller = caller
        self.kernel_id = kernel_id
        self.path = path
        self.steps = steps
        self.as_shown = as_shown
        """Whether cells run only with the source that their steps have."""
        self.error: ToolError | None = None
        """Why it could not be carried out at all, where that happened."""
        self.created = time.time()
        self.done = False
        self.cancelled = False
        self.version = 0
        """Grows with everything that happens."""
        self.cursors: dict[str, tuple[int, int, int]] = {}
        """For each caller what they have seen: step, output, characters of that output."""
        self.task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._ended = asyncio.Event()
        self._events: deque[RunEvent] = deque(maxlen=MAX_EVENTS)

    @property
    def current(self) -> Step:
        """The step that runs now; the last one once it has ended."""
        return next(
            (step for step in self.steps if step.status in ("queued", "running")),
            next(
                (step for step in reversed(self.steps) if step.status != "skipped"), self.steps[-1]
            ),
        )

    @property
    def status(self) -> RunStatus:
        """The status of the whole: of the first step that went wrong, else of the current one."""
        for step in self.steps:
            if step.status not in ("queued", "running", "ok", "skipped"):
                return step.status
        current = self.current.status
        return "ok" if current == "skipped" else current

    async def wait(self, seconds: float | None) -> bool:
        """Waits until it has ended, at most so long; whether it has."""
        if not self.done:
            try:
                await asyncio.wait_for(self._ended.wait(), seconds)
            except TimeoutError:
                return self.done
        return True

    async def changed(self, since: int, seconds: float | None) -> bool:
        """Waits until `version` is beyond ``since``, at most so long; whether it is."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while self.version <= since and not self.done:
            remaining = None if deadline is None else deadline - time.monotonic()
            if remaining is not None and remaining <= 0:
                return False
            try:
                await asyncio.wait_for(self._changed.wait(), remaining)
            except TimeoutError:
                return False
        return True

    def record(self, kind: str, data: Json) -> None:
        """Notes that something happened, and wakes those who wait."""
        self.version += 1
        self._events.append(RunEvent(self.version, kind, data))
        if kind == "done":
            self.done = True
            self._ended.set()
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def events_after(self, last: int = 0) -> AsyncIterator[RunEvent]:
        """The events after number ``last``, then those to come, until the run is done.

        Where events between were forgotten, a ``reset`` with all outputs so far comes first.
        """
        while True:
            kept = list(self._events)
            if kept and kept[0].id > last + 1:
                state = [
                    {"cell": step.cell, "status": step.status, "outputs": step.outputs}
                    for step in self.steps
                ]
                last = kept[-1].id
                yield RunEvent(last, "reset", {"steps": state})
            for event in kept:
                if event.id > last:
                    last = event.id
                    yield event
            if self.done and self.version <= last:
                return
            await self.changed(last, None)


class Executions:
    """All runs of a server: starts them, finds them, ends them with the server."""

    def __init__(
        self, kernels: Kernels, queue: FairQueue, journal: Journal, records: RunRecords
    ) -> None:
        self._kernels = kernels
        self._queue = queue
        self._journal = journal
        self._records = records
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._under_way = 0
        self._background: set[asyncio.Task[Any]] = set()

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
        as_shown: bool = False,
        tool: str = "",
    ) -> Run:
        """Queues steps for a kernel and returns at once.

        Steps that name a cell run its source as it is when their turn comes, with outputs streamed
        into the document that ``open_document`` gives; with ``as_shown`` only if it is still the
        step's, since a person allowed just that.

        Raises:
            LimitReached: too many are under way.
        """
        if self._under_way >= MAX_ACTIVE:
            raise LimitReached(f"{MAX_ACTIVE} executions are under way.")
        run = Run(caller, kernel_id, path, list(steps), as_shown=as_shown)
        self._runs[run.id] = run
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

    async def cancel(self, run: Run, *, grace: float = 5.0) -> bool:
        """Takes a run out of the queue, or interrupts it; whether it has ended within the grace.

        Code that waits inside the kernel behind somebody else's is interrupted when it begins.
        """
        if run.done:
            return True
        run.cancelled = True
        if run.current.started:
            await self._kernels.interrupt(run.kernel_id)
        elif run.current.status == "queued" and run.task is not None:
            run.task.cancel()
        return await run.wait(grace)

    def renamed(self, old: str, new: str) -> None:
        """A notebook, or a folder above some, has another path now; runs under way follow it."""
        for run in self._runs.values():
            if run.path is not None and (now := moved(run.path, old, new)) is not None:
                run.path = now

    async def close(self) -> None:
        """Stops following; kernels go on by themselves."""
        tasks = [
            run.task for run in self._runs.values() if run.task is not None and not run.task.done()
        ]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # What ended just now is written down too.
        await asyncio.gather(*self._background, return_exceptions=True)

    def _forget_old(self) -> None:
        while len(self._runs) - self._under_way > MAX_KEPT:
            del self._runs[next(key for key, run in self._runs.items() if run.done)]

    async def _drive(
        self,
        run: Run,
        open_document: OpenDocument | None,
        timeout: float | None,
        stop_on_error: bool,
        tool: str,
    ) -> None:
        try:
            for step in run.steps:
                async with self._queue.turn(run.kernel_id, run.caller.identity):
                    await self._step(run, step, open_document, timeout)
                if run.cancelled or (step.status != "ok" and stop_on_error):
                    break
        except asyncio.CancelledError:
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
            self._under_way -= 1
            self._note(run, tool)
            run.record("done", {"status": run.status})

    async def _step(
        self, run: Run, step: Step, open_document: OpenDocument | None, timeout: float | None
    ) -> None:
        if step.cell is None or open_document is None or run.path is None:
            await self._execute(run, step, timeout, None)
            return
        document = await open_document(run.path)
        cell = (await document.read()).by_key.get(step.cell)
        if cell is None:
            raise CellNotFound(f"Cell @{step.cell} was deleted before its turn came.")
        if run.as_shown and cell.source != step.code:
            raise Conflict(
                f"Cell @{step.cell} was changed after it was allowed to run; it did not run.",
                hint="Read it, and ask again.",
            )
        step.code, step.index = cell.source, cell.index
        if cell.type != "code" or not cell.source.strip():
            step.status = "ok"
            step.execution = Execution("ok")
            return
        async with document.writing(step.cell) as writer:
            await writer.start()
            await self._execute(run, step, timeout, writer)
        self._remember(run, cell, step)

    async def _execute(
        self, run: Run, step: Step, timeout: float | None, writer: OutputWriter | None
    ) -> None:
        pump = OutputPump(writer) if writer is not None else None
        step.status = "running"
        run.record("started", {"cell": step.cell})
        request = ExecutionRequest(step.code, timeout=timeout)
        executor = self._kernels.executor(run.kernel_id)
        try:
            async with aclosing(executor.execute(run.kernel_id, request)) as events:
                async for event in events:
                    await self._hear(run, step, event, pump)
        finally:
            if pump is not None:
                count = step.execution.execution_count if step.execution else None
                step.warning = await pump.finish(count)
        if step.execution is None:
            raise ToolError("The executor ended without saying how.")
        step.status = step.execution.status
        run.record("ended", {"cell": step.cell, "status": step.status})

    async def _hear(
        self, run: Run, step: Step, event: ExecutionEvent, pump: OutputPump | None
    ) -> None:
        """Takes in one event of an executor."""
        match event:
            case Started():
                step.started = True
                if run.cancelled:
                    await self._kernels.interrupt(run.kernel_id)
            case OutputsChanged(changes):
                places: list[tuple[int, int]] = []
                for change in changes:
                    if (place := overwritten(step.outputs, change)) is not None:
                        places.append(place)
                    apply_change(step.outputs, change)
                if pump is not None:
                    pump.put(changes)
                # Whoever has read beyond the place reads on from there.
                rewritten = {"rewritten": min(places)} if places else {}
                count = len(step.outputs)
                run.record("outputs", {"cell": step.cell, "count": count, **rewritten})
            case StatusEvent():
                step.statuses.append(event)
            case InputRequested(prompt):
                run.record("input", {"cell": step.cell, "prompt": prompt})
            case Execution():
                interrupted = run.cancelled and event.status == "error"
                step.execution = replace(event, status="interrupted") if interrupted else event
                step.outputs = list(event.outputs)

    def _remember(self, run: Run, cell: Cell, step: Step) -> None:
        if (
            run.path is not None
            and step.execution is not None
            and step.execution.execution_count is not None
        ):
            self._records.ran(run.path, cell.key, cell.hash, run.kernel_id, ok=step.status == "ok")

    def _note(self, run: Run, tool: str) -> None:
        """Writes the run into the journal, in the background: nobody waits for it."""
        if run.path is None:
            return
        cells = ", ".join(f"@{step.cell}" for step in run.steps[:5] if step.cell) or "scratch code"
        more = f" and {len(run.steps) - 5} more" if len(run.steps) > 5 else ""
        said = f"ran {cells}{more}: {run.status}"
        task = asyncio.create_task(
            self._journal.record(run.caller, run.path, tool, said, kind="run")
        )
        self._background.add(task)
        task.add_done_callback(self._background.discard)
