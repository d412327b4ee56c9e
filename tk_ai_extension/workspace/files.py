"""The protocol for listing, reading and writing files. A composition root provides the implementation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal, Protocol

from tk_ai_extension.model.errors import PathRefused, ToolError

MAX_DEPTH = 12
"""Maximum depth of folders in `walk`."""
MAX_ENTRIES = 20_000
"""Maximum entries that `walk` yields."""


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

    async def list(self, path: str) -> list[FileEntry]:
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

    async def write_text(self, path: str, text: str) -> None:
        """Write a text file, creating it if needed; its folder must exist.

        Raises:
            PathRefused: See `locate`, or the file is not writable.
            FileMissing: The folder does not exist.
            SaveFailed: It could not be written.
        """
        ...

    async def remove(self, path: str) -> None:
        """Remove a text file.

        Raises:
            PathRefused: See `locate`, or the file cannot be removed.
            FileMissing: The file does not exist.
        """
        ...


def no_notebook(path: str, *names: str) -> str:
    """Return a path unless it is a notebook's.

    Args:
        path: The path below the root.
        names: Further names of the same file, such as the target of a link.

    Raises:
        PathRefused: It is a notebook's.
    """
    if any(name.lower().endswith(".ipynb") for name in (path, *names)):
        raise PathRefused(
            f"`{path}` is a notebook. It is not written as a file.",
            hint="Use the tools insert_cell, overwrite_cell and delete_cell, or create_notebook.",
        )
    return path


async def walk(files: Files, path: str, *, recursive: bool) -> AsyncIterator[FileEntry]:
    """Yield the entries below a folder, each folder before its contents, up to the limits."""
    waiting = [(path.strip("/"), 0)]
    count = 0
    while waiting:
        folder, depth = waiting.pop()
        try:
            entries = await files.list(folder)
        except ToolError:
            if depth == 0:
                raise
            continue  # Skip a folder that cannot be listed.
        for entry in entries:
            count += 1
            if count > MAX_ENTRIES:
                return
            yield entry
        if recursive and depth < MAX_DEPTH:
            waiting += [(e.path, depth + 1) for e in reversed(entries) if e.kind == "directory"]
