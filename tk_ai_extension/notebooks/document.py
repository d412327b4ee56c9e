"""The documents of notebooks: where the cells are.

A notebook is in one place at a time: a file, a contents manager, or a browser tab. `StoredDocument` is the
document of a notebook that is not open in a tab: an edit leaves everything else in it unchanged. A
`NotebookText` holds its content and writes it: to a file (`notebook_files`) or with a contents manager
(`contents_manager`). `tab_document` has the document of a notebook in a tab.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from tk_ai_extension.model.background_tasks import run_to_completion
from tk_ai_extension.model.cell_operations import AppliedOperations, Insert, Operation
from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.model.errors import CellNotFound, InvalidNotebook, NotReadable, SaveFailed
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.notebooks import notebook_json
from tk_ai_extension.notebooks.computed_edit import ComputedEdit, LoadedNotebook
from tk_ai_extension.notebooks.notebook import Notebook
from tk_ai_extension.notebooks.notebook_json import new_cell_id
from tk_ai_extension.notebooks.parsed_notebooks import EncodedCell, StoredNotebook
from tk_ai_extension.notebooks.running_outputs import (
    CellLocation,
    CellOutputWriter,
    Find,
    OutputSaver,
    OutputSink,
    RunningCellOutputs,
    StoredOutputSink,
    relocate_runs,
)

MAX_RAW = 64_000_000
"""Maximum bytes of a notebook that is returned as one JSON value, which takes ten times the memory."""

T = TypeVar("T")
Make = Callable[[StoredNotebook], StoredNotebook]
"""Makes the new content of a notebook from the current one; returns it unchanged to write nothing."""
Refresh = Callable[[str], Coroutine[Any, Any, None]]
"""Has tabs with the notebook at a path read its file."""


class NotebookDocument(ABC):
    """A notebook, opened by `NotebookStore.open`. Opening is cheap, and no close is needed.

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

        def look(pulled: LoadedNotebook) -> tuple[Json, ...]:
            found = cell_of(pulled.snapshot, cell)
            return pulled.content(pulled.snapshot.index(found)).outputs

        return await self.pull(look)

    async def raw(self) -> Json:
        """Return the whole notebook as JSON with outputs, in the form of `nbformat` 4."""
        return await self.pull(lambda pulled: pulled.raw())

    async def apply(self, operations: Sequence[Operation]) -> AppliedOperations:
        """Apply operations in order as one transaction, save, and return the result.

        They are applied to completion, even if the caller is cancelled.

        Raises:
            Conflict: an ``expect`` does not match; nothing was changed.
            CellNotFound, InvalidArguments: a cell or an index does not exist; nothing was changed.
            InvalidNotebook, ReadOnly, DiskFull, SaveFailed, ConflictingTabs, TabOffline: nothing was changed.
        """
        return await run_to_completion(self._commit(operations))

    async def _commit(self, operations: Sequence[Operation]) -> AppliedOperations:
        # Set the ids first: a cell inserted in a tab that is lost, and again in the file, gets one id.
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
        writer = CellOutputWriter(self, located, self.notebook.writers, self.notebook.tasks)
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
            NotebookNotFound, InvalidArguments, InvalidNotebook, TabOffline, ConflictingTabs.
        """

    @abstractmethod
    async def attempt(
        self, operations: Sequence[Operation], number: int
    ) -> AppliedOperations | None:
        """Try to apply operations; return None if others changed the notebook first.

        Args:
            operations: Operations on the current notebook.
            number: The number of earlier attempts.
        """

    @abstractmethod
    async def locate(self, find: Find) -> CellLocation:
        """Return the cell that runs or is about to run, and the sink where the notebook is now.

        Raises:
            What ``find`` raises, TabOffline, ConflictingTabs.
        """

    @abstractmethod
    async def is_current(self, sink: OutputSink) -> bool:
        """Return whether a sink is still where the notebook is.

        Raises:
            TabOffline, ConflictingTabs.
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
    cell = snapshot.get(key)
    if cell is None:
        raise CellNotFound(f"No cell `{key}` in {snapshot.path}.")
    return cell


class NotebookText(ABC):
    """The text of a stored notebook, shared by all its documents in a server.

    Attributes:
        kind: ``file`` or ``contents``.
    """

    kind: ClassVar[str]

    @abstractmethod
    async def load(self, path: str) -> StoredNotebook:
        """Return the current content.

        Args:
            path: The notebook's path, for messages.

        Raises:
            NotebookNotFound, InvalidArguments, NotReadable, InvalidNotebook.
        """

    @abstractmethod
    async def rewrite(self, path: str, make: Make) -> StoredNotebook:
        """Rewrite the notebook. Hold `Notebook.writing`.

        Args:
            path: The notebook's path.
            make: Called in a thread, again if another program wrote the notebook first.

        Returns:
            The content afterwards.

        Raises:
            As `load`, what ``make`` raises, ReadOnly, DiskFull, SaveFailed.
        """

    def check_writable(self, path: str) -> None:  # noqa: B027 - by default nothing is known
        """Raise the error of a save if it is known beforehand.

        Raises:
            ReadOnly, DiskFull.
        """


class StoredDocument(NotebookDocument):
    """A notebook that is stored as a text: unedited parts stay as they are, and cells are never trusted.

    It is used while the notebook is not open in a tab.

    Args:
        notebook: The notebook.
        text: Its text.
        find_text: Returns the text at another path, once it was renamed.
        refresh: For tabs that opened the notebook while it was written.
    """

    def __init__(
        self,
        notebook: Notebook,
        text: NotebookText,
        find_text: Callable[[str], NotebookText],
        refresh: Refresh,
    ) -> None:
        super().__init__(notebook)
        self._find_text = find_text
        self._refresh = refresh
        self._found = notebook.path, text

    @property
    def _text(self) -> NotebookText:
        """The text where the notebook is now."""
        self.notebook.check_present()
        if self._found[0] != self.path:
            self._found = self.path, self._find_text(self.path)
        return self._found[1]

    @property
    def backend(self) -> str:
        """See `NotebookDocument.backend`."""
        return self._found[1].kind

    def check_writable(self) -> None:
        """Raise the error of a save if it is known beforehand.

        Raises:
            ReadOnly, DiskFull.
        """
        self._text.check_writable(self.path)

    async def pull(self, look: Callable[[LoadedNotebook], T]) -> T:
        """See `NotebookDocument.pull`; ``look`` is called in a thread."""
        notebook = await self._text.load(self.path)
        return await asyncio.to_thread(lambda: look(self._pulled(notebook)))

    async def stored(self) -> Snapshot:
        """Return the notebook as it was saved, without the outputs of running cells."""
        return (await self._text.load(self.path)).snapshot(self.path)

    async def read(self) -> Snapshot:
        """See `NotebookDocument.read`; an unchanged file is not opened."""
        return self.notebook.shown(await self.stored())

    async def locate(self, find: Find) -> CellLocation:
        """See `NotebookDocument.locate`."""
        snapshot = await self.stored()
        if (cell := find(snapshot)) is None:
            raise CellNotFound(f"A running cell of {snapshot.path} was deleted.")
        return CellLocation(snapshot, cell, self._sink())

    def _sink(self) -> StoredOutputSink:
        """Return the sink for a running cell."""
        notebook = self.notebook
        if notebook.saver is None:

            def on_idle() -> None:
                notebook.saver = None

            notebook.saver = OutputSaver(
                self.path,
                notebook.runs,
                self.save_outputs,
                refresh=self.refresh_tabs,
                on_idle=on_idle,
            )
        return StoredOutputSink(notebook.saver)

    async def is_current(self, sink: OutputSink) -> bool:
        """See `NotebookDocument.is_current`."""
        return isinstance(sink, StoredOutputSink)

    async def refresh_tabs(self) -> None:
        """Have tabs that opened the notebook while it was written read it again: call this afterwards."""
        await self._refresh(self.path)

    async def raw(self) -> Json:
        """See `NotebookDocument.raw`.

        Raises:
            NotReadable: the notebook is larger than `MAX_RAW`.
        """
        size = (await self._text.load(self.path)).size
        if size > MAX_RAW:
            raise NotReadable(
                f"{self.path} has {size // 1_000_000} MB and is too large to read in one piece.",
                hint="Read its cells and their outputs with read_cell.",
            )
        return await super().raw()

    def _pulled(self, notebook: StoredNotebook) -> LoadedNotebook:
        snapshot = notebook.snapshot(self.path)
        return self.notebook.with_runs(
            LoadedNotebook(snapshot, notebook.content, notebook.raw, notebook.as_lines)
        )

    async def attempt(self, operations: Sequence[Operation], number: int) -> AppliedOperations:  # noqa: ARG002
        """See `NotebookDocument.attempt`; retried while other programs write the file."""
        made: list[tuple[ComputedEdit, list[tuple[RunningCellOutputs, int]]]] = []

        def make(notebook: StoredNotebook) -> StoredNotebook:
            pulled = self._pulled(notebook)
            edit = pulled.edited(operations)
            made[:] = [(edit, self.notebook.running_cells(pulled.snapshot))]
            return notebook.edited(edit.runs, edit.contents)

        async with self.notebook.writing:
            notebook = await self._text.rewrite(self.path, make)
            edit, running = made[0]
            stored = notebook.snapshot(self.path)
            relocate_runs(edit, running, stored)
        snapshot = self.notebook.shown(stored)
        if edit.changes:
            await self.refresh_tabs()
        return AppliedOperations(snapshot, tuple(edit.changes))

    async def write_left(self, left: Json) -> str | None:
        """Write a page's changes that the stored notebook lacks.

        Args:
            left: The page's message with the changes; see `src/tabs/protocol.ts`.

        Returns:
            The file's hash afterwards; None if the file was not the one that the page knows, or a
            save hook changed more.

        Raises:
            ReadOnly, DiskFull, SaveFailed, NotebookNotFound, InvalidNotebook.
        """
        made: list[StoredNotebook] = []

        def make(notebook: StoredNotebook) -> StoredNotebook:
            made.clear()
            if notebook.digest != left["base"]:
                return notebook
            made.append(notebook.saved(left["order"], left["cells"]))
            return made[0]

        async with self.notebook.writing:
            notebook = await self._text.rewrite(self.path, make)
        return notebook.digest if made and made[0] is notebook else None

    async def save_outputs(self, runs: Sequence[RunningCellOutputs]) -> None:
        """Save the outputs of cells that are running or have just ended; see `OutputSaver`."""
        async with self.notebook.writing:
            await self._text.rewrite(self.path, lambda notebook: self._with_outputs(notebook, runs))

    def _with_outputs(
        self, notebook: StoredNotebook, runs: Sequence[RunningCellOutputs]
    ) -> StoredNotebook:
        snapshot = notebook.snapshot(self.path)
        bodies: dict[int, EncodedCell] = {}
        for running in runs:
            if (cell := running.find(snapshot)) is None:
                continue
            outputs = notebook_json.stored_outputs(running.outputs(), as_lines=notebook.as_lines)
            values: Json = {"outputs": outputs, "execution_count": running.execution_count}
            index = snapshot.index(cell)
            bodies[index] = notebook.updated(index, values)
        return notebook.replaced(bodies)
