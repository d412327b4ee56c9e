"""The interfaces of notebook documents and of the store that opens them."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.model.errors import (
    DiskFull,
    NotebookNotFound,
    ReadOnly,
    SaveFailed,
    ToolError,
)
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.operations import Applied, Operation
from tk_ai_extension.model.outputs import OutputChange

_FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_REFUSED = frozenset((errno.EACCES, errno.EPERM, errno.EROFS))

SAVE_INTERVAL = 2.0
"""Seconds within which the outputs of a running cell are on disk.

If a save itself is slow (a large file, a slow disk) it takes longer: the next save waits ten times the
duration of the last one, up to a minute.
"""


def save_error(error: OSError, path: str) -> ToolError:
    """Return the typed error for a failure to write ``path``."""
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return DiskFull(f"{path} cannot be saved: {reason}.")
    if error.errno in _REFUSED:
        return ReadOnly(f"{path} cannot be written: {reason}.")
    if error.errno == errno.ENOENT:
        return NotebookNotFound(f"{path} is gone.")
    return SaveFailed(f"{path} cannot be saved: {reason}.")


class FileChanged(Exception):
    """Another program wrote the file since it was read."""


class OutputWriter(Protocol):
    """Streams the outputs of one running cell into a notebook.

    For use by one task. Others may move, edit or delete the cell meanwhile: outputs follow the cell by
    its key and are dropped once it is deleted. Before `start` nothing is changed.
    """

    @property
    def cell(self) -> Cell:
        """The cell as it was found. Execute its source: the outputs go to this cell."""
        ...

    async def start(self) -> None:
        """Clear the cell's outputs and count, and mark it as running if the document can."""
        ...

    async def write(self, changes: Sequence[OutputChange]) -> None:
        """Apply changes to the cell's outputs; they are on disk within `SAVE_INTERVAL` seconds.

        Returns without waiting, so that the executor's events are read without delay. The cost is
        linear in the changes, independent of the outputs so far.
        """
        ...

    async def finish(self, execution_count: int | None, *, save: bool = True) -> None:
        """Set the count, mark the cell as idle, and save; also called after an error.

        A file is saved when this returns, a tab within a second. Without ``save`` a file is autosaved
        as during the run; for one of several cells, with a `flush` after the last one.

        Args:
            execution_count: The kernel's count, None if the cell did not run.
            save: Whether to save now.
        """
        ...


class NotebookDocument(Protocol):
    """A notebook, opened through `NotebookStore`; cheap to open, and needs no closing.

    >>> import asyncio, nbformat, pathlib, tempfile
    >>> from tk_ai_extension.model.cells import CellContent
    >>> from tk_ai_extension.model.operations import Insert
    >>> from tk_ai_extension.notebooks.files import NotebookFiles
    >>> async def add_cell(folder: str) -> list[str]:
    ...     nbformat.write(nbformat.v4.new_notebook(), pathlib.Path(folder, "a.ipynb"))
    ...     store = NotebookFiles(pathlib.Path(folder), None)
    ...     document = await store.open("a.ipynb")
    ...     await document.apply([Insert(CellContent("code", "1 + 1"))])
    ...     return [cell.source for cell in (await document.read()).cells]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     asyncio.run(add_cell(folder))
    ['1 + 1']

    No method blocks the event loop for long. Writes through two documents of one path in a server are
    serialized.
    """

    @property
    def path(self) -> str:
        """The path relative to the root, with forward slashes."""
        ...

    @property
    def backend(self) -> str:
        """``file``, ``tab`` or ``contents``."""
        ...

    async def read(self) -> Snapshot:
        """Return a snapshot of the notebook, without outputs.

        Raises:
            NotebookNotFound, InvalidArguments, InvalidNotebook.
        """
        ...

    async def outputs(self, cell: str) -> tuple[Json, ...]:
        """Return the outputs of the cell with this key, as nbformat dicts.

        Raises:
            CellNotFound.
        """
        ...

    async def raw(self) -> Json:
        """Return the whole notebook as JSON with outputs, in the form of `nbformat` 4."""
        ...

    async def apply(self, operations: Sequence[Operation]) -> Applied:
        """Apply operations in order as one transaction, save, and return the result.

        Raises:
            Conflict: an ``expect`` does not match; nothing was changed.
            CellNotFound, InvalidArguments: a cell or an index does not exist; nothing was changed.
            InvalidNotebook, ReadOnly, DiskFull, SaveFailed: nothing was changed.
        """
        ...

    def writing(self, cell: str) -> AbstractAsyncContextManager[OutputWriter]:
        """Return a writer for the outputs of a cell that is about to run.

        Raises (on entering):
            CellNotFound, InvalidNotebook.
        """
        ...

    async def flush(self) -> None:
        """Flush the outputs of cells that ended without a save; a file is saved when this returns.

        Raises:
            ReadOnly, DiskFull, SaveFailed, NotebookNotFound.
        """
        ...


class NotebookStore(Protocol):
    """Opens the document that holds a path, and creates notebooks."""

    async def open(self, path: str) -> NotebookDocument:
        """Return the document that holds this path now. Call it again for each operation.

        Args:
            path: The notebook's path.

        Raises:
            PathRefused, InvalidArguments, NotebookNotFound.
        """
        ...

    async def create(self, path: str, notebook: Json) -> NotebookDocument:
        """Create a notebook.

        Raises:
            NotebookExists, PathRefused, InvalidArguments, FileMissing (no such folder), ReadOnly, DiskFull.
            Conflict, OpenTwice, TabOffline: the file is gone, and a tab has unsaved changes.
        """
        ...

    async def copy(self, source: NotebookDocument, path: str) -> NotebookDocument:
        """Write a copy of a notebook, byte for byte if it is a file; a file at the path is replaced.

        Raises:
            PathRefused, InvalidArguments, FileMissing (no such folder), ReadOnly, DiskFull.
            NotebookExists: notebooks are not kept in files, and there is one at the path.
        """
        ...

    async def exists(self, path: str) -> bool:
        """Return whether a file or folder exists at a path."""
        ...

    def file_of(self, path: str) -> str:
        """Return what identifies a notebook's file: the same for all names that lead to it."""
        ...

    def renamed(self, old: str, new: str) -> None:
        """Have open documents follow a notebook or a folder that Jupyter has renamed."""
        ...

    def is_open(self, path: str) -> bool:
        """Return whether people have a notebook open, under any of its names."""
        ...

    async def close(self) -> None:
        """Release all resources; documents must not be used afterwards."""
        ...
