"""The protocol for listing, reading and writing files. A composition root provides the implementation."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal, Protocol
from weakref import WeakValueDictionary

from tk_ai_extension.model.errors import (
    Conflict,
    InvalidArguments,
    NotReadable,
    PathRefused,
    ToolError,
)

MAX_DEPTH = 12
"""Maximum depth of folders in a `Walk`."""
MAX_ENTRIES = 20_000
"""Maximum entries that a `Walk` yields."""
MAX_NAMED = 5
"""Maximum names that a sentence lists."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file, notebook or folder.

    Attributes:
        path: The path relative to the root, with forward slashes.
        size: The size in bytes; None for folders or if unknown.
        modified: The time of the last change, in seconds since the epoch.
    """

    path: str
    kind: Literal["file", "notebook", "directory"]
    size: int | None = None
    modified: float | None = None


class Files(Protocol):
    """Lists folders, reads and writes text files below the root, without hidden files."""

    async def list(self, path: str) -> builtins.list[FileEntry]:
        """Return the entries of a folder, sorted by name.

        Raises:
            PathRefused: The path is outside the root, hidden, or not accessible.
            FileMissing: The folder does not exist.
        """
        ...

    async def read_text(self, path: str) -> str:
        """Return the content of a text file.

        Raises:
            PathRefused: The path is outside the root, hidden, or not accessible.
            FileMissing: The file does not exist.
            NotReadable: It is a folder, binary, or too large.
        """
        ...

    def locate(self, path: str) -> str:
        """Return the path below the root of a text file, which may not exist.

        Raises:
            PathRefused: The path is outside the root, hidden, or a notebook's: notebooks are only
                changed by the tools, cell by cell.
        """
        ...

    def is_notebook(self, path: str) -> bool:
        """Return whether a path is a notebook's, itself or through a link.

        Raises:
            PathRefused: The path is outside the root or hidden.
        """
        ...

    async def replace(self, path: str, before: str | None, after: str | None) -> None:
        """Write or remove a text file that has a known content (compare-and-set).

        Of several callers that expect the same content, one succeeds. Readers get the old or the new
        content, even after a crash, as far as the storage allows it.

        Args:
            path: The path. The folder must exist.
            before: The content that the file must have; None if it must not exist.
            after: The new content; None to remove the file.

        Raises:
            Conflict: The file has another content.
            InvalidArguments: The new content is not valid Unicode.
            PathRefused: See `locate`, or the file is not writable.
            FileMissing: The folder does not exist.
            ReadOnly, DiskFull, SaveFailed: It could not be written. Nothing was changed, or the message
                says that the old content could not be restored.
        """
        ...


class WriteLocks:
    """Locks of files, by which a comparison and the write after it are one step in this process."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def of(self, file: str) -> AsyncGenerator[None]:
        """Hold the lock of a file.

        Args:
            file: The file that all of its names lead to.
        """
        lock = self._locks.setdefault(file, asyncio.Lock())
        async with lock:
            yield


async def read_as_text(files: Files, path: str) -> str:
    """Return the content of a text file that an agent asked for.

    Raises:
        NotReadable: It is a notebook, which the tools read; or see `Files.read_text`.
        PathRefused, FileMissing: See `Files.read_text`.
    """
    if files.is_notebook(path):
        raise NotReadable(f"`{path}` is a notebook.", hint="Use the tool read_notebook.")
    return await files.read_text(path)


def encoded(path: str, text: str) -> bytes:
    """Return the bytes of a text file.

    Raises:
        InvalidArguments: The text is not valid Unicode.
    """
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidArguments(
            f"The text for `{path}` contains a lone surrogate, which is not a character.",
            hint="Remove it.",
        ) from None


def changed_since(path: str) -> Conflict:
    """Return the error for a file that has another content than the caller expects."""
    return Conflict(f"`{path}` changed since it was read.", hint="Read it again.")


def names_notebook(*names: str) -> bool:
    """Return whether one of the names of a file is a notebook's."""
    return any(name.lower().endswith(".ipynb") for name in names)


def no_notebook(path: str, *names: str) -> str:
    """Return a path unless it is a notebook's.

    Args:
        path: The path below the root.
        names: Further names of the same file, such as the target of a link.

    Raises:
        PathRefused: It is a notebook's.
    """
    if names_notebook(path, *names):
        raise PathRefused(
            f"`{path}` is a notebook. It is not written as a file.",
            hint="Use the tools insert_cell, overwrite_cell and delete_cell, or create_notebook.",
        )
    return path


class Walk:
    """The entries below a folder, each folder before its contents, up to the limits.

    What it left out is known once it has ended: without that, nobody may conclude that something
    does not exist.

    Args:
        files: The files below the root.
        path: The folder.
        recursive: Whether to list the folders below it.
    """

    def __init__(self, files: Files, path: str, *, recursive: bool) -> None:
        self._files = files
        self._path = path.strip("/")
        self._recursive = recursive
        self._is_full = False
        self._skipped: list[str] = []

    async def __aiter__(self) -> AsyncIterator[FileEntry]:
        """Yield the entries.

        Raises:
            ToolError: The folder cannot be listed.
        """
        waiting = [(self._path, 0)]
        count = 0
        while waiting:
            folder, depth = waiting.pop()
            try:
                entries = await self._files.list(folder)
            except ToolError:
                if depth == 0:
                    raise
                self._skipped.append(folder)
                continue
            for entry in entries:
                count += 1
                if count > MAX_ENTRIES:
                    self._is_full = True
                    return
                yield entry
            below = [entry.path for entry in entries if entry.kind == "directory"]
            if depth == MAX_DEPTH:
                self._skipped += below
            elif self._recursive:
                waiting += [(each, depth + 1) for each in reversed(below)]

    @property
    def left_out(self) -> list[str]:
        """Sentences that say what was not listed; empty if everything was."""
        sentences: list[str] = []
        if self._is_full:
            sentences.append(
                f"Only the first {MAX_ENTRIES:,} files and folders were looked at: use a narrower path."
            )
        if self._skipped:
            names = some_of([f"`{each}`" for each in self._skipped])
            sentences.append(
                f"Folders that cannot be listed, or are below {MAX_DEPTH} others, were left out: {names}."
            )
        return sentences


def some_of(names: Sequence[str]) -> str:
    """Return the first names of a list, and how many more there are."""
    shown = ", ".join(names[:MAX_NAMED])
    more = len(names) - MAX_NAMED
    return f"{shown} and {more} more" if more > 0 else shown
