"""The protocol for listing and reading files. A composition root provides the implementation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal, Protocol

from tk_ai_extension.model.errors import ToolError

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
    """Lists folders and reads text files below the root, without hidden files."""

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
