"""A notebook file: an edit leaves every byte that it does not concern unchanged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.model.errors import NotReadable
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.large_notebooks import prepared, run_off_loop_if_large
from tk_ai_extension.model.operations import Applied, Operation
from tk_ai_extension.notebooks import cellforms
from tk_ai_extension.notebooks.files.saving import check_writable
from tk_ai_extension.notebooks.files.splicing import (
    EncodedCell,
    Read,
    Splice,
    assemble,
    encoded_cells,
    frame_of,
    load_cell,
    load_notebook,
)
from tk_ai_extension.notebooks.files.state import NotebookFile
from tk_ai_extension.notebooks.reading import NotebookIndex
from tk_ai_extension.notebooks.running_outputs import RunningOutputs, relocate_runs
from tk_ai_extension.notebooks.session import Find, LoadedNotebook, RunningCell, StoredDocument
from tk_ai_extension.notebooks.transactions import EditTransaction

T = TypeVar("T")

MAX_RAW = 64_000_000
"""Maximum bytes of a notebook that is returned as one JSON value, which takes ten times the memory."""


class FileDocument(StoredDocument):
    """A notebook file.

    Unedited parts stay byte-identical, unknown fields are kept, the format is not upgraded, and the
    file is replaced atomically, so that a crash leaves the old or the new content. The contents
    manager's save hooks run; cells are never trusted.

    Args:
        path: The notebook's path, relative to the root.
        file: The server's state of the file.
        changed: Called with the path after each change.
    """

    kind = "file"

    def __init__(self, path: str, file: NotebookFile, changed: Callable[[str], None]) -> None:
        super().__init__(file.session, changed)
        self._path = path
        self._file = file
        file.names.setdefault(path, path)

    @property
    def path(self) -> str:
        """See `NotebookDocument.path`; it changes when a person renames the file."""
        return self._file.names[self._path]

    def check_writable(self) -> None:
        """See `StoredDocument.check_writable`."""
        check_writable(self._file.file, self.path)

    async def pull(self, look: Callable[[LoadedNotebook], T]) -> T:
        """See `SessionDocument.pull`; ``look`` is called in a thread."""
        return await self._file.query(
            self.path, lambda index, read: look(self._pulled(index, read))
        )

    async def raw(self) -> Json:
        """See `NotebookDocument.raw`.

        Raises:
            NotReadable: the file is larger than `MAX_RAW`.
        """
        size = (await self._file.index(self.path)).version.size
        if size > MAX_RAW:
            raise NotReadable(
                f"{self.path} has {size // 1_000_000} MB and is too large to read in one piece.",
                hint="Read its cells and their outputs with read_cell.",
            )
        return await super().raw()

    def _pulled(self, index: NotebookIndex, read: Read) -> LoadedNotebook:
        kept = LoadedNotebook(
            self._file.stored(index, self.path),
            lambda number: load_cell(index, number, read),
            lambda: load_notebook(index, read),
            index.as_lines,
        )
        return self.session.with_runs(kept)

    async def attempt(self, operations: Sequence[Operation], number: int) -> Applied:  # noqa: ARG002
        """See `SessionDocument.attempt`; retried while other programs write the file."""
        made: list[tuple[EditTransaction, list[tuple[RunningOutputs, Cell]]]] = []

        def make(index: NotebookIndex, read: Read) -> Splice | None:
            pulled = self._pulled(index, read)
            edit = pulled.edited(operations)
            made[:] = [(edit, self.session.running_cells(pulled.snapshot))]
            bodies = encoded_cells(index, edit, read)
            unmoved = edit.order == list(range(len(index.cells)))
            return None if unmoved and not bodies else assemble(index, edit.order, bodies, read)

        async with self.session.lock:
            index = await self._file.rewrite(self.path, make)
            edit, running = made[0]
            relocate_runs(edit, running, index.cells)
        snapshot = await prepared(self.session.shown(self._file.stored(index, self.path)))
        if edit.steps:
            self.changed()
            await self.refresh_tabs()
        return Applied(snapshot, await run_off_loop_if_large(len(snapshot.cells), edit.changes))

    async def stored(self) -> Snapshot:
        """See `StoredDocument.stored`."""
        indexed = await self._file.index(self.path)
        return await prepared(self._file.stored(indexed.index, self.path))

    async def locate(self, find: Find) -> RunningCell:
        """See `SessionDocument.locate`; the file is tracked in case others move it."""
        located = await super().locate(find)
        self._file.track()
        return located

    def on_idle(self) -> None:
        """See `StoredDocument.on_idle`."""
        self._file.untrack()

    async def save_outputs(self, runs: Sequence[RunningOutputs]) -> None:
        """See `StoredDocument.save_outputs`."""

        def make(index: NotebookIndex, read: Read) -> Splice | None:
            snapshot = index.snapshot(self.path)
            bodies: dict[int, EncodedCell] = {}
            for running in runs:
                if (cell := running.find(snapshot)) is not None:
                    bodies[cell.index] = self._body(index, cell, running, read)
            return assemble(index, list(range(len(index.cells))), bodies, read) if bodies else None

        frames = self._file.frames
        async with self.session.lock:
            index = await self._file.rewrite(self.path, make)
            snapshot = index.snapshot(self.path)
            for running in runs:
                cell = running.find(snapshot)
                if cell is not None and running in frames:
                    frames[running] = (cell, frames[running][1])

    def _body(
        self, index: NotebookIndex, cell: Cell, running: RunningOutputs, read: Read
    ) -> EncodedCell:
        """Return a running cell's text with its outputs so far."""
        known = self._file.frames.get(running)
        if known is None or known[0] is not cell:
            assert index.spans is not None
            known = (cell, frame_of(index, read(index.spans[cell.index])))
            self._file.frames[running] = known
        stored = cellforms.stored_outputs(running.outputs(), as_lines=index.as_lines)
        return known[1].body(stored, running.execution_count, index.form)
