"""The outputs of a running cell on their way to the place that its notebook is in."""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.model.errors import CellNotFound, OpenTwice, TabOffline, ToolError
from tk_ai_extension.model.outputs import OutputChange
from tk_ai_extension.notebooks.autosave import OutputSaver, Schedule
from tk_ai_extension.notebooks.running_outputs import RunningOutputs, merged
from tk_ai_extension.notebooks.tabs.protocol import TabGone

if TYPE_CHECKING:
    from tk_ai_extension.notebooks.session import NotebookSession, SessionDocument

_log = logging.getLogger(__name__)

PUSH_INTERVAL = 0.05
"""Seconds between two pushes of outputs to a place that people look at."""

_MAX_MOVES = 3
"""So often outputs go on to another place within one push."""

Find = Callable[[Snapshot], Cell | None]
"""Finds the running cell in a notebook; None where it is gone."""


class OutputSink(ABC):
    """Where the outputs of one running cell are shown and saved now.

    Attributes:
        share: A push that takes long puts the next one off by so many times its duration.
    """

    share: ClassVar[float] = 1.0

    def accept(self, run: RunningOutputs, changes: Sequence[OutputChange]) -> bool:  # noqa: ARG002
        """Take changes at once where that costs nothing; False where they have to be pushed."""
        return False

    @abstractmethod
    async def begin(self, run: RunningOutputs) -> None:
        """Clear the cell's outputs and count, and mark it as running.

        Raises:
            TabGone, ToolError.
        """

    @abstractmethod
    async def push_outputs(self, run: RunningOutputs) -> None:
        """Bring `RunningOutputs.pending`, or all outputs where this place does not have the others.

        Raises:
            TabGone, ToolError.
        """

    @abstractmethod
    async def end(self, run: RunningOutputs, *, save: bool) -> None:
        """Set the count, mark the cell as idle and has it saved; a kept notebook when this returns.

        Raises:
            TabGone, ToolError.
        """

    async def release(self, run: RunningOutputs, *, done: bool) -> None:  # noqa: B027 - a tab holds nothing
        """Release what was held for the outputs; another place has them now, unless they are done."""


class StoredSink(OutputSink):
    """A running cell of a notebook where it is kept: shown from memory, saved soon and at the end.

    Args:
        saver: The notebook's.
    """

    def __init__(self, saver: OutputSaver) -> None:
        self._saver = saver
        saver.acquire()

    def accept(self, run: RunningOutputs, changes: Sequence[OutputChange]) -> bool:
        """See `OutputSink`."""
        run.write(changes)
        self._saver.save_soon()
        return True

    async def begin(self, run: RunningOutputs) -> None:
        """See `OutputSink`."""
        runs = self._saver.runs
        # A cell that runs twice at once: the later run is the one that counts.
        runs[:] = [other for other in runs if other.key != run.key]
        runs.append(run)

    async def push_outputs(self, run: RunningOutputs) -> None:
        """See `OutputSink`."""
        run.commit_pending()
        self._saver.save_soon()

    async def end(self, run: RunningOutputs, *, save: bool) -> None:
        """See `OutputSink`."""
        if run not in self._saver.runs:
            return
        if save:
            await self._saver.save()
        else:
            self._saver.save_soon()

    async def release(self, run: RunningOutputs, *, done: bool) -> None:
        """See `OutputSink`."""
        if not done and run in self._saver.runs:
            self._saver.runs.remove(run)
        self._saver.release()


@dataclass(frozen=True, slots=True)
class RunningCell:
    """A running cell in the place that its notebook is in.

    Attributes:
        cell: The cell, as it was found there; None where it is gone.
        count: How many cells the notebook has.
        place: Where its outputs go.
    """

    cell: Cell | None
    count: int
    sink: OutputSink


class CellOutputWriter:
    """Writes the outputs of one running cell to the place that its notebook is in; see `OutputWriter`.

    All of them are in memory until the cell has ended and they have arrived. A place that went away and
    comes back, and a new one, gets them as a whole. Where others changed the outputs meanwhile, it gets
    what came since and nothing else.

    Args:
        session: The notebook's.
        document: The document that was opened for it.
        entered: The cell, found in its place.

    Attributes:
        document: The document that says where the notebook is.
    """

    def __init__(
        self, session: NotebookSession, document: SessionDocument, located: RunningCell
    ) -> None:
        assert located.cell is not None
        self.finished = False
        self.is_done = False
        self.cell = located.cell
        self.run = RunningOutputs(located.cell, located.count)
        self.sink: OutputSink | None = located.sink
        self.document = document
        self._session = session
        self._waiting: list[OutputChange] = []
        self._lock = asyncio.Lock()
        self._is_started = False
        self._started_sink: OutputSink | None = None
        self._count: int | None = None
        self._save = True
        self._is_detached = False
        self._reopen = False
        self._schedule = Schedule(self._push, f"outputs of {document.path}", session.tasks)

    @property
    def path(self) -> str:
        """Where the notebook is now."""
        return self.document.path

    async def start(self) -> None:
        """See `OutputWriter.start`."""
        self._is_started = True
        await self.deliver()

    async def write(self, changes: Sequence[OutputChange]) -> None:
        """See `OutputWriter.write`."""
        in_order = self._started_sink is not None and not self._waiting and not self._lock.locked()
        if in_order and self.sink is not None and self.sink.accept(self.run, changes):
            return
        self._waiting += changes
        self._schedule.request()

    async def finish(self, execution_count: int | None, *, save: bool = True) -> None:
        """See `OutputWriter.finish`; a room and a tab are saved within a second, not waited for.

        Raises:
            TabOffline, OpenTwice: the outputs are not in the notebook; they will be when its tab is back.
        """
        if self.finished:
            return
        self.finished = True
        if not self._is_started:
            self.is_done = True
            return
        self._count, self._save = execution_count, save
        await self.deliver(last=True)

    async def detach(self) -> None:
        """Release the place; outputs that wait for another one stay."""
        self._is_detached = True
        await self._release()
        if self.is_done:
            self._schedule.cancel()
            self._session.remove(self)
        else:
            self._schedule.request()

    def wake(self) -> None:
        """Push soon, to wherever the notebook is then."""
        self._reopen = True
        self._schedule.request()

    def warn(self, error: ToolError) -> None:
        """Outputs could not be pushed; they are kept."""
        _log.warning("Outputs of a running cell of %s: %s", self.path, error.message)

    async def _push(self) -> None:
        started = time.monotonic()
        try:
            await self.deliver()
        except ToolError as error:
            self.warn(error)
        share = self.sink.share if self.sink is not None else 1.0
        self._schedule.put_off(max(PUSH_INTERVAL, share * (time.monotonic() - started)))

    async def deliver(self, *, last: bool = False) -> None:
        """Push what is waiting; what cannot be pushed now is kept.

        Args:
            last: Whether it is an error that it cannot be pushed.
        """
        if not self._is_started or self.is_done:
            return
        async with self._lock:
            self.run.pending += merged(self._waiting)
            self._waiting = []
            for _ in range(_MAX_MOVES):
                try:
                    await self._push_to_sink(ends=last or self._is_detached)
                    if self._is_detached and self.is_done:
                        await self.detach()
                    return
                except TabGone:
                    await self._release()
                except (TabOffline, OpenTwice):
                    await self._release()
                    if last:
                        raise
                    return
                except (ToolError, asyncio.CancelledError) as error:
                    # Whether the place took it is not known: it, or another one, gets all again.
                    if not self.is_done:
                        await self._release()
                        self.is_done = last and isinstance(error, ToolError)
                    raise
            if last:
                raise TabOffline(f"The tab with {self.path} comes and goes.")

    async def _push_to_sink(self, *, ends: bool) -> None:
        if self.is_done:
            return
        sink = await self._current_sink()
        if sink is None:
            self.is_done = True
            return
        if self._started_sink is not sink:
            await sink.begin(self.run)
            self._started_sink = sink
        await sink.push_outputs(self.run)
        if not ends:
            return
        self.run.end(self._count)
        # Whoever reads it while it is saved sees what is in memory.
        self.is_done = isinstance(sink, StoredSink)
        try:
            await sink.end(self.run, save=self._save)
        except ToolError:
            self.is_done = True
            raise
        self.is_done = True

    async def _current_sink(self) -> OutputSink | None:
        """The place that the notebook is in; None where the cell is gone from it."""
        if self.sink is not None and not self._reopen:
            if await self.document.is_current(self.sink):
                return self.sink
            self._reopen = True
        if self._reopen and self._session.reopen is not None:
            self._reopen = False
            try:
                self.document = await self._session.reopen(self.path)
            except ToolError as error:
                self.warn(error)
        if self.sink is not None:
            if await self.document.is_current(self.sink):
                return self.sink
            await self._release()
        try:
            located = await self.document.locate(self.run.find)
        except CellNotFound:
            return None
        if located.cell is not None:
            self.run.relocate(located.cell, located.count)
        self.sink = located.sink
        return self.sink

    async def _release(self) -> None:
        """Leave the place; what was being pushed counts as pushed, and the next place gets all."""
        self.run.commit_pending()
        sink, self.sink, self._started_sink = self.sink, None, None
        if sink is not None:
            await sink.release(self.run, done=self.is_done)
