"""Writes the outputs of a running cell to the sink where its notebook is."""

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
from tk_ai_extension.notebooks.pages import TabGone
from tk_ai_extension.notebooks.running_outputs import RunningOutputs, merged

if TYPE_CHECKING:
    from tk_ai_extension.notebooks.session import NotebookSession, SessionDocument

_log = logging.getLogger(__name__)

PUSH_INTERVAL = 0.05
"""Minimum seconds between two pushes of outputs to a sink."""

_MAX_MOVES = 3
"""How often one push may switch to another sink."""

Find = Callable[[Snapshot], Cell | None]
"""Finds the running cell in a notebook; returns None if it is gone."""


class OutputSink(ABC):
    """Receives the outputs of one running cell, where its notebook is now.

    Attributes:
        share: A slow push delays the next one by this multiple of its duration.
    """

    share: ClassVar[float] = 1.0

    def accept(self, run: RunningOutputs, changes: Sequence[OutputChange]) -> bool:  # noqa: ARG002
        """Take changes at once if that is cheap; return False if they must be pushed."""
        return False

    @abstractmethod
    async def begin(self, run: RunningOutputs) -> None:
        """Clear the cell's outputs and count, and mark it as running.

        Raises:
            TabGone, ToolError.
        """

    @abstractmethod
    async def push_outputs(self, run: RunningOutputs) -> None:
        """Push `RunningOutputs.pending`, or all outputs if this sink lacks the earlier ones.

        Raises:
            TabGone, ToolError.
        """

    @abstractmethod
    async def end(self, run: RunningOutputs, *, save: bool) -> None:
        """Set the count, mark the cell as idle, and save; a stored notebook is saved on return.

        Raises:
            TabGone, ToolError.
        """

    async def release(self, run: RunningOutputs, *, done: bool) -> None:  # noqa: B027 - a tab holds nothing
        """Release resources; unless ``done``, another sink takes the outputs over."""


class StoredOutputSink(OutputSink):
    """The sink of a stored notebook: outputs are read from memory, autosaved, and saved at the end.

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
        # If a cell runs twice at once, the later run wins.
        runs[:] = [other for other in runs if not other.is_same_cell(run)]
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
            await self._saver.save(run)
        else:
            self._saver.save_soon()

    async def release(self, run: RunningOutputs, *, done: bool) -> None:
        """See `OutputSink`."""
        if not done and run in self._saver.runs:
            self._saver.runs.remove(run)
        self._saver.release()


@dataclass(frozen=True, slots=True)
class RunningCell:
    """A running cell, located where its notebook is.

    Attributes:
        cell: The cell; None if it is gone.
        count: The number of the notebook's cells.
        sink: Receives its outputs.
    """

    cell: Cell | None
    count: int
    sink: OutputSink


class CellOutputWriter:
    """Writes the outputs of one running cell to its notebook's current sink; see `OutputWriter`.

    All outputs stay in memory until the cell has ended and they are delivered. A new sink, or one that
    was lost and returns, gets all of them; if others changed the outputs meanwhile, it gets only later
    ones.

    Args:
        session: The notebook's session.
        document: The document that was opened for the cell.
        located: The cell and its sink.

    Attributes:
        document: The document that locates the cell.
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
        """See `OutputWriter.finish`; a tab is saved within a second, not waited for.

        Raises:
            TabOffline, OpenTwice: the outputs are not in the notebook until its tab is back.
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
        """Detach from the sink; undelivered outputs stay in memory."""
        self._is_detached = True
        await self._release()
        if self.is_done:
            self._schedule.cancel()
            self._session.remove(self)
        else:
            self._schedule.request()

    def wake(self) -> None:
        """Push soon, after locating the cell again."""
        self._reopen = True
        self._schedule.request()

    def warn(self, error: ToolError) -> None:
        """Log that outputs could not be pushed; they stay in memory."""
        _log.warning("Outputs of a running cell of %s: %s", self.path, error.message)

    async def _push(self) -> None:
        started = time.monotonic()
        try:
            await self.deliver()
        except ToolError as error:
            self.warn(error)
        share = self.sink.share if self.sink is not None else 1.0
        self._schedule.postpone(max(PUSH_INTERVAL, share * (time.monotonic() - started)))

    async def deliver(self, *, last: bool = False) -> None:
        """Push the pending outputs; keep them if that fails.

        Args:
            last: Whether to raise an error if they cannot be pushed.
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
                except (Exception, asyncio.CancelledError) as error:
                    # The outcome is unknown: push all outputs again, to this sink or another one.
                    if not self.is_done:
                        await self._release()
                        self.is_done = last and isinstance(error, Exception)
                    raise
            if last:
                raise TabOffline(f"The tab with {self.path} keeps disconnecting.")

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
        # Reads during the save return the outputs in memory.
        self.is_done = isinstance(sink, StoredOutputSink)
        await sink.end(self.run, save=self._save)
        self.is_done = True

    async def _current_sink(self) -> OutputSink | None:
        """Return the sink where the notebook is now; None if the cell is gone."""
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
        """Release the sink; pending outputs count as pushed, and the next sink gets all."""
        self.run.commit_pending()
        sink, self.sink, self._started_sink = self.sink, None, None
        if sink is not None:
            await sink.release(self.run, done=self.is_done)
