"""The documents of notebooks: where the cells are, and the outputs of running cells on their way there.

A notebook is in one place at a time: a file, a contents manager, or a browser tab. `stored` and `live` have
the documents of these places. A running cell's outputs are pushed to the place's `OutputSink`; when a tab
opens or closes, the cell is located in the new place, and all outputs are pushed there again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TypeVar

from tk_ai_extension.model.background import run_to_completion
from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.model.errors import (
    CellNotFound,
    InvalidNotebook,
    OpenTwice,
    SaveFailed,
    TabOffline,
    ToolError,
)
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.operations import Applied, Insert, Operation
from tk_ai_extension.model.outputs import OutputChange
from tk_ai_extension.notebooks.cellforms import new_cell_id
from tk_ai_extension.notebooks.notebook import Notebook
from tk_ai_extension.notebooks.outputs import (
    Find,
    OutputSink,
    RunningCell,
    RunningOutputs,
    Schedule,
    StoredOutputSink,
    merged,
)
from tk_ai_extension.notebooks.pages import TabGone
from tk_ai_extension.notebooks.transactions import LoadedNotebook

_log = logging.getLogger(__name__)

PUSH_INTERVAL = 0.05
"""Minimum seconds between two pushes of outputs to a sink."""

_MAX_MOVES = 3
"""How often one push may switch to another sink."""

T = TypeVar("T")


class NotebookDocument(ABC):
    """A notebook, opened by `NotebookRouter.open`; cheap to open, and needs no closing.

    No method blocks the event loop for long. Writes through two documents of one path in a server are
    serialized.

    Args:
        notebook: The notebook.

    Attributes:
        notebook: The notebook.
        tries: How often an edit is retried on a notebook that others keep changing.
    """

    tries = 5

    def __init__(self, notebook: Notebook) -> None:
        self.notebook = notebook

    @property
    def path(self) -> str:
        """The path relative to the root, with forward slashes; it changes when the notebook is renamed."""
        return self.notebook.path

    @property
    @abstractmethod
    def backend(self) -> str:
        """``file``, ``tab`` or ``contents``."""

    # --- for callers

    @abstractmethod
    async def read(self) -> Snapshot:
        """Return a snapshot of the notebook, without outputs.

        Raises:
            NotebookNotFound, InvalidArguments, InvalidNotebook.
        """

    async def outputs(self, cell: str) -> tuple[Json, ...]:
        """Return the outputs of the cell with this key, as nbformat dicts.

        Raises:
            CellNotFound.
        """
        return await self.pull(
            lambda pulled: pulled.content(cell_of(pulled.snapshot, cell).index).outputs
        )

    async def raw(self) -> Json:
        """Return the whole notebook as JSON with outputs, in the form of `nbformat` 4."""
        return await self.pull(lambda pulled: pulled.raw())

    async def apply(self, operations: Sequence[Operation]) -> Applied:
        """Apply operations in order as one transaction, save, and return the result.

        They are applied to completion, even if the caller is cancelled.

        Raises:
            Conflict: an ``expect`` does not match; nothing was changed.
            CellNotFound, InvalidArguments: a cell or an index does not exist; nothing was changed.
            InvalidNotebook, ReadOnly, DiskFull, SaveFailed, OpenTwice, TabOffline: nothing was changed.
        """
        return await run_to_completion(self._commit(operations))

    async def _commit(self, operations: Sequence[Operation]) -> Applied:
        # A tab that was lost with the edit may come back after it was made in the file: one cell, one id.
        operations = [
            replace(each, content=replace(each.content, id=new_cell_id()))
            if isinstance(each, Insert) and not each.content.id
            else each
            for each in operations
        ]
        for number in range(self.tries):
            if (applied := await self.attempt(operations, number)) is not None:
                return applied
        raise SaveFailed(f"{self.path} cannot be changed: others keep changing it.")

    @asynccontextmanager
    async def writing(self, cell: str) -> AsyncGenerator[CellOutputWriter]:
        """Return a writer for the outputs of a cell that is about to run.

        Raises (on entering):
            CellNotFound, InvalidNotebook.
        """
        located = await self.locate(lambda snapshot: runnable(snapshot, cell))
        writer = CellOutputWriter(self, located)
        self.notebook.writers.append(writer)
        try:
            yield writer
        finally:
            try:
                await writer.finish(None)
            finally:
                await writer.detach()

    async def flush(self) -> None:
        """Flush the outputs of cells that ended without a save; a file is saved when this returns.

        Raises:
            ReadOnly, DiskFull, SaveFailed, NotebookNotFound.
        """
        if self.notebook.saver is not None:
            await self.notebook.saver.save()

    # --- the place where the notebook is

    @abstractmethod
    async def pull(self, look: Callable[[LoadedNotebook], T]) -> T:
        """Return the result of ``look`` for the current notebook with the outputs of running cells.

        ``look`` may be called more than once, and in a thread.

        Raises:
            NotebookNotFound, InvalidArguments, InvalidNotebook, TabOffline, OpenTwice.
        """

    @abstractmethod
    async def attempt(self, operations: Sequence[Operation], number: int) -> Applied | None:
        """Try to apply operations; return None if others changed the notebook meanwhile.

        Args:
            operations: Operations on the current notebook.
            number: The number of earlier attempts.
        """

    @abstractmethod
    async def locate(self, find: Find) -> RunningCell:
        """Return the cell that runs or is about to run, and the sink where the notebook is now.

        Raises:
            What ``find`` raises, TabOffline, OpenTwice, TabGone.
        """

    @abstractmethod
    async def is_current(self, sink: OutputSink) -> bool:
        """Return whether a sink is still where the notebook is.

        Raises:
            TabOffline, OpenTwice.
        """


def runnable(snapshot: Snapshot, key: str) -> Cell:
    """Return the code cell with this key in a notebook that can be written.

    Raises:
        CellNotFound, InvalidNotebook.
    """
    if snapshot.nbformat[0] != 4:
        raise InvalidNotebook(
            f"{snapshot.path} has the old nbformat {snapshot.nbformat[0]}.",
            hint="Convert it first: jupyter nbconvert --to notebook --nbformat 4 FILE.",
        )
    cell = cell_of(snapshot, key)
    if cell.type != "code":
        raise CellNotFound(f"`{key}` in {snapshot.path} is a {cell.type} cell and cannot run.")
    return cell


def cell_of(snapshot: Snapshot, key: str) -> Cell:
    """Return the cell with this key.

    Raises:
        CellNotFound.
    """
    cell = snapshot.by_key.get(key)
    if cell is None:
        raise CellNotFound(f"No cell `{key}` in {snapshot.path}.")
    return cell


class CellOutputWriter:
    """Writes the outputs of one running cell to its notebook's current sink.

    For use by one task. Others may move, edit or delete the cell meanwhile: outputs follow the cell by
    its key and are dropped once it is deleted. Before `start` nothing is changed.

    All outputs stay in memory until the cell has ended and they are delivered. A new sink, or one that
    was lost and returns, gets all of them; if others changed the outputs meanwhile, it gets only later
    ones.

    Args:
        document: The document that was opened for the cell.
        located: The cell and its sink.

    Attributes:
        cell: The cell as it was found. Execute its source: the outputs go to this cell.
    """

    def __init__(self, document: NotebookDocument, located: RunningCell) -> None:
        assert located.cell is not None
        self.finished = False
        self.is_done = False
        self.cell = located.cell
        self.run = RunningOutputs(located.cell, located.count)
        self.sink: OutputSink | None = located.sink
        self.document = document
        self._notebook = document.notebook
        self._waiting: list[OutputChange] = []
        self._lock = asyncio.Lock()
        self._is_started = False
        self._started_sink: OutputSink | None = None
        self._count: int | None = None
        self._save = True
        self._is_detached = False
        tasks = self._notebook.tasks
        self._schedule = Schedule(self._push, f"outputs of {document.path}", tasks)

    async def start(self) -> None:
        """Clear the cell's outputs and count, and mark it as running if the document can."""
        self._is_started = True
        await self.deliver()

    async def write(self, changes: Sequence[OutputChange]) -> None:
        """Apply changes to the cell's outputs; they are on disk within `SAVE_INTERVAL` seconds.

        Returns without waiting, so that the executor's events are read without delay. The cost is
        linear in the changes, independent of the outputs so far.
        """
        in_order = self._started_sink is not None and not self._waiting and not self._lock.locked()
        if in_order and self.sink is not None and self.sink.accept(self.run, changes):
            return
        self._waiting += changes
        self._schedule.request()

    async def finish(self, execution_count: int | None, *, save: bool = True) -> None:
        """Set the count, mark the cell as idle, and save; also called after an error.

        A file is saved when this returns, a tab within a second. Without ``save`` a file is autosaved
        as during the run; for one of several cells, with a `flush` after the last one.

        Args:
            execution_count: The kernel's count, None if the cell did not run.
            save: Whether to save now.

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
            with suppress(ValueError):  # It was detached before.
                self._notebook.writers.remove(self)
        else:
            self._schedule.request()

    def wake(self) -> None:
        """Push soon, after locating the cell again."""
        self._schedule.request()

    def warn(self, error: ToolError) -> None:
        """Log that outputs could not be pushed; they stay in memory."""
        _log.warning("Outputs of a running cell of %s: %s", self.document.path, error.message)

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
                raise TabOffline(f"The tab with {self.document.path} keeps disconnecting.")

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
