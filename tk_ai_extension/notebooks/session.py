"""One open notebook in one server: its write lock, its running cells, and where their outputs go.

A notebook is in one place at a time: a file, a contents manager, a collaboration room or a browser tab.
The session outlives a change of that place. A running cell's outputs are pushed to a place
(`OutputPlace`); when a tab opens or closes, or a room appears or goes, the session enters the new place
and pushes all outputs there again.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar, cast

from tk_ai_extension.model.background import BackgroundTasks, run_to_completion
from tk_ai_extension.model.cells import Cell, CellContent, Json, Snapshot
from tk_ai_extension.model.errors import CellNotFound, SaveFailed, ToolError, UnsupportedFormat
from tk_ai_extension.model.large_notebooks import prepared
from tk_ai_extension.model.operations import Applied, Operation
from tk_ai_extension.notebooks import cellforms
from tk_ai_extension.notebooks.autosave import OutputSaver
from tk_ai_extension.notebooks.base import OutputWriter
from tk_ai_extension.notebooks.output_writer import (
    CellOutputWriter,
    Entered,
    Find,
    KeptPlace,
    OutputPlace,
)
from tk_ai_extension.notebooks.running_outputs import RunningOutputs
from tk_ai_extension.notebooks.transactions import EditTransaction

_log = logging.getLogger(__name__)

T = TypeVar("T")


def nothing() -> None:
    """Nothing forbids it, and nobody has to know."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """A notebook at one moment, as the place that it is in has it.

    Attributes:
        snapshot: Its cells without outputs.
        content: Loads the whole cell at an index.
        raw: Loads all of it as JSON.
        as_lines: Whether its stored texts are lists of lines.
    """

    snapshot: Snapshot
    content: Callable[[int], CellContent]
    raw: Callable[[], Json]
    as_lines: bool = False

    def edited(self, operations: Sequence[Operation]) -> EditTransaction:
        """What operations make of it.

        Raises:
            Conflict, CellNotFound, InvalidArguments, UnsupportedFormat.
        """
        edit = EditTransaction(self.snapshot, self.content)
        edit.apply(operations)
        return edit


class SessionDocument(ABC):
    """A `NotebookDocument` of a session: an adapter to the place where the notebook is.

    An adapter says what the notebook is now (`pull`), tries an edit (`attempt`) and enters a running
    cell (`enter`). What is the same in all places is here.

    Args:
        session: The notebook's, the same for all documents of it.

    Attributes:
        kind: ``file``, ``room`` or ``contents``.
        tries: So often an edit is worked out on a notebook that others change all the time.
        refuse: Raises where the notebook may not be changed here: its room cannot be reached.
    """

    kind: ClassVar[str] = ""
    tries: ClassVar[int] = 5

    def __init__(self, session: NotebookSession) -> None:
        self.session = session
        self.refuse: Callable[[], None] = nothing

    @property
    @abstractmethod
    def path(self) -> str:
        """See `NotebookDocument.path`; it follows the notebook where a person renames it."""

    @property
    def backend(self) -> str:
        """See `NotebookDocument.backend`."""
        return self.kind

    @abstractmethod
    async def pull(self, look: Callable[[Pulled], T]) -> T:
        """What ``look`` finds in the notebook as it is now, with what running cells have printed.

        ``look`` may be called more than once, and in a thread.

        Raises:
            NotebookNotFound, NotANotebook, InvalidNotebook, TabOffline, OpenTwice.
        """

    @abstractmethod
    async def attempt(self, operations: Sequence[Operation], number: int) -> Applied | None:
        """Tries to apply operations; None where others changed the notebook meanwhile.

        Args:
            operations: To be worked out on the notebook as it is now.
            number: How often it was tried before.
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
        """Applies operations; see `apply`, whose caller may be cancelled meanwhile."""
        for number in range(self.tries):
            if (applied := await self.attempt(operations, number)) is not None:
                return applied
        raise SaveFailed(f"{self.path} is changed all the time by others.")

    @abstractmethod
    async def enter(self, find: Find) -> Entered:
        """The cell that is about to run or that runs, where the notebook is now.

        Raises:
            What ``find`` raises, TabOffline, OpenTwice, TabGone.
        """

    @abstractmethod
    async def is_current(self, place: OutputPlace) -> bool:
        """Whether a place is still the one that the notebook is in.

        Raises:
            TabOffline, OpenTwice.
        """

    async def apply(self, operations: Sequence[Operation]) -> Applied:
        """See `NotebookDocument.apply`.

        Raises:
            OpenTwice, TabOffline, CollaborationUnsupported, OpenElsewhere: nothing was changed.
            OutcomeUnknown: the tab was lost in the middle.
        """
        self.refuse()
        return await run_to_completion(self.commit(operations))

    def writing(self, cell: str) -> AbstractAsyncContextManager[OutputWriter]:
        """See `NotebookDocument.writing`.

        Raises:
            As `apply`.
        """
        self.refuse()
        return self.session.writing(self, cell)

    async def flush(self) -> None:
        """See `NotebookDocument.flush`."""
        if self.session.saver is not None:
            await self.session.saver.save()


class KeptDocument(SessionDocument):
    """A notebook where it is kept, as long as nobody has it open: a file, or a contents manager's.

    Args:
        session: The notebook's.
        changed: Called with the path after each change.
    """

    def __init__(self, session: NotebookSession, changed: Callable[[str], None]) -> None:
        super().__init__(session)
        self._notify = changed

    def changed(self) -> None:
        """Notifies that it was changed."""
        self._notify(self.path)

    @abstractmethod
    async def stored(self) -> Snapshot:
        """The notebook as it was saved: what cells print says nothing about which cell is which."""

    @abstractmethod
    async def save_outputs(self, runs: Sequence[RunningOutputs]) -> None:
        """Saves the outputs of cells that run or have just ended; see `OutputSaver`."""

    def rested(self) -> None:
        """Nothing runs any more, and everything is saved."""

    async def read(self) -> Snapshot:
        """See `NotebookDocument.read`; a file is not opened where nothing changed."""
        return await prepared(self.session.shown(await self.stored()))

    async def enter(self, find: Find) -> Entered:
        """See `SessionDocument.enter`."""
        snapshot = await self.stored()
        if (cell := find(snapshot)) is None:
            raise CellNotFound(f"A running cell of {snapshot.path} is gone.")
        return Entered(cell, len(snapshot.cells), self.session.place(self))

    def check_writable(self) -> None:
        """Raises what a save would run into, where that can be known before.

        Raises:
            ReadOnly.
        """

    async def is_current(self, place: OutputPlace) -> bool:
        """See `SessionDocument.is_current`."""
        return isinstance(place, KeptPlace)


class NotebookSession:
    """What one server knows of one open notebook, wherever it is.

    Attributes:
        lock: Held by who writes the notebook where it is kept.
        runs: The cells whose outputs are in memory and saved with the kept notebook: those that run,
            and those that have ended and are not saved yet.
        saver: Saves them, as long as there are any.
        writers: The cells that run, and those that have ended and wait for their place.
        reopen: Opens the document that holds a path now.
        active: The server's sessions with writers, which keeps them alive.
    """

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.runs: list[RunningOutputs] = []
        self.saver: OutputSaver | None = None
        self.writers: list[CellOutputWriter] = []
        self.reopen: Callable[[str], Awaitable[SessionDocument]] | None = None
        self.active: set[NotebookSession] | None = None
        self.tasks = BackgroundTasks(_log)

    # --- what is kept, with the outputs that are in memory

    def running_cells(self, snapshot: Snapshot) -> list[tuple[RunningOutputs, Cell]]:
        """What is in memory, each with its cell in the notebook as it is kept."""
        found = [(run, run.find(snapshot)) for run in self.runs]
        return [(run, cell) for run, cell in found if cell is not None]

    def shown(self, snapshot: Snapshot) -> Snapshot:
        """The notebook with the outputs that running cells have so far."""
        running = self.running_cells(snapshot)
        if not running:
            return snapshot
        cells = list(snapshot.cells)
        for run, cell in running:
            cells[cell.index] = run.shown(cell)
        return replace(snapshot, cells=tuple(cells))

    def with_runs(self, kept: Pulled) -> Pulled:
        """What is kept, with the outputs that running cells have so far."""
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

        return Pulled(self.shown(kept.snapshot), content, raw)

    def place(self, document: KeptDocument) -> KeptPlace:
        """The place of a cell that runs, where the notebook is kept."""
        if self.saver is None:

            def at_rest() -> None:
                self.saver = None
                document.rested()

            save, changed = document.save_outputs, document.changed
            self.saver = OutputSaver(document.path, self.runs, save, changed, at_rest)
        return KeptPlace(self.saver)

    # --- cells that run

    @asynccontextmanager
    async def writing(
        self, document: SessionDocument, cell: str
    ) -> AsyncGenerator[CellOutputWriter]:
        """See `NotebookDocument.writing`."""
        entered = await document.enter(lambda snapshot: runnable(snapshot, cell))
        writer = CellOutputWriter(self, document, entered)
        self.writers.append(writer)
        if self.active is not None:
            self.active.add(self)
        try:
            yield writer
        finally:
            try:
                await writer.finish(None)
            finally:
                await writer.leave()

    @property
    def path(self) -> str | None:
        """Where the notebook is now, as long as cells of it run."""
        return self.writers[0].path if self.writers else None

    def remove(self, writer: CellOutputWriter) -> None:
        """A cell has ended, and all its outputs have arrived."""
        if writer in self.writers:
            self.writers.remove(writer)
        if not self.writers and self.active is not None:
            self.active.discard(self)

    async def deliver(self, document: SessionDocument) -> None:
        """Has the outputs of all running cells arrive in a document, before somebody reads it."""
        for writer in tuple(self.writers):
            writer.document = document
            try:
                await writer.deliver()
            except ToolError as error:
                writer.warn(error)

    def moved(self) -> None:
        """The notebook may be in another place now: a tab or a room opened."""
        for writer in self.writers:
            writer.wake()

    async def close(self) -> None:
        """Ends what waits for another place."""
        await self.tasks.close()


def runnable(snapshot: Snapshot, key: str) -> Cell:
    """The code cell with this key, of a notebook that can be written.

    Raises:
        CellNotFound, UnsupportedFormat.
    """
    if snapshot.nbformat[0] != 4:
        raise UnsupportedFormat(f"{snapshot.path} is of nbformat {snapshot.nbformat[0]}.")
    cell = cell_of(snapshot, key)
    if cell.type != "code":
        raise CellNotFound(f"`{key}` of {snapshot.path} is a {cell.type} cell: it cannot run.")
    return cell


def cell_of(snapshot: Snapshot, key: str) -> Cell:
    """The cell with this key.

    Raises:
        CellNotFound.
    """
    cell = snapshot.by_key.get(key)
    if cell is None:
        raise CellNotFound(f"There is no cell `{key}` in {snapshot.path}.")
    return cell
