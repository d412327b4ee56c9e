"""The outputs of running cells: kept in memory, and pushed to the place of their notebook.

`RunningCellOutputs` has the outputs of one cell. An `OutputSink` receives them: a browser tab, or a stored
notebook; an `OutputSaver` saves those of all its running cells.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Protocol

from tk_ai_extension.model.background_tasks import BackgroundTasks, run_to_completion
from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.model.errors import (
    CellNotFound,
    ConflictingTabs,
    InvalidNotebook,
    NotebookNotFound,
    ReadOnly,
    TabOffline,
    ToolError,
)
from tk_ai_extension.model.json_values import Json, encodable, encodable_text
from tk_ai_extension.model.output_changes import (
    AppendOutput,
    ClearOutputs,
    OutputBuffer,
    OutputChange,
    ReplaceOutput,
    StreamEdit,
    summarise,
)
from tk_ai_extension.notebooks.computed_edit import ComputedEdit

_log = logging.getLogger(__name__)

SAVE_INTERVAL = 2.0
"""Seconds within which the outputs of a running cell are on disk.

If a save itself is slow (a large file, a slow disk) it takes longer: the next save waits ten times the
duration of the last one, up to a minute.
"""

SAVE_DELAY = SAVE_INTERVAL / 2
"""Seconds from an output to its save; the other half of `SAVE_INTERVAL` is for the save itself."""

SAVE_SHARE = 10
"""A slow save delays the next one by this multiple of its duration.

Each save writes the whole file: without a delay, a cell that prints constantly would keep the disk busy.
"""

MAX_DELAY = 60.0
"""Maximum seconds by which a slow or failed save delays the next one."""

LASTING = (NotebookNotFound, ReadOnly, InvalidNotebook)
"""Errors that later saves would have as well, until the cause is removed."""

MAX_RETRY = 600.0
"""Seconds of failed saves after which the outputs of ended cells are given up, once no cell runs.

Their callers have received the error by then, at the end of the cell or of the run of several cells.
"""

PUSH_INTERVAL = 0.05
"""Seconds from an output to its push to a sink, with the outputs that follow until then."""

_MAX_MOVES = 3
"""How often one push may switch to another sink."""

Mark = tuple[int, int, int]
"""Number of clears, number of outputs, and characters of the last output if it is a stream."""


class RunningCellOutputs:
    """The outputs of one running cell, as an executor reports them.

    Attributes:
        pending: Changes that are being pushed to the sink and are not applied to the outputs yet.
        ended: Whether the cell has ended; its outputs are not saved yet.
        execution_count: Its count once it has ended.
        is_late: Whether a save since its end has failed. Another program may since have changed and run
            the cell: the outputs are only for the source that ran here.
    """

    def __init__(self, snapshot: Snapshot, cell: Cell) -> None:
        self.pending: list[OutputChange] = []
        self.ended = False
        self.is_late = False
        self.execution_count: int | None = None
        self._version = 0
        self._shown: tuple[Cell, int, Cell] | None = None
        # Written on the event loop, read in the threads that save.
        self._lock = Lock()
        self._id: str | None = None
        self.relocate(snapshot, cell)
        self._outputs = OutputBuffer()
        self._clears = 0
        self._hidden = 0
        self._hidden_text = 0

    def write(self, changes: Iterable[OutputChange]) -> None:
        """Apply changes; the cost is independent of the outputs so far."""
        with self._lock:
            self._version += 1
            for change in changes:
                self._outputs.apply(change)
                if isinstance(change, ClearOutputs):
                    self._clears += 1
                    self._hidden = self._hidden_text = 0

    def commit_pending(self) -> list[tuple[OutputChange, str]]:
        """Apply the pending changes.

        Returns:
            Each change, with the text that it removes from the end of a stream.
        """
        pending, self.pending = self.pending, []
        taken: list[tuple[OutputChange, str]] = []
        for change in pending:
            gone = ""
            if isinstance(change, StreamEdit) and (text := self._outputs.stream(change.index)):
                gone = text.since(change.start)
            taken.append((change, gone))
            self.write((change,))
        return taken

    def end(self, execution_count: int | None) -> None:
        """Note that the cell has ended."""
        self.ended, self.execution_count = True, execution_count
        self._version += 1

    def mark(self) -> Mark:
        """Return the current position in the outputs, for `hide`."""
        last = self._outputs.stream(len(self._outputs) - 1) if self._outputs else None
        return self._clears, len(self._outputs), 0 if last is None else len(last)

    def hide(self, until: Mark | None = None) -> None:
        """Hide the outputs so far, because the running cell was cleared.

        They are kept, because the executor continues to count from the first output.

        Args:
            until: Hide outputs up to this mark, unless the cell itself has cleared them since.
        """
        with self._lock:
            clears, outputs, characters = until or self.mark()
            self.execution_count = None
            self._version += 1
            if clears == self._clears:
                self._hidden, self._hidden_text = outputs, characters

    @property
    def is_hidden(self) -> bool:
        """Whether some outputs are hidden."""
        return self._hidden > 0

    def outputs(self) -> tuple[Json, ...]:
        """Return the visible outputs so far."""
        return tuple(output for _, output in self.numbered())

    def numbered(self) -> list[tuple[int, Json]]:
        """Return the visible outputs so far, each with the executor's index."""
        with self._lock:
            shown: list[tuple[int, Json]] = []
            last = self._outputs.stream(self._hidden - 1) if self._hidden else None
            if last is not None and len(last) > self._hidden_text:
                at = self._hidden - 1
                shown.append((at, {**self._outputs[at], "text": last.since(self._hidden_text)}))
            shown += enumerate(self._outputs[self._hidden :], self._hidden)
            return shown

    def shown(self, cell: Cell) -> Cell:
        """Return a cell with these outputs."""
        known, version = self._shown, self._version
        if known is not None and known[0] is cell and known[1] == version:
            return known[2]
        outputs = summarise(self.outputs())
        new = replace(cell, execution_count=self.execution_count, outputs=outputs)
        self._shown = (cell, version, new)
        return new

    # --- which cell it is

    def is_same_cell(self, other: RunningCellOutputs) -> bool:
        """Return whether another run is of the same cell, by their last known locations."""
        return self._identity() == other._identity()

    def _identity(self) -> tuple[str | None, int, str]:
        return (None, self._index, self._hash) if self._id is None else (self._id, 0, "")

    def find(self, snapshot: Snapshot) -> Cell | None:
        """Return the running cell in a notebook; None if it is gone or no longer a code cell.

        A cell that had a unique id is identified by it, even if other cells now have the same. Only one that
        never had one is identified by its source and position: others may have moved it.
        """
        found = self._by_source(snapshot) if self._id is None else self._by_id(self._id, snapshot)
        if found is None or found.type != "code" or (self.is_late and found.hash != self._hash):
            return None
        return found

    def _by_id(self, cell_id: str, snapshot: Snapshot) -> Cell | None:
        found = snapshot.get(cell_id)
        if found is not None and found.id == cell_id:
            return found
        # Others have duplicated the id or, if it is ``cell-N``, added a cell without a unique id.
        named = (cell for cell in snapshot.cells if cell.id == cell_id)
        return max(named, key=lambda cell: cell.hash == self._hash, default=None)

    def _by_source(self, snapshot: Snapshot) -> Cell | None:
        cells = snapshot.cells
        here = cells[self._index] if self._index < len(cells) else None
        if here is not None and here.hash == self._hash:
            return here
        alike = [cell for cell in cells if cell.hash == self._hash and cell.type == "code"]
        if len(alike) == 1:
            return alike[0]
        return here if len(cells) == self._cells else None

    def relocate(self, snapshot: Snapshot, cell: Cell) -> None:
        """Note the cell's position and source, and its id if it is unique, after an edit."""
        if not cell.is_numbered:
            self._id = cell.id
        self._index, self._hash = snapshot.index(cell), cell.hash
        self._cells = len(snapshot.cells)


def relocate_runs(
    edit: ComputedEdit, running: Sequence[tuple[RunningCellOutputs, int]], after: Snapshot
) -> None:
    """Update running cells after an edit: their keys, and whether their outputs were cleared.

    Args:
        edit: The committed edit.
        running: The running cells' outputs, each with the index of its cell before the edit.
        after: The notebook afterwards.
    """
    cleared = {
        slot
        for slot, change in zip(edit.slots, edit.changes, strict=True)
        if change.before and change.after and change.before.outputs and not change.after.outputs
    }
    for outputs, slot in running:
        if slot in cleared:
            outputs.hide()
        # A save hook may have added or removed cells: then the run is found by its id or source.
        if slot in edit.order and len(after.cells) == len(edit.order):
            outputs.relocate(after, after.cells[edit.order.index(slot)])


def merged(changes: Sequence[OutputChange]) -> list[OutputChange]:
    """Return the changes as sinks take them: valid Unicode, consecutive stream edits coalesced."""
    done: list[OutputChange] = []
    parts: list[str] = []
    index = start = end = -1

    def close() -> None:
        if parts:
            done.append(StreamEdit(index, start, encodable_text("".join(parts))))
            parts.clear()

    for change in changes:
        match change:
            case StreamEdit(at, since, new):
                if not parts or (at, since) != (index, end):
                    close()
                    index, start = at, since
                parts.append(new)
                end = since + len(new)
            case AppendOutput(output):
                close()
                done.append(AppendOutput(encodable(output)))
            case ReplaceOutput(at, output):
                close()
                done.append(ReplaceOutput(at, encodable(output)))
            case ClearOutputs():
                close()
                done.append(change)
    close()
    return done


class Throttle:
    """Throttles an action: calls it a delay after a request, and coalesces requests until then.

    A further request does not postpone the call, and calls never overlap.

    Args:
        action: Called in its own task.
        name: The task's name.
        tasks: Owns the tasks.
        delay: Seconds from a request to the call.

    Attributes:
        delay: See above; it may be changed.
    """

    def __init__(
        self,
        action: Callable[[], Coroutine[Any, Any, None]],
        name: str,
        tasks: BackgroundTasks,
        *,
        delay: float = 0.0,
    ) -> None:
        self.delay = delay
        self._action = action
        self._name = name
        self._tasks = tasks
        self._due: asyncio.TimerHandle | None = None
        self._earliest = 0.0
        self._is_running = False
        self._again = False

    def request(self) -> None:
        """Call the action after the delay, or later if it was postponed."""
        if self._is_running:
            self._again = True
        elif self._due is None:
            wait = max(self.delay, self._earliest - time.monotonic())
            self._due = asyncio.get_running_loop().call_later(wait, self._start)

    def postpone(self, seconds: float) -> None:
        """Delay the next call until at least this many seconds from now."""
        self._earliest = time.monotonic() + seconds

    def cancel(self) -> None:
        """Cancel a call that has not begun."""
        self._again = False
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _start(self) -> None:
        self._due, self._is_running = None, True
        self._tasks.spawn(self._run(), self._name)

    async def _run(self) -> None:
        try:
            await self._action()
        finally:
            self._is_running = False
            if self._again:
                self._again = False
                self.request()


Save = Callable[[Sequence[RunningCellOutputs]], Coroutine[Any, Any, None]]
"""Saves the outputs and counts of cells that are running or have just ended."""


class OutputSaver:
    """Autosaves the outputs of running cells of one stored notebook, coalesced, and at their ends.

    It exists from the first running cell until everything is saved. Every failed save is retried later
    with the outputs of all cells: those of a cell that has ended are kept until they are saved, or until
    their caller gets a lasting error. Any exception is a failed save.

    Args:
        path: The notebook's path, for messages.
        runs: The cells that are running or not saved yet.
        save: Saves them.
        refresh: Has tabs that opened the notebook during a save read its file.
        on_idle: Called when no cell runs and everything is saved or given up.
    """

    def __init__(
        self,
        path: str,
        runs: list[RunningCellOutputs],
        save: Save,
        *,
        refresh: Callable[[], Coroutine[Any, Any, None]],
        on_idle: Callable[[], None],
    ) -> None:
        self.runs = runs
        self._path = path
        self._save = save
        self._refresh = refresh
        self._on_idle = on_idle
        self._users = 0
        self._failing_since: float | None = None
        self._lock = asyncio.Lock()
        self._tasks = BackgroundTasks(_log)
        self._schedule = Throttle(self._save_in_time, f"save {path}", self._tasks, delay=SAVE_DELAY)

    def acquire(self) -> None:
        """Add a running cell as a user."""
        self._users += 1

    def release(self) -> None:
        """Remove a user: its cell no longer runs here."""
        self._users -= 1
        self._check_idle()

    def save_soon(self) -> None:
        """Save within a second, or later if saves are slow."""
        self._schedule.request()

    async def save(self, run: RunningCellOutputs | None = None) -> None:
        """Save all outputs now; if that fails, save them again later.

        Args:
            run: The run of the caller that gets the error; it is given up if the error is a lasting one.
                None if the caller waits for all ended runs: they are given up if the file is gone.

        Raises:
            ReadOnly, DiskFull, SaveFailed, NotebookNotFound.
        """
        # Another notebook may get the name of one that is gone.
        final = (NotebookNotFound,) if run is None else LASTING
        await run_to_completion(self._save_all(run, final))

    async def _save_in_time(self) -> None:
        try:
            if await self._save_runs(None, ()):
                self._tasks.spawn(self._refresh(), f"refresh {self._path}")
        except ToolError as error:
            _log.warning("Outputs of cells of %s: %s", self._path, error.message)

    async def _save_all(
        self, asking: RunningCellOutputs | None, final: tuple[type[ToolError], ...]
    ) -> None:
        if await self._save_runs(asking, final):
            await self._refresh()

    async def _save_runs(
        self, asking: RunningCellOutputs | None, final: tuple[type[ToolError], ...]
    ) -> bool:
        """Save all outputs; return whether there were any."""
        async with self._lock:
            self._schedule.cancel()
            runs = tuple(self.runs)
            # A cell that ends during the save has unsaved outputs.
            ended = [run for run in runs if run.ended]
            gone: list[RunningCellOutputs] = []
            started = time.monotonic()
            try:
                if runs:
                    await self._save(runs)
                gone, self._failing_since = ended, None
                cost = time.monotonic() - started
                self._schedule.delay = min(max(SAVE_DELAY, SAVE_SHARE * cost), MAX_DELAY)
            except Exception as error:
                for run in ended:
                    run.is_late = True
                self._failing_since = self._failing_since or started
                is_over = time.monotonic() - self._failing_since >= MAX_RETRY
                if is_over and not self._users:
                    gone = ended
                elif isinstance(error, final):
                    gone = [run for run in ended if asking in (None, run)]
                self._schedule.delay = min(self._schedule.delay * 2, MAX_DELAY)
                self.save_soon()
                raise
            finally:
                self.runs[:] = [run for run in self.runs if run not in gone]
                self._check_idle()
        return bool(runs)

    def _check_idle(self) -> None:
        if not self._users and not self.runs:
            self._schedule.cancel()
            self._on_idle()


class SinkGone(Exception):
    """The sink is gone; it is unknown how much of the last push it received."""


Find = Callable[[Snapshot], Cell | None]
"""Finds the running cell in a notebook; returns None if it is gone."""


class OutputSink(ABC):
    """Receives the outputs of one running cell, at the present place of its notebook."""

    def accept(self, run: RunningCellOutputs, changes: Sequence[OutputChange]) -> bool:  # noqa: ARG002
        """Take changes at once if that is cheap; return False if they must be pushed."""
        return False

    @abstractmethod
    async def push(self, run: RunningCellOutputs, *, save: bool) -> None:
        """Push `RunningCellOutputs.pending`, or all outputs if this sink lacks the earlier ones.

        The first push clears the cell's outputs and count, and marks it as running. The push of a run that
        has ended sets the count and marks it as idle.

        Args:
            run: The outputs.
            save: Whether to save the outputs of a run that has ended: a stored notebook is saved on return.

        Raises:
            SinkGone, ToolError.
        """

    async def release(self, run: RunningCellOutputs, *, done: bool) -> None:  # noqa: B027 - a tab holds nothing
        """Release resources; unless ``done``, another sink takes over the outputs."""


class StoredOutputSink(OutputSink):
    """The sink of a stored notebook: outputs are read from memory, autosaved, and saved at the end.

    Args:
        saver: The notebook's.
    """

    def __init__(self, saver: OutputSaver) -> None:
        self._saver = saver
        self._has_begun = False
        saver.acquire()

    def accept(self, run: RunningCellOutputs, changes: Sequence[OutputChange]) -> bool:
        """See `OutputSink`."""
        if self._has_begun:
            run.write(changes)
            self._saver.save_soon()
        return self._has_begun

    async def push(self, run: RunningCellOutputs, *, save: bool) -> None:
        """See `OutputSink`."""
        runs = self._saver.runs
        if not self._has_begun:
            # If a cell runs twice at once, the later run wins.
            runs[:] = [other for other in runs if not other.is_same_cell(run)]
            runs.append(run)
            self._has_begun = True
        run.commit_pending()
        if run not in runs:
            return
        if run.ended and save:
            await self._saver.save(run)
        else:
            self._saver.save_soon()

    async def release(self, run: RunningCellOutputs, *, done: bool) -> None:
        """See `OutputSink`."""
        if not done and run in self._saver.runs:
            self._saver.runs.remove(run)
        self._saver.release()


@dataclass(frozen=True, slots=True)
class CellLocation:
    """A running cell, located where its notebook is.

    Attributes:
        snapshot: The notebook.
        cell: The cell; None if it is gone.
        sink: Receives its outputs.
    """

    snapshot: Snapshot
    cell: Cell | None
    sink: OutputSink


class CellLocator(Protocol):
    """A document, as the place of running cells; see `NotebookDocument`."""

    @property
    def path(self) -> str:
        """The notebook's present path."""
        ...

    async def locate(self, find: Find) -> CellLocation:
        """Return the running cell, and the sink where the notebook is now."""
        ...

    async def is_current(self, sink: OutputSink) -> bool:
        """Return whether a sink is still where the notebook is."""
        ...


class CellOutputWriter:
    """Writes the outputs of one running cell to its notebook's current sink.

    For use by one task. Others may move, edit or delete the running cell: outputs follow the cell by
    its key and are dropped once it is deleted. Before `start` nothing is changed.

    All outputs stay in memory until the cell has ended and they are delivered. A new sink, or one that
    was lost and returns, gets all of them; if others changed the outputs since, it gets only later
    ones.

    Args:
        document: The document that was opened for the cell.
        located: The cell and its sink.
        writers: The notebook's writers with undelivered outputs; it adds and removes itself.
        tasks: The group of the tasks that push.

    Attributes:
        cell: The cell as it was found. Execute its source: the outputs go to this cell.
        index: Its position then.
    """

    def __init__(
        self,
        document: CellLocator,
        located: CellLocation,
        writers: list[CellOutputWriter],
        tasks: BackgroundTasks,
    ) -> None:
        assert located.cell is not None
        self.finished = False
        self.is_done = False
        self.cell = located.cell
        self.index = located.snapshot.index(located.cell)
        self.run = RunningCellOutputs(located.snapshot, located.cell)
        self.sink: OutputSink | None = located.sink
        self.document = document
        self._writers = writers
        self._waiting: list[OutputChange] = []
        self._lock = asyncio.Lock()
        self._is_started = False
        self._count: int | None = None
        self._save = True
        self._is_detached = False
        self._schedule = Throttle(
            self._push, f"outputs of {document.path}", tasks, delay=PUSH_INTERVAL
        )
        writers.append(self)

    def start(self) -> None:
        """Clear the cell's outputs and count soon, and mark it as running if the document can.

        The outputs of a short run follow with the same push.
        """
        self._is_started = True
        self._schedule.request()

    async def write(self, changes: Sequence[OutputChange]) -> None:
        """Apply changes to the cell's outputs; they are on disk within `SAVE_INTERVAL` seconds.

        Returns without waiting, so that the executor's events are read without delay. The cost is
        linear in the changes, independent of the outputs so far.
        """
        in_order = not self._waiting and not self._lock.locked()
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
            TabOffline, ConflictingTabs: the outputs are not in the notebook until its tab is back.
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
                self._writers.remove(self)
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
        self._schedule.postpone(time.monotonic() - started)

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
                except SinkGone:
                    await self._release()
                except (TabOffline, ConflictingTabs):
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
        if ends:
            self.run.end(self._count)
            # Reads during the save return the outputs in memory.
            self.is_done = isinstance(sink, StoredOutputSink)
        await sink.push(self.run, save=self._save)
        self.is_done = ends

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
            self.run.relocate(located.snapshot, located.cell)
        self.sink = located.sink
        return self.sink

    async def _release(self) -> None:
        """Release the sink; pending outputs count as pushed, and the next sink gets all."""
        self.run.commit_pending()
        sink, self.sink = self.sink, None
        if sink is not None:
            await sink.release(self.run, done=self.is_done)
