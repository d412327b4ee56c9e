"""A notebook that is a file: every byte that an edit does not concern stays as it was."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from tk_ai_extension.model.cells import Cell, Json, Snapshot
from tk_ai_extension.model.errors import CellNotFound, NotReadable, ToolError, UnsupportedFormat
from tk_ai_extension.model.operations import Applied, Change, Operation
from tk_ai_extension.model.outputs import OutputChange
from tk_ai_extension.notebooks import cellforms
from tk_ai_extension.notebooks.base import SAVE_INTERVAL
from tk_ai_extension.notebooks.drafts import Draft
from tk_ai_extension.notebooks.filestate import NotebookFile
from tk_ai_extension.notebooks.reading import NotebookIndex
from tk_ai_extension.notebooks.running import RunningOutputs
from tk_ai_extension.notebooks.splicing import (
    END,
    Read,
    Splice,
    assemble,
    bodies_of,
    frame_of,
    stored_cell,
)

_log = logging.getLogger(__name__)

SAVE_DELAY = SAVE_INTERVAL / 2
"""Seconds from an output to its save: the other half is for the save itself."""

MAX_RAW = 64_000_000
"""Bytes up to which a notebook is given as one JSON value, which takes ten times the memory."""

T = TypeVar("T")


class FileDocument:
    """A notebook file.

    What was not edited stays byte-identical, unknown fields stay, the format is not upgraded, and
    the file is replaced so that a crash leaves the old one or the new one. The contents manager's
    save hooks run; trust is never granted.

    Args:
        path: The notebook's path, relative to the root.
        file: What the server knows of the file.
        changed: Called after each change.
    """

    backend = "file"

    def __init__(self, path: str, file: NotebookFile, changed: Callable[[], None]) -> None:
        self.path = path
        self._file = file
        self._changed = changed

    async def read(self) -> Snapshot:
        """See `NotebookDocument.read`."""
        indexed = await self._file.index(self.path)
        return self._file.snapshot(indexed.index, self.path)

    async def outputs(self, cell: str) -> tuple[Json, ...]:
        """See `NotebookDocument.outputs`."""

        def look(index: NotebookIndex, read: Read) -> tuple[Json, ...]:
            snapshot = self._file.snapshot(index, self.path)
            number = _cell(snapshot, cell).index
            return self._file.loader(index, self.path, read)(number).outputs

        return await self._file.looked_up(self.path, look)

    async def raw(self) -> Json:
        """See `NotebookDocument.raw`.

        Raises:
            NotReadable: it is too large for that.
        """
        size = (await self._file.index(self.path)).version.size
        if size > MAX_RAW:
            raise NotReadable(
                f"{self.path} has {size // 1_000_000} MB: that is too much in one piece.",
                hint="Read its cells and the outputs of each with read_cell.",
            )
        return await self._file.looked_up(self.path, self._raw)

    def _raw(self, index: NotebookIndex, read: Read) -> Json:
        if index.spans is None:
            return json.loads(read((0, END)))
        around = read((0, index.array[0])) + b"[]" + read((index.array[1], END))
        notebook: Json = json.loads(around)
        # Cell by cell, so that other threads have their turns.
        cells = [stored_cell(index, number, read) for number in range(len(index.cells))]
        snapshot = self._file.snapshot(index, self.path)
        for running, cell in self._file.running_cells(snapshot):
            outputs = cellforms.stored_outputs(running.outputs(), as_lines=index.as_lines)
            cells[cell.index] |= {"outputs": outputs, "execution_count": None}
        return {**notebook, "cells": cells}

    async def apply(self, operations: Sequence[Operation]) -> Applied:
        """See `NotebookDocument.apply`."""
        return await unbroken(self._apply(operations))

    async def _apply(self, operations: Sequence[Operation]) -> Applied:
        made: list[tuple[Draft, list[tuple[RunningOutputs, Cell]]]] = []

        def make(index: NotebookIndex, read: Read) -> Splice | None:
            snapshot = self._file.snapshot(index, self.path)
            draft = Draft(snapshot, self._file.loader(index, self.path, read))
            draft.apply(operations)
            made[:] = [(draft, self._file.running_cells(snapshot))]
            bodies = bodies_of(index, draft, read)
            unmoved = draft.order == list(range(len(index.cells)))
            return None if unmoved and not bodies else assemble(index, draft.order, bodies, read)

        async with self._file.lock:
            index = await self._file.rewritten(self.path, make)
            draft, running = made[0]
            _follow(draft, running, index)
        snapshot = self._file.snapshot(index, self.path)
        changes: tuple[Change, ...] = draft.changes(snapshot)
        if draft.steps:
            self._changed()
        return Applied(snapshot, changes)

    @asynccontextmanager
    async def writing(self, cell: str) -> AsyncGenerator[FileOutputWriter]:
        """See `NotebookDocument.writing`."""
        snapshot = await self.read()
        if snapshot.nbformat[0] != 4:
            raise UnsupportedFormat(f"{self.path} is of nbformat {snapshot.nbformat[0]}.")
        found = _cell(snapshot, cell)
        if found.type != "code":
            raise CellNotFound(f"`{cell}` of {self.path} is a {found.type} cell: it cannot run.")
        running = RunningOutputs(found, len(snapshot.cells))
        writer = FileOutputWriter(self.path, self._file, running, self._changed)
        saving = asyncio.create_task(writer.save_now_and_then(), name=f"save {self.path}")
        try:
            yield writer
        finally:
            saving.cancel()
            await asyncio.wait([saving])
            if not writer.finished:
                await writer.finish(None)


class FileOutputWriter:
    """Outputs of a running cell of a file: in memory at once, on disk at least every two seconds."""

    def __init__(
        self,
        path: str,
        file: NotebookFile,
        running: RunningOutputs,
        changed: Callable[[], None],
    ) -> None:
        self.finished = False
        self._path = path
        self._file = file
        self._running = running
        self._changed = changed
        self._unsaved = asyncio.Event()
        self._ended = asyncio.Event()

    async def start(self) -> None:
        """See `OutputWriter.start`."""
        # A cell that runs twice at once: the later run is the one that counts.
        self._file.running[:] = [r for r in self._file.running if r.key != self._running.key]
        self._file.running.append(self._running)
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
            if self._running in self._file.running:
                await unbroken(self._save(execution_count))
        finally:
            if self._running in self._file.running:
                self._file.running.remove(self._running)
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
                await unbroken(self._save(None))
                delay = SAVE_DELAY
            except ToolError as error:
                _log.warning("Outputs of a running cell: %s", error.message)
                self._unsaved.set()
                delay *= 2
            self._changed()

    async def _save(self, execution_count: int | None) -> None:
        running = self._running

        def make(index: NotebookIndex, read: Read) -> Splice | None:
            cell = running.find(index.snapshot(self._path))
            if cell is None:
                return None
            if running.frame is None or running.frame[0] is not cell:
                assert index.spans is not None
                running.frame = (cell, frame_of(index, read(index.spans[cell.index])))
            frame = running.frame[1]
            outputs = cellforms.stored_outputs(running.outputs(), as_lines=index.as_lines)
            return assemble(
                index,
                list(range(len(index.cells))),
                {cell.index: frame.body(outputs, execution_count, index.form)},
                read,
            )

        async with self._file.lock:
            index = await self._file.rewritten(self._path, make)
            cell = running.find(index.snapshot(self._path))
            if cell is not None and running.frame is not None:
                running.frame = (cell, running.frame[1])


def _follow(
    draft: Draft, running: Sequence[tuple[RunningOutputs, Cell]], index: NotebookIndex
) -> None:
    """Tells what runs where its cell is after a draft, and that its outputs were cleared."""
    cleared = {
        step.slot
        for step in draft.steps
        if step.kind == "set" and step.after and step.before
        if step.before.outputs and not step.after.outputs
    }
    for outputs, cell in running:
        if cell.index in cleared:
            outputs.hide()
        if cell.index in draft.order:
            outputs.follow(index.cells[draft.order.index(cell.index)], len(index.cells))


def _cell(snapshot: Snapshot, key: str) -> Cell:
    cell = snapshot.by_key.get(key)
    if cell is None:
        raise CellNotFound(f"There is no cell `{key}` in {snapshot.path}.")
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
