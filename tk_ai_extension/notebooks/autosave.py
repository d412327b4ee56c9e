"""What documents that are saved as a whole have in common: outputs in memory between the saves."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from tk_ai_extension.model.background import run_to_completion
from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.model.errors import CellNotFound, ToolError, UnsupportedFormat
from tk_ai_extension.model.outputs import OutputChange
from tk_ai_extension.notebooks.base import SAVE_INTERVAL
from tk_ai_extension.notebooks.running import RunningOutputs

_log = logging.getLogger(__name__)

SAVE_DELAY = SAVE_INTERVAL / 2
"""Seconds from an output to its save: the other half is for the save itself."""

SAVE_SHARE = 10
"""A save that takes long puts the next one off by so many times its duration.

A large file is written whole for each save: a cell that prints all the time would keep the disk busy
with nothing else.
"""

MAX_DELAY = 60.0
"""Seconds to which a slow or a failing save puts the next one off, at most."""

T = TypeVar("T")

Save = Callable[[Sequence[RunningOutputs]], Coroutine[Any, Any, None]]
"""Saves the outputs and counts of cells that run or have just ended."""


class OutputSaver:
    """Brings what the cells of one notebook print into its file: soon, together, and at the end.

    It lives from the first writer until everything is saved.

    Args:
        path: The notebook's path, for messages.
        runs: The cells that run or are not saved yet.
        save: Saves them.
        changed: Called after each save.
        rested: Called when nothing runs and everything is saved, or cannot be.

    Attributes:
        delay: Seconds from an output to its save.
    """

    def __init__(
        self,
        path: str,
        runs: list[RunningOutputs],
        save: Save,
        changed: Callable[[], None],
        rested: Callable[[], None],
    ) -> None:
        self.runs = runs
        self._path = path
        self._save = save
        self._changed = changed
        self._rested = rested
        self._writers = 0
        self._due: asyncio.TimerHandle | None = None
        self._saving: asyncio.Task[None] | None = None
        self._one = asyncio.Lock()
        self.delay = SAVE_DELAY

    @asynccontextmanager
    async def writing(self, cell: Cell, count: int) -> AsyncGenerator[SavingOutputWriter]:
        """A writer for a cell, of a notebook with so many."""
        self._writers += 1
        writer = SavingOutputWriter(self, cell, count)
        try:
            yield writer
        finally:
            try:
                await writer.finish(None)
            finally:
                self._writers -= 1
                self._rest()

    def save_soon(self) -> None:
        """Has saved what there is, a second from now or, where saves are slow, later."""
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(self.delay, self._start)

    async def save(self) -> None:
        """Saves what there is; what has ended is let go of in any case.

        Raises:
            ReadOnly, DiskFull, SaveFailed, NotebookNotFound.
        """
        await run_to_completion(self._save_all(keep=False))

    def _start(self) -> None:
        self._saving = asyncio.create_task(self._save_in_time(), name=f"save {self._path}")

    async def _save_in_time(self) -> None:
        try:
            await self._save_all(keep=True)
        except ToolError as error:
            _log.warning("Outputs of a running cell of %s: %s", self._path, error.message)
            self.delay = min(self.delay * 2, MAX_DELAY)
            self.save_soon()

    async def _save_all(self, *, keep: bool) -> None:
        async with self._one:
            if self._due is not None:
                self._due.cancel()
                self._due = None
            runs = tuple(self.runs)
            # One that ends while this saves has its last outputs still to be saved.
            ended = [run for run in runs if run.ended]
            gone = [] if keep else ended
            started = time.monotonic()
            try:
                if runs:
                    await self._save(runs)
                gone = ended
                cost = time.monotonic() - started
                self.delay = min(max(SAVE_DELAY, SAVE_SHARE * cost), MAX_DELAY)
            finally:
                self.runs[:] = [run for run in self.runs if run not in gone]
                self._changed()
                self._rest()

    def _rest(self) -> None:
        if not self._writers and not self.runs:
            if self._due is not None:
                self._due.cancel()
                self._due = None
            self._rested()


class SavingOutputWriter:
    """Outputs of a running cell: in memory at once, in the file soon and at the end.

    Args:
        saver: The notebook's.
        cell: The cell; its outputs join those of the notebook when it starts.
        count: How many cells the notebook has.
    """

    def __init__(self, saver: OutputSaver, cell: Cell, count: int) -> None:
        self.finished = False
        self.cell = cell
        self._saver = saver
        self._running = RunningOutputs(cell, count)

    async def start(self) -> None:
        """See `OutputWriter.start`."""
        runs = self._saver.runs
        # A cell that runs twice at once: the later run is the one that counts.
        runs[:] = [run for run in runs if run.key != self._running.key]
        runs.append(self._running)
        self._saver.save_soon()

    async def write(self, changes: Sequence[OutputChange]) -> None:
        """See `OutputWriter.write`."""
        self._running.write(changes)
        self._saver.save_soon()

    async def finish(self, execution_count: int | None, *, save: bool = True) -> None:
        """See `OutputWriter.finish`."""
        if self.finished:
            return
        self.finished = True
        if self._running not in self._saver.runs:
            return
        self._running.end(execution_count)
        if save:
            await self._saver.save()
        else:
            self._saver.save_soon()

    def abandon(self) -> None:
        """Another document has the notebook now: nothing more of this cell is saved here."""
        self.finished = True
        runs = self._saver.runs
        runs[:] = [run for run in runs if run is not self._running]


def runnable(snapshot: Snapshot, key: str) -> Cell:
    """The code cell with this key, of a notebook that can be written.

    Raises:
        CellNotFound, UnsupportedFormat.
    """
    if snapshot.nbformat[0] != 4:
        raise UnsupportedFormat(f"{snapshot.path} is of nbformat {snapshot.nbformat[0]}.")
    return code_cell_of(snapshot, key)


def cell_of(snapshot: Snapshot, key: str) -> Cell:
    """The cell with this key.

    Raises:
        CellNotFound.
    """
    cell = snapshot.by_key.get(key)
    if cell is None:
        raise CellNotFound(f"There is no cell `{key}` in {snapshot.path}.")
    return cell


def code_cell_of(snapshot: Snapshot, key: str) -> Cell:
    """The code cell with this key.

    Raises:
        CellNotFound.
    """
    cell = cell_of(snapshot, key)
    if cell.type != "code":
        raise CellNotFound(f"`{key}` of {snapshot.path} is a {cell.type} cell: it cannot run.")
    return cell
