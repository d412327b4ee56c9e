"""What documents that are saved as a whole have in common: outputs in memory between the saves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.model.errors import CellNotFound, ToolError, UnsupportedFormat
from tk_ai_extension.model.outputs import OutputChange
from tk_ai_extension.notebooks.base import SAVE_INTERVAL, NotebookDocument
from tk_ai_extension.notebooks.running import RunningOutputs

_log = logging.getLogger(__name__)

SAVE_DELAY = SAVE_INTERVAL / 2
"""Seconds from an output to its save: the other half is for the save itself."""

T = TypeVar("T")

Save = Callable[[RunningOutputs, int | None], Coroutine[Any, Any, None]]
"""Saves the outputs of a running cell; the count comes at the end."""


@asynccontextmanager
async def writing(
    document: NotebookDocument,
    cell: str,
    runs: list[RunningOutputs],
    save: Save,
    changed: Callable[[], None],
) -> AsyncGenerator[SavingOutputWriter]:
    """A `SavingOutputWriter` for a cell of a document.

    Raises:
        CellNotFound, UnsupportedFormat.
    """
    snapshot = await document.read()
    if snapshot.nbformat[0] != 4:
        raise UnsupportedFormat(f"{snapshot.path} is of nbformat {snapshot.nbformat[0]}.")
    running = RunningOutputs(code_cell_of(snapshot, cell), len(snapshot.cells))
    writer = SavingOutputWriter(snapshot.path, running, runs, save, changed)
    saving = asyncio.create_task(writer.save_now_and_then(), name=f"save {snapshot.path}")
    try:
        yield writer
    finally:
        saving.cancel()
        await asyncio.wait([saving])
        if not writer.finished:
            await writer.finish(None)


class SavingOutputWriter:
    """Outputs of a running cell: in memory at once, saved at least every two seconds and at the end.

    Args:
        path: The notebook's path, for messages.
        running: The outputs.
        runs: The cells of the notebook that run; this one joins them when it starts.
        save: Saves the outputs, with the count at the end.
        changed: Called after each save.
    """

    def __init__(
        self,
        path: str,
        running: RunningOutputs,
        runs: list[RunningOutputs],
        save: Save,
        changed: Callable[[], None],
    ) -> None:
        self.finished = False
        self._path = path
        self._running = running
        self._runs = runs
        self._save = save
        self._changed = changed
        self._unsaved = asyncio.Event()
        self._ended = asyncio.Event()

    async def start(self) -> None:
        """See `OutputWriter.start`."""
        # A cell that runs twice at once: the later run is the one that counts.
        self._runs[:] = [r for r in self._runs if r.key != self._running.key]
        self._runs.append(self._running)
        self._unsaved.set()

    async def write(self, changes: Sequence[OutputChange]) -> None:
        """See `OutputWriter.write`."""
        self._running.write(changes)
        self._unsaved.set()

    async def finish(self, execution_count: int | None) -> None:
        """See `OutputWriter.finish`."""
        if self.finished:
            return
        self.finished = True
        self._ended.set()
        try:
            if self._running in self._runs:
                await unbroken(self._save(self._running, execution_count))
        finally:
            if self._running in self._runs:
                self._runs.remove(self._running)
            self._changed()

    async def save_now_and_then(self) -> None:
        """Saves what is unsaved until it is cancelled; a failing save is tried less and less often."""
        delay = SAVE_DELAY
        while not self._ended.is_set():
            await self._unsaved.wait()
            try:
                async with asyncio.timeout(delay):
                    await self._ended.wait()
            except TimeoutError:
                pass
            else:
                return
            self._unsaved.clear()
            try:
                await unbroken(self._save(self._running, None))
                delay = SAVE_DELAY
            except ToolError as error:
                _log.warning("Outputs of a running cell of %s: %s", self._path, error.message)
                self._unsaved.set()
                delay *= 2
            self._changed()


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


async def unbroken(work: Coroutine[Any, Any, T]) -> T:
    """Awaits work that goes to its end also when the caller is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # Looked at, so that asyncio does not report it as lost.
        raise
