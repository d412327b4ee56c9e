"""One open notebook in one server: its write lock, its running cells, and where their outputs go.

A notebook is in one place at a time: a file, a contents manager, or a browser tab.
The session outlives a change of place. A running cell's outputs are pushed to the place's `OutputSink`;
when a tab opens or closes, the session locates the cell in the new place and pushes all outputs
there again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar, cast

from tk_ai_extension.model.background import BackgroundTasks, run_to_completion
from tk_ai_extension.model.cells import Cell, CellContent, Snapshot
from tk_ai_extension.model.errors import (
    CellNotFound,
    InvalidNotebook,
    OpenTwice,
    SaveFailed,
    TabOffline,
    ToolError,
)
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.large_notebooks import prepared
from tk_ai_extension.model.operations import Applied, Operation
from tk_ai_extension.model.outputs import OutputChange
from tk_ai_extension.notebooks import cellforms
from tk_ai_extension.notebooks.autosave import OutputSaver, Schedule
from tk_ai_extension.notebooks.base import OutputWriter
from tk_ai_extension.notebooks.output_sinks import (
    Find,
    OutputSink,
    RunningCell,
    StoredOutputSink,
)
from tk_ai_extension.notebooks.pages import TabGone
from tk_ai_extension.notebooks.running_outputs import RunningOutputs, merged
from tk_ai_extension.notebooks.transactions import EditTransaction

_log = logging.getLogger(__name__)

PUSH_INTERVAL = 0.05
"""Minimum seconds between two pushes of outputs to a sink."""

_MAX_MOVES = 3
"""How often one push may switch to another sink."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LoadedNotebook:
    """A notebook at one revision, loaded from the place where it is.

    Attributes:
        snapshot: Its cells without outputs.
        content: Loads the whole cell at an index.
        raw: Loads the whole notebook as JSON.
        as_lines: Whether its texts are stored as lists of lines.
    """

    snapshot: Snapshot
    content: Callable[[int], CellContent]
    raw: Callable[[], Json]
    as_lines: bool = False

    def edited(self, operations: Sequence[Operation]) -> EditTransaction:
        """Return the edit that operations make of it.

        Raises:
            Conflict, CellNotFound, InvalidArguments, InvalidNotebook.
        """
        edit = EditTransaction(self.snapshot, self.content)
        edit.apply(operations)
        return edit


class SessionDocument(ABC):
    """A `NotebookDocument` of a session: an adapter to the place where the notebook is.

    An adapter loads the notebook (`pull`), tries an edit (`attempt`) and locates a running cell
    (`locate`). Everything that is common to all places is here.

    Args:
        session: The notebook's session, shared by all its documents.

    Attributes:
        kind: ``file`` or ``contents``.
        tries: How often an edit is retried on a notebook that others keep changing.
    """

    kind: ClassVar[str] = ""
    tries: ClassVar[int] = 5

    def __init__(self, session: NotebookSession) -> None:
        self.session = session

    @property
    @abstractmethod
    def path(self) -> str:
        """See `NotebookDocument.path`; it changes when a person renames the notebook."""

    @property
    def backend(self) -> str:
        """See `NotebookDocument.backend`."""
        return self.kind

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

    async def read(self) -> Snapshot:
        """See `NotebookDocument.read`."""
        return await self.pull(lambda pulled: pulled.snapshot)

    async def outputs(self, cell: str) -> tuple[Json, ...]:
        """See `NotebookDocument.outputs`."""
        return await self.pull(
            lambda pulled: pulled.content(cell_of(pulled.snapshot, cell).index).outputs
        )

    async def raw(self) -> Json:
        """See `NotebookDocument.raw`."""
        return await self.pull(lambda pulled: pulled.raw())

    async def commit(self, operations: Sequence[Operation]) -> Applied:
        """Apply operations, to completion even if the caller of `apply` is cancelled."""
        for number in range(self.tries):
            if (applied := await self.attempt(operations, number)) is not None:
                return applied
        raise SaveFailed(f"{self.path} cannot be changed: others keep changing it.")

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

    async def apply(self, operations: Sequence[Operation]) -> Applied:
        """See `NotebookDocument.apply`.

        Raises:
            OpenTwice, TabOffline: nothing was changed.
            OutcomeUnknown: the tab was lost during the change.
        """
        return await run_to_completion(self.commit(operations))

    def writing(self, cell: str) -> AbstractAsyncContextManager[OutputWriter]:
        """See `NotebookDocument.writing`.

        Raises:
            As `apply`.
        """
        return self.session.writing(self, cell)

    async def flush(self) -> None:
        """See `NotebookDocument.flush`."""
        if self.session.saver is not None:
            await self.session.saver.save()


class StoredDocument(SessionDocument):
    """A stored notebook, used while it is not open in a tab: a file, or a contents manager's."""

    async def refresh_tabs(self) -> None:
        """Have tabs that opened the notebook while it was written read it again: call this afterwards."""
        if self.session.refresh is not None:
            await self.session.refresh(self.path)

    @abstractmethod
    async def stored(self) -> Snapshot:
        """Return the notebook as it was saved, without the outputs of running cells."""

    @abstractmethod
    async def save_outputs(self, runs: Sequence[RunningOutputs]) -> None:
        """Save the outputs of cells that are running or have just ended; see `OutputSaver`."""

    async def read(self) -> Snapshot:
        """See `NotebookDocument.read`; an unchanged file is not opened."""
        return await prepared(self.session.shown(await self.stored()))

    async def locate(self, find: Find) -> RunningCell:
        """See `SessionDocument.locate`."""
        snapshot = await self.stored()
        if (cell := find(snapshot)) is None:
            raise CellNotFound(f"A running cell of {snapshot.path} was deleted.")
        return RunningCell(cell, len(snapshot.cells), self.session.stored_sink(self))

    def check_writable(self) -> None:
        """Raise the error of a save if it is known beforehand.

        Raises:
            ReadOnly.
        """

    async def is_current(self, sink: OutputSink) -> bool:
        """See `SessionDocument.is_current`."""
        return isinstance(sink, StoredOutputSink)


class NotebookSession:
    """A server's state of one open notebook, wherever it is.

    Attributes:
        lock: Held while the stored notebook is written.
        runs: The cells whose outputs are in memory and are saved with the stored notebook: running
            ones, and ended ones that are not saved yet.
        saver: Saves them; None if there are none.
        writers: The writers of running cells, and of ended ones with undelivered outputs.
        reopen: Opens the document that holds a path now.
        refresh: Has tabs with the notebook at a path read its file; None if tabs hold no notebooks.
        active: The server's sessions with writers, to keep them alive.
    """

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.runs: list[RunningOutputs] = []
        self.saver: OutputSaver | None = None
        self.writers: list[CellOutputWriter] = []
        self.reopen: Callable[[str], Awaitable[SessionDocument]] | None = None
        self.refresh: Callable[[str], Awaitable[None]] | None = None
        self.active: set[NotebookSession] | None = None
        self.tasks = BackgroundTasks(_log)

    # --- the stored notebook with the outputs in memory

    def running_cells(self, snapshot: Snapshot) -> list[tuple[RunningOutputs, Cell]]:
        """Return the outputs in memory, each with its cell in the stored notebook."""
        found = [(run, run.find(snapshot)) for run in self.runs]
        return [(run, cell) for run, cell in found if cell is not None]

    def shown(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot with the outputs of running cells so far."""
        running = self.running_cells(snapshot)
        if not running:
            return snapshot
        cells = list(snapshot.cells)
        for run, cell in running:
            cells[cell.index] = run.shown(cell)
        return replace(snapshot, cells=tuple(cells))

    def with_runs(self, kept: LoadedNotebook) -> LoadedNotebook:
        """Return the stored notebook with the outputs of running cells so far."""
        running = {cell.index: run for run, cell in self.running_cells(kept.snapshot)}
        if not running or kept.snapshot.nbformat[0] != 4:
            return kept

        def content(index: int) -> CellContent:
            loaded, run = kept.content(index), running.get(index)
            if run is None:
                return loaded
            return replace(loaded, outputs=run.outputs(), execution_count=run.execution_count)

        def raw() -> Json:
            notebook = kept.raw()
            cells = cast("list[Any]", notebook["cells"])
            for index, run in running.items():
                outputs = cellforms.stored_outputs(run.outputs(), as_lines=kept.as_lines)
                more = {"outputs": outputs, "execution_count": run.execution_count}
                cells[index] = {**cells[index], **more}
            return notebook

        return LoadedNotebook(self.shown(kept.snapshot), content, raw)

    def stored_sink(self, document: StoredDocument) -> StoredOutputSink:
        """Return the sink for a running cell of the stored notebook."""
        if self.saver is None:

            def on_idle() -> None:
                self.saver = None

            self.saver = OutputSaver(
                document.path,
                self.runs,
                document.save_outputs,
                refresh=document.refresh_tabs,
                on_idle=on_idle,
            )
        return StoredOutputSink(self.saver)

    # --- running cells

    @asynccontextmanager
    async def writing(
        self, document: SessionDocument, cell: str
    ) -> AsyncGenerator[CellOutputWriter]:
        """See `NotebookDocument.writing`."""
        located = await document.locate(lambda snapshot: runnable(snapshot, cell))
        writer = CellOutputWriter(self, document, located)
        self.writers.append(writer)
        if self.active is not None:
            self.active.add(self)
        try:
            yield writer
        finally:
            try:
                await writer.finish(None)
            finally:
                await writer.detach()

    @property
    def path(self) -> str | None:
        """The notebook's current path while cells of it run, else None."""
        return self.writers[0].path if self.writers else None

    def remove(self, writer: CellOutputWriter) -> None:
        """Remove the writer of a cell that has ended and whose outputs are delivered."""
        if writer in self.writers:
            self.writers.remove(writer)
        if not self.writers and self.active is not None:
            self.active.discard(self)

    async def deliver(self, document: SessionDocument) -> None:
        """Deliver the outputs of all running cells to a document before it is read."""
        for writer in tuple(self.writers):
            writer.document = document
            try:
                await writer.deliver()
            except ToolError as error:
                writer.warn(error)

    def moved(self) -> None:
        """Have running cells located again: a tab has opened."""
        for writer in self.writers:
            writer.wake()

    async def close(self) -> None:
        """Cancel the tasks of the session."""
        await self.tasks.close()


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
