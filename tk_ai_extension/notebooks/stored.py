"""A stored notebook: an edit leaves everything that it does not concern unchanged.

`StoredDocument` is the document; a `NotebookText` holds its content and writes it: a file (`files`) or a
contents manager's (`contents`).
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ClassVar, TypeVar

from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.model.errors import CellNotFound, NotReadable
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.large_notebooks import prepared, run_off_loop_if_large
from tk_ai_extension.model.operations import Applied, Operation
from tk_ai_extension.notebooks import cellforms
from tk_ai_extension.notebooks.base import NotebookDocument
from tk_ai_extension.notebooks.notebook import Notebook
from tk_ai_extension.notebooks.outputs import (
    Find,
    OutputSaver,
    OutputSink,
    RunningCell,
    RunningOutputs,
    StoredOutputSink,
    relocate_runs,
)
from tk_ai_extension.notebooks.reading import EncodedCell, StoredNotebook
from tk_ai_extension.notebooks.transactions import EditTransaction, LoadedNotebook

MAX_RAW = 64_000_000
"""Maximum bytes of a notebook that is returned as one JSON value, which takes ten times the memory."""

T = TypeVar("T")
Make = Callable[[StoredNotebook], StoredNotebook]
"""Makes the new content of a notebook from the current one; returns it unchanged to write nothing."""


class NotebookText(ABC):
    """The text of a stored notebook, shared by all its documents in a server.

    Attributes:
        kind: ``file`` or ``contents``.
        lock: Held while the notebook is written.
    """

    kind: ClassVar[str]

    def __init__(self) -> None:
        self.lock = asyncio.Lock()

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
        """Rewrite the notebook. Hold the lock.

        Args:
            path: The notebook's path.
            make: Called in a thread, again if another program wrote the notebook meanwhile.

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


Refresh = Callable[[str], Coroutine[Any, Any, None]]
"""Has tabs with the notebook at a path read its file."""


class StoredDocument(NotebookDocument):
    """A notebook that is stored as a text: unedited parts stay as they are, and cells are never trusted.

    It is used while the notebook is not open in a tab.

    Args:
        notebook: The notebook.
        text: Its text.
        find_text: Returns the text at another path, once it was renamed.
        refresh: For tabs that opened the notebook while it was written; None if tabs hold no notebooks.
    """

    def __init__(
        self,
        notebook: Notebook,
        text: NotebookText,
        find_text: Callable[[str], NotebookText],
        refresh: Refresh | None = None,
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
        return await prepared(self.notebook.shown(await self.stored()))

    async def locate(self, find: Find) -> RunningCell:
        """See `NotebookDocument.locate`."""
        snapshot = await self.stored()
        if (cell := find(snapshot)) is None:
            raise CellNotFound(f"A running cell of {snapshot.path} was deleted.")
        return RunningCell(cell, len(snapshot.cells), self._sink())

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
        if self._refresh is not None:
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

    async def attempt(self, operations: Sequence[Operation], number: int) -> Applied:  # noqa: ARG002
        """See `NotebookDocument.attempt`; retried while other programs write the file."""
        made: list[tuple[EditTransaction, list[tuple[RunningOutputs, Cell]]]] = []

        def make(notebook: StoredNotebook) -> StoredNotebook:
            pulled = self._pulled(notebook)
            edit = pulled.edited(operations)
            made[:] = [(edit, self.notebook.running_cells(pulled.snapshot))]
            return notebook.edited(edit)

        text = self._text
        async with text.lock:
            notebook = await text.rewrite(self.path, make)
            edit, running = made[0]
            relocate_runs(edit, running, notebook.cells)
        snapshot = self.notebook.shown(notebook.snapshot(self.path))
        if edit.effects:
            await self.refresh_tabs()
        return Applied(snapshot, await run_off_loop_if_large(len(snapshot.cells), edit.changes))

    async def write_changes(
        self, base: str, edits: Sequence[EditTransaction], runs: Sequence[RunningOutputs]
    ) -> str | None:
        """Make changes to the stored notebook that were made in a tab.

        Args:
            base: The hash that the file must have.
            edits: Edits, in order, of this notebook.
            runs: Cells with new outputs.

        Returns:
            The file's hash afterwards; None if it was not ``base``, or a save hook changed more.

        Raises:
            ReadOnly, DiskFull, SaveFailed, NotebookNotFound, InvalidNotebook.
        """
        made: list[StoredNotebook] = []

        def make(notebook: StoredNotebook) -> StoredNotebook:
            made.clear()
            if notebook.digest != base:
                return notebook
            for edit in edits:
                notebook = notebook.edited(edit)
            made.append(self._with_outputs(notebook, runs))
            return made[0]

        text = self._text
        async with text.lock:
            notebook = await text.rewrite(self.path, make)
        return notebook.digest if made and made[0] is notebook else None

    async def save_outputs(self, runs: Sequence[RunningOutputs]) -> None:
        """Save the outputs of cells that are running or have just ended; see `OutputSaver`."""
        text = self._text
        async with text.lock:
            await text.rewrite(self.path, lambda notebook: self._with_outputs(notebook, runs))

    def _with_outputs(
        self, notebook: StoredNotebook, runs: Sequence[RunningOutputs]
    ) -> StoredNotebook:
        snapshot = notebook.snapshot(self.path)
        bodies: dict[int, EncodedCell] = {}
        for running in runs:
            if (cell := running.find(snapshot)) is None:
                continue
            outputs = cellforms.stored_outputs(running.outputs(), as_lines=notebook.as_lines)
            values: Json = {"outputs": outputs, "execution_count": running.execution_count}
            bodies[cell.index] = notebook.updated(cell.index, values)
        return notebook.replaced(bodies)
