"""Runs: cells or scratch code that a kernel executes, the queue of each kernel, and supervisors."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict, defaultdict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from tk_ai_extension.kernels.kernel_run import OtherClientRun
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import KernelBusy, LimitReached, ToolError
from tk_ai_extension.model.executions import (
    Execution,
    ExecutionRequest,
    RunStatus,
    StatusDisplay,
)
from tk_ai_extension.model.output_changes import OutputBuffer, json_size
from tk_ai_extension.notebooks.document import NotebookDocument
from tk_ai_extension.notebooks.notebook import KernelIncarnation, Notebook

MAX_WAITING = 256
"""Maximum waiting executions of one kernel."""
MAX_WAITING_PER_CALLER = 128
"""Maximum waiting executions of one caller on one kernel, so that it cannot block the others."""
QUERY_WAIT = 5.0
"""Seconds for which a query waits for others."""


_Waiting = OrderedDict[str, deque[asyncio.Future[None]]]
"""Requests that wait for a kernel in use, in a round-robin order of callers.

The first caller is served next and then moves to the end with its other requests. A new caller enters
at the end.
"""


class FairQueue:
    """Serialises executions on each kernel, round robin between callers.

    A caller's own requests keep their order. After the running turn, a new caller waits for at most
    one turn of each other caller before its first turn, two before its second, and so on, however
    many requests they have. If a turn fails or is cancelled, the next one starts.

    Use it on one event loop. Unused kernels take no memory.

    Args:
        max_waiting: Maximum waiting requests of one kernel.
        max_waiting_per_caller: Maximum waiting requests of one caller on one kernel.
    """

    def __init__(
        self, max_waiting: int = MAX_WAITING, max_waiting_per_caller: int = MAX_WAITING_PER_CALLER
    ) -> None:
        self._max = max_waiting
        self._max_per_caller = max_waiting_per_caller
        self._waiting: dict[str, _Waiting] = {}

    @asynccontextmanager
    async def turn(self, kernel_id: str, caller: str) -> AsyncGenerator[None]:
        """Wait for the caller's turn on a kernel and hold it within the ``async with`` block.

        Args:
            kernel_id: The kernel.
            caller: The identity of the caller (`Caller.identity`).

        Raises:
            LimitReached: Too many requests are waiting. Nothing was queued.
        """
        waiting = self._waiting.get(kernel_id)
        if waiting is None:
            self._waiting[kernel_id] = _Waiting()
        else:
            await self._wait(kernel_id, waiting, caller)
        try:
            yield
        finally:
            self._pass_on(kernel_id)

    async def _wait(self, kernel_id: str, waiting: _Waiting, caller: str) -> None:
        if sum(len(own) for own in waiting.values()) >= self._max:
            raise LimitReached(f"{self._max} executions are already waiting for this kernel.")
        own = waiting.get(caller)
        if own is not None and len(own) >= self._max_per_caller:
            raise LimitReached(
                f"{self._max_per_caller} of your executions are already waiting for this kernel."
            )
        granted = asyncio.get_running_loop().create_future()
        waiting.setdefault(caller, deque()).append(granted)
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                # The turn was granted at the same time as the cancellation.
                self._pass_on(kernel_id)
            else:
                self._withdraw(waiting, caller, granted)
            raise

    def _pass_on(self, kernel_id: str) -> None:
        """End the current turn and start the next one, if there is one."""
        waiting = self._waiting[kernel_id]
        while waiting:
            caller, own = waiting.popitem(last=False)
            # Skip futures that are cancelled but not withdrawn yet.
            while own and own[0].cancelled():
                own.popleft()
            if own:
                granted = own.popleft()
                if own:
                    waiting[caller] = own
                granted.set_result(None)
                return
        del self._waiting[kernel_id]

    @staticmethod
    def _withdraw(waiting: _Waiting, caller: str, granted: asyncio.Future[None]) -> None:
        own = waiting.get(caller)
        if own is not None and granted in own:
            own.remove(granted)
            if not own:
                del waiting[caller]


class KernelQueries:
    """Serialises this package's own queries of each kernel, such as the list of variables.

    A query that runs looks like a person's code to the next one.
    """

    def __init__(self) -> None:
        self._locks = defaultdict[str, asyncio.Lock](asyncio.Lock)

    @asynccontextmanager
    async def turn(self, kernel_id: str) -> AsyncGenerator[None]:
        """Wait until no query of a kernel is in progress; none begins within the ``async with`` block.

        Raises:
            KernelBusy: Other queries did not end in time.
        """
        lock = self._locks[kernel_id]
        try:
            async with asyncio.timeout(QUERY_WAIT):
                await lock.acquire()
        except TimeoutError:
            raise KernelBusy("The kernel is answering other queries.", hint="Call again.") from None
        try:
            yield
        finally:
            lock.release()


OpenDocument = Callable[[str], Awaitable[NotebookDocument]]
"""Opens the notebook at a path: `NotebookStore.open`."""

MAX_STATUSES = 1_000
"""Maximum status events of a step that are kept; the newest stay."""
MAX_STATUS_SIZE = 4_000_000
"""Approximate maximum characters of status events of a step that are kept; the newest stay."""

StepStatus = RunStatus | Literal["skipped"]


class StatusDisplayLog:
    """The newest status events of a step."""

    def __init__(self) -> None:
        self._kept: deque[tuple[StatusDisplay, int]] = deque()
        self._size = 0

    def append(self, event: StatusDisplay) -> None:
        """Add an event; drop the oldest while there are too many or too large ones."""
        size = json_size(event.data)
        self._kept.append((event, size))
        self._size += size
        while len(self._kept) > MAX_STATUSES or (
            self._size > MAX_STATUS_SIZE and len(self._kept) > 1
        ):
            self._size -= self._kept.popleft()[1]

    def events(self) -> list[StatusDisplay]:
        """Return the kept events, oldest first."""
        return [event for event, _ in self._kept]


@dataclass(eq=False)
class RunStep:
    """One cell, or one piece of scratch code, of a run."""

    cell: str | None = None
    index: int | None = None
    code: str = ""
    status: StepStatus = "queued"
    started: bool = False
    """Whether the kernel has started it. Before that, an interrupt would hit another caller's code."""
    outputs: OutputBuffer = field(default_factory=OutputBuffer)
    execution: Execution | None = None
    incarnation: KernelIncarnation | None = None
    """The kernel that has taken its code; None before that."""
    statuses: StatusDisplayLog = field(default_factory=StatusDisplayLog)
    on_status: Callable[[StatusDisplay], None] | None = None
    """Called with each status event: `statuses` keeps only the newest ones."""
    may_fail: bool = False
    """Whether an exception is no failure."""
    followed: OtherClientRun | None = None
    """The run in the kernel, if a person's page has sent its request."""
    warning: str | None = None
    """A note for readers of its outputs: why they are missing here or in the notebook."""

    @property
    def has_failed(self) -> bool:
        """Whether it has ended with a failure that it may not have."""
        if self.status in ("ok", "queued", "running", "skipped"):
            return False
        return self.status != "error" or not self.may_fail

    def add_status(self, event: StatusDisplay) -> None:
        """Add a status event."""
        self.statuses.append(event)
        if self.on_status is not None:
            self.on_status(event)

    def run_again(self) -> None:
        """Queue it for another run, and drop the results of this one."""
        self.status, self.started = "queued", False
        self.execution = self.incarnation = None
        self.outputs, self.statuses = OutputBuffer(), StatusDisplayLog()

    def drop_outputs(self) -> None:
        """Drop the outputs to free memory."""
        if not self.outputs:
            return
        self.outputs = OutputBuffer()
        if self.execution is not None:
            self.execution = replace(self.execution, outputs=())
        self.warning = (
            "outputs are no longer kept here; read the cell"
            if self.cell
            else "outputs are no longer kept"
        )


class RunReport(Protocol):
    """What a reader of a run gets instead of its outputs, such as the report of a verification."""

    @property
    def subject(self) -> str:
        """What it runs, for the journal."""
        ...

    @property
    def outcome(self) -> str | None:
        """How the run ended, for the journal; None for the outcome of its steps."""
        ...

    @property
    def size(self) -> int:
        """Approximate characters of output that it keeps in addition to the steps, once the run has ended."""
        ...

    def drop_outputs(self) -> None:
        """Drop these outputs to free memory."""
        ...


class Run:
    """One or more cells in order, or scratch code, that a kernel executes.

    A run goes on without readers. `wait` returns when it has ended or on timeout.
    """

    def __init__(
        self,
        caller: Caller,
        kernel_id: str,
        notebook: Notebook | None,
        steps: list[RunStep],
        *,
        tool: str = "",
        open_document: OpenDocument | None = None,
        timeout: float | None = None,
        stop_on_error: bool = True,
        is_source_pinned: bool = False,
        supervisor: RunSupervisor | None = None,
        report: RunReport | None = None,
    ) -> None:
        self.id = secrets.token_hex(5)
        self.caller = caller
        self.kernel_id = kernel_id
        self.notebook = notebook
        self.steps = steps
        self.is_source_pinned = is_source_pinned
        """Whether cells run only with the source that their steps have."""
        self.tool = tool
        self.open_document = open_document
        """Opens the notebook that its outputs are written to; None to write none."""
        self.timeout = timeout
        """Seconds after which a step is interrupted; None for no limit."""
        self.stop_on_error = stop_on_error
        """Whether to skip the remaining steps after one fails."""
        self.error: ToolError | None = None
        """Why the run could not be carried out; None if it could."""
        self.done = False
        self.cancelled = False
        self.cancellations = 0
        """Number of cancellations that wait for its end. Only the first one interrupts it."""
        self.stopped = ""
        """Why no further step runs, set by its supervisor; empty as long as one may run."""
        self.report = report
        """What a reader gets instead of the outputs; None for the outputs."""
        self.version = 0
        """Incremented by each event."""
        self.task: asyncio.Task[None] | None = None
        """Runs the steps. Cancelling it ends the run without an interrupt."""
        self.kept = 0
        """Approximate characters of output that are kept once it has ended; 0 when dropped."""
        self.supervisor = supervisor
        """Supervises its kernel, if that belongs to no notebook."""
        self.request: ExecutionRequest | None = None
        """What its kernel runs now; None for nothing."""
        self.interrupts: set[asyncio.Task[None]] = set()
        """Interrupts that are being sent."""
        self.phase: Literal["beginning", "running", "ending"] = "beginning"
        """What its task does: records its start, runs the steps, or ends it."""
        self._changed = asyncio.Event()
        self._ended = asyncio.Event()

    @property
    def path(self) -> str | None:
        """The present path of its notebook; None for none."""
        return None if self.notebook is None else self.notebook.path

    @property
    def current(self) -> RunStep:
        """The step that runs now; the last one that ran once the run has ended."""
        return next(
            (step for step in self.steps if step.status in ("queued", "running")),
            next(
                (step for step in reversed(self.steps) if step.status != "skipped"), self.steps[-1]
            ),
        )

    @property
    def status(self) -> RunStatus:
        """How it ended; until then ``queued`` or ``running``, even if a cell failed already."""
        if self.done:
            return self.outcome
        current = self.current
        waits = current is self.steps[0] and current.status == "queued"
        return "queued" if waits else "running"

    @property
    def outcome(self) -> RunStatus:
        """The status of the first step that failed, else of the current one."""
        failed = next((step for step in self.steps if step.has_failed), self.current)
        status = failed.status
        is_ok = status == "skipped" or (status == "error" and not failed.has_failed)
        return "ok" if is_ok else status

    async def wait(self, seconds: float | None) -> bool:
        """Wait for the end, for at most ``seconds``; return whether it has ended."""
        if not self.done:
            try:
                async with asyncio.timeout(seconds):
                    await self._ended.wait()
            except TimeoutError:
                return self.done
        return True

    async def changed(self, since: int, seconds: float | None) -> bool:
        """Wait until `version` exceeds ``since``, for at most ``seconds``; return whether it does."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while self.version <= since and not self.done:
            remaining = None if deadline is None else deadline - time.monotonic()
            if remaining is not None and remaining <= 0:
                return False
            try:
                async with asyncio.timeout(remaining):
                    await self._changed.wait()
            except TimeoutError:
                return False
        return True

    def record(self, *, done: bool = False) -> None:
        """Record a change and wake the waiters."""
        self.version += 1
        if done:
            self.done = True
            self._ended.set()
        # Those that wait now are woken; later ones wait for the next event.
        self._changed.set()
        self._changed.clear()


class RunSupervisor(Protocol):
    """Supervises the kernel of one run. `ExecutionService` calls its methods."""

    async def before_step(self, run: Run, step: RunStep) -> None:
        """Prepare the kernel before the step's code is sent.

        It may assign another kernel to the run. It is then called again, within that kernel's turn.

        Raises:
            ToolError: The step cannot run. The run ends.
        """
        ...

    async def after_step(self, run: Run, step: RunStep) -> bool:
        """Return whether to run the step again. Called when the step has ended, within its turn."""
        ...

    async def on_interrupt_ignored(self, run: Run) -> None:
        """End a cancelled run that ignored the interrupt."""
        ...

    async def on_end(self, run: Run) -> None:
        """Release the kernel. Called once when the run has ended, with or without an error."""
        ...
