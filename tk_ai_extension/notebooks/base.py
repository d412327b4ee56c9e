"""The contract of a notebook document, whatever holds it."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from tk_ai_extension.model.cells import Cell, Json, Snapshot
from tk_ai_extension.model.errors import (
    DiskFull,
    NotebookNotFound,
    ReadOnly,
    SaveFailed,
    ToolError,
)
from tk_ai_extension.model.operations import Applied, Operation
from tk_ai_extension.model.outputs import OutputChange

_FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_REFUSED = frozenset((errno.EACCES, errno.EPERM, errno.EROFS))

SAVE_INTERVAL = 2.0
"""Seconds within which the outputs of a running cell are in the file on disk.

Where a save itself takes long (a large file, a slow disk) it is longer: the next save waits ten times
as long as the last one took, a minute at most.
"""


def save_error(error: OSError, path: str) -> ToolError:
    """The typed error for a failure to write ``path``."""
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return DiskFull(f"{path} cannot be saved: {reason}.")
    if error.errno in _REFUSED:
        return ReadOnly(f"{path} cannot be written: {reason}.")
    if error.errno == errno.ENOENT:
        return NotebookNotFound(f"{path} is gone.")
    return SaveFailed(f"{path} cannot be saved: {reason}.")


class FileChanged(Exception):
    """Somebody else wrote the file since it was read."""


class OutputWriter(Protocol):
    """Streams the outputs of one running cell into a notebook.

    It is used by one task. The cell may be moved, edited or deleted by others meanwhile: outputs
    follow the cell by its key, and go nowhere once it is deleted. Without `start` nothing is changed.
    """

    @property
    def cell(self) -> Cell:
        """The cell as it was found: outputs go to this one, so what runs is decided by it."""
        ...

    async def start(self) -> None:
        """Clear the cell's outputs and count and mark it as running where the document can."""
        ...

    async def write(self, changes: Sequence[OutputChange]) -> None:
        """Take changes of the cell's outputs; on disk within `SAVE_INTERVAL` seconds.

        It waits for nothing: the executor's events are read meanwhile. Cost is linear in the
        changes, not in the outputs so far.
        """
        ...

    async def finish(self, execution_count: int | None, *, save: bool = True) -> None:
        """Set the count, mark the cell as idle and has it saved; also called after an error.

        A file is saved when this returns, a room within a second. Without ``save`` a file is saved
        as while the cell ran: for one of many cells, after the last of which `flush` is called.
        """
        ...


class NotebookDocument(Protocol):
    """One notebook, opened through `NotebookStore`; cheap to open, holds nothing that must be closed.

    All methods are coroutines that never hold the event loop for long. Two documents of one path
    within one server exclude each other where it matters.
    """

    @property
    def path(self) -> str:
        """The path relative to the root, with forward slashes."""
        ...

    @property
    def backend(self) -> str:
        """``file``, ``room``, ``tab`` or ``contents``."""
        ...

    async def read(self) -> Snapshot:
        """The notebook as it is now, without outputs.

        Raises:
            NotebookNotFound, NotANotebook, InvalidNotebook.
        """
        ...

    async def outputs(self, cell: str) -> tuple[Json, ...]:
        """The outputs of the cell with this key, as nbformat dicts.

        Raises:
            CellNotFound.
        """
        ...

    async def raw(self) -> Json:
        """The whole notebook as JSON, outputs included (`nbformat` 4 form where it is 4)."""
        ...

    async def apply(self, operations: Sequence[Operation]) -> Applied:
        """Apply operations in order, all or none, saves, and reads back what came of it.

        Raises:
            Conflict: an ``expect`` does not match; nothing was changed.
            CellNotFound, InvalidArguments: a cell or an index that does not exist.
            UnsupportedFormat, ReadOnly, DiskFull, SaveFailed: nothing was changed.
        """
        ...

    def writing(self, cell: str) -> AbstractAsyncContextManager[OutputWriter]:
        """A writer for the outputs of a cell about to run; pins what has to stay open meanwhile.

        Raises (on entering):
            CellNotFound, UnsupportedFormat.
        """
        ...

    async def flush(self) -> None:
        """Save the outputs of cells that ended without a save; a file is saved when this returns.

        Raises:
            ReadOnly, DiskFull, SaveFailed, NotebookNotFound.
        """
        ...


class NotebookStore(Protocol):
    """Says which document holds a path, and makes new ones."""

    async def open(self, path: str, *, read_only: bool = False) -> NotebookDocument:
        """The document that holds this path now. Call it anew for each operation.

        With ``read_only`` it is read and nothing else: no room is opened for it, so that listing or
        searching many notebooks does not bring them all to life.

        Raises:
            PathRefused, NotANotebook, NotebookNotFound.
        """
        ...

    async def create(self, path: str, notebook: Json) -> NotebookDocument:
        """Write a new notebook file.

        Raises:
            NotebookExists, PathRefused, NotANotebook, FileMissing (no such folder), ReadOnly, DiskFull.
        """
        ...

    async def exists(self, path: str) -> bool:
        """Return whether something is at that path."""
        ...

    def subscribe(self, path: str, changed: Callable[[], None]) -> Callable[[], None]:
        """Call ``changed`` when the notebook changes by anybody's hand; return how to stop that."""
        ...

    async def close(self) -> None:
        """Lets go of what the store holds; documents must not be used afterwards."""
        ...
