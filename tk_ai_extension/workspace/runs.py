"""A run: code on its way through a kernel, as those who follow it see it, and who keeps its kernel."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Literal, NamedTuple, Protocol

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.cells import Json
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.model.executions import Execution, RunStatus, StatusEvent
from tk_ai_extension.model.outputs import OutputBuffer, json_size, stream_text

MAX_EVENTS = 2_000
"""How many events of an execution are kept for replay; older ones are summed up in a reset."""

MAX_STATUSES = 1_000
"""How many status events of a step are kept; the newest stay."""
MAX_STATUS_SIZE = 4_000_000
"""Characters of status events of a step that are kept, about; the newest stay."""

StepStatus = RunStatus | Literal["skipped"]


class StatusLog:
    """The newest status events of a step, numbered from 0."""

    def __init__(self) -> None:
        self.count = 0
        """How many there were in all."""
        self._kept: deque[tuple[StatusEvent, int]] = deque()
        self._size = 0

    def append(self, event: StatusEvent) -> None:
        """Keeps an event; the oldest go where there are too many or too large ones."""
        size = json_size(event.data)
        self._kept.append((event, size))
        self._size += size
        self.count += 1
        while len(self._kept) > MAX_STATUSES or (
            self._size > MAX_STATUS_SIZE and len(self._kept) > 1
        ):
            self._size -= self._kept.popleft()[1]

    def since(self, number: int) -> list[StatusEvent]:
        """The events from this number on that are still kept."""
        skipped = max(number - (self.count - len(self._kept)), 0)
        return [event for event, _ in islice(self._kept, skipped, None)]


class Cursor(NamedTuple):
    """How much of a run a caller has seen.

    Attributes:
        step: The step whose outputs come next.
        outputs: How many outputs of it were seen.
        characters: Of the last of them, where it is a stream.
        statuses: How many status events of the step were seen.
    """

    step: int = 0
    outputs: int = 0
    characters: int = 0
    statuses: int = 0

    @classmethod
    def after(cls, step: int, outputs: Sequence[Json], statuses: int) -> Cursor:
        """The cursor of who has seen these outputs of a step. An empty stream may still grow."""
        count = len(outputs)
        if not count or outputs[-1].get("output_type") != "stream":
            return cls(step, count, 0, statuses)
        characters = len(stream_text(outputs[-1]))
        return cls(step, count if characters else count - 1, characters, statuses)

    @property
    def place(self) -> tuple[int, int, int]:
        """Step, output and character that come next: cursors are in the order of their places."""
        if self.characters:
            return self.step, self.outputs - 1, self.characters
        return self.step, self.outputs, 0


@dataclass(eq=False)
class Step:
    """One cell (or one piece of scratch code) of a run."""

    cell: str | None = None
    index: int | None = None
    code: str = ""
    status: StepStatus = "queued"
    started: bool = False
    """Whether the kernel has begun it; before that an interrupt would hit somebody else's code."""
    outputs: OutputBuffer = field(default_factory=OutputBuffer)
    execution: Execution | None = None
    statuses: StatusLog = field(default_factory=StatusLog)
    warning: str | None = None
    """What a reader of its outputs has to know: why they are not in the notebook, or not here."""

    def let_go(self) -> None:
        """Keeps its outputs no longer."""
        if not self.outputs:
            return
        self.outputs = OutputBuffer()
        if self.execution is not None:
            self.execution = replace(self.execution, outputs=())
        self.warning = (
            "its outputs are not kept here any more; read the cell"
            if self.cell
            else "its outputs are not kept any more"
        )


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
        self.cursors: dict[str, Cursor] = {}
        """For each caller what they have seen."""
        self.task: asyncio.Task[None] | None = None
        self.kept = 0
        """Characters of output, about, once it has ended; 0 when they are let go."""
        self.followers = 0
        """How many are reading its outputs just now: they stay meanwhile."""
        self._changed = asyncio.Event()
        self._ended = asyncio.Event()
        self._events: deque[RunEvent] = deque(maxlen=MAX_EVENTS)

    def show_again(self, step: Step, output: int, character: int) -> None:
        """What stood from a place on was written over: whoever has seen it sees it as it is now.

        Args:
            step: Whose outputs.
            output: The number of the first output that is another now.
            character: From which character on, where it is a stream.
        """
        position = self.steps.index(step)
        for caller, seen in self.cursors.items():
            if seen.step == position and seen.place > (position, output, character):
                outputs = output + 1 if character else output
                self.cursors[caller] = seen._replace(outputs=outputs, characters=character)

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
        """How it ended; ``queued`` or ``running`` until then, also where a cell failed already."""
        if self.done:
            return self.outcome
        current = self.current
        waits = current is self.steps[0] and current.status == "queued"
        return "queued" if waits else "running"

    @property
    def outcome(self) -> RunStatus:
        """The status of the first step that went wrong, else of the current one."""
        for step in self.steps:
            if step.status not in ("queued", "running", "ok", "skipped"):
                return step.status
        current = self.current.status
        return "ok" if current == "skipped" else current

    @contextmanager
    def followed(self) -> Generator[None]:
        """Keeps its outputs while somebody reads them."""
        self.followers += 1
        try:
            yield
        finally:
            self.followers -= 1

    async def wait(self, seconds: float | None) -> bool:
        """Waits until it has ended, at most so long; whether it has."""
        if not self.done:
            try:
                async with asyncio.timeout(seconds):
                    await self._ended.wait()
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
                async with asyncio.timeout(remaining):
                    await self._changed.wait()
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

        Where events between were forgotten, a ``reset`` comes first: whatever was shown of the
        outputs may have been written over.
        """
        with self.followed():
            while True:
                kept = list(self._events)
                if kept and kept[0].id > last + 1:
                    last = kept[-1].id
                    yield RunEvent(last, "reset", {})
                for event in kept:
                    if event.id > last:
                        last = event.id
                        yield event
                if self.done and self.version <= last:
                    return
                await self.changed(last, None)


class Keeper(Protocol):
    """Keeps the kernel of one run; `Executions` calls it as the run goes on."""

    async def before(self, run: Run, step: Step) -> None:
        """Called in the step's turn before its code is sent; may give the run another kernel.

        Raises:
            ToolError: the step does not run, and the run is over.
        """
        ...

    async def after(self, run: Run, step: Step) -> bool:
        """Called in the step's turn when it has ended; whether its code is run once more."""
        ...

    async def stuck(self, run: Run) -> None:
        """Called where a run that was cancelled goes on; has to end it."""
        ...

    async def ended(self, run: Run) -> None:
        """Called once, when the run is over, however it ended."""
        ...
