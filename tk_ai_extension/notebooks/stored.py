"""A stored notebook: an edit leaves everything that it does not concern unchanged.

`TextDocument` is the document; a `NotebookText` holds its content and writes it: a file (`files`) or a
contents manager's (`contents`).
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.model.errors import NotReadable
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.large_notebooks import run_off_loop_if_large
from tk_ai_extension.model.operations import Applied, Operation
from tk_ai_extension.notebooks import cellforms
from tk_ai_extension.notebooks.reading import EncodedCell, StoredNotebook
from tk_ai_extension.notebooks.running_outputs import RunningOutputs, relocate_runs
from tk_ai_extension.notebooks.session import (
    LoadedNotebook,
    NotebookSession,
    StoredDocument,
)
from tk_ai_extension.notebooks.transactions import EditTransaction

MAX_RAW = 64_000_000
"""Maximum bytes of a notebook that is returned as one JSON value, which takes ten times the memory."""

T = TypeVar("T")
Make = Callable[[StoredNotebook], StoredNotebook]
"""Makes the new content of a notebook from the current one; returns it unchanged to write nothing."""


class NotebookText(ABC):
    """The text of a stored notebook, shared by all its documents in a server.

    Attributes:
        kind: ``file`` or ``contents``.
        session: The notebook's session; its lock is held while the notebook is written.
        names: The paths under which it was opened, and their current names.
    """

    kind: ClassVar[str]

    def __init__(self) -> None:
        self.session = NotebookSession()
        self.names: dict[str, str] = {}

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


class TextDocument(StoredDocument):
    """A notebook that is stored as a text: unedited parts stay as they are, and cells are never trusted.

    Args:
        path: The notebook's path, relative to the root.
        text: The server's state of it.
    """

    def __init__(self, path: str, text: NotebookText) -> None:
        super().__init__(text.session)
        self._path = path
        self._text = text
        text.names.setdefault(path, path)

    @property
    def path(self) -> str:
        """See `NotebookDocument.path`; it changes when a person renames the notebook."""
        return self._text.names[self._path]

    @property
    def backend(self) -> str:
        """See `NotebookDocument.backend`."""
        return self._text.kind

    def check_writable(self) -> None:
        """See `StoredDocument.check_writable`."""
        self._text.check_writable(self.path)

    async def pull(self, look: Callable[[LoadedNotebook], T]) -> T:
        """See `SessionDocument.pull`; ``look`` is called in a thread."""
        notebook = await self._text.load(self.path)
        return await asyncio.to_thread(lambda: look(self._pulled(notebook)))

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
        return self.session.with_runs(
            LoadedNotebook(snapshot, notebook.content, notebook.raw, notebook.as_lines)
        )

    async def attempt(self, operations: Sequence[Operation], number: int) -> Applied:  # noqa: ARG002
        """See `SessionDocument.attempt`; retried while other programs write the file."""
        made: list[tuple[EditTransaction, list[tuple[RunningOutputs, Cell]]]] = []

        def make(notebook: StoredNotebook) -> StoredNotebook:
            pulled = self._pulled(notebook)
            edit = pulled.edited(operations)
            made[:] = [(edit, self.session.running_cells(pulled.snapshot))]
            return notebook.edited(edit)

        async with self.session.lock:
            notebook = await self._text.rewrite(self.path, make)
            edit, running = made[0]
            relocate_runs(edit, running, notebook.cells)
        snapshot = self.session.shown(notebook.snapshot(self.path))
        if edit.effects:
            await self.refresh_tabs()
        return Applied(snapshot, await run_off_loop_if_large(len(snapshot.cells), edit.changes))

    async def stored(self) -> Snapshot:
        """See `StoredDocument.stored`."""
        return (await self._text.load(self.path)).snapshot(self.path)

    async def save_outputs(self, runs: Sequence[RunningOutputs]) -> None:
        """See `StoredDocument.save_outputs`."""

        def make(notebook: StoredNotebook) -> StoredNotebook:
            snapshot = notebook.snapshot(self.path)
            bodies: dict[int, EncodedCell] = {}
            for running in runs:
                if (cell := running.find(snapshot)) is None:
                    continue
                outputs = cellforms.stored_outputs(running.outputs(), as_lines=notebook.as_lines)
                values: Json = {"outputs": outputs, "execution_count": running.execution_count}
                bodies[cell.index] = notebook.updated(cell.index, values)
            return notebook.replaced(bodies)

        async with self.session.lock:
            await self._text.rewrite(self.path, make)
