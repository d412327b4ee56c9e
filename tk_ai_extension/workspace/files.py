"""Files beside the notebooks, as tools see them; a composition root says where they come from."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal, Protocol

from tk_ai_extension.model.errors import ToolError

MAX_DEPTH = 12
"""How many folders deep `walk` goes."""
MAX_ENTRIES = 20_000
"""How many entries `walk` gives."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file, notebook or folder.

    Attributes:
        path: Relative to the root, with forward slashes.
        size: Bytes; None for folders and where it is not known.
        modified: Seconds since the epoch.
    """

    path: str
    kind: Literal["file", "notebook", "directory"]
    size: int | None = None
    modified: float | None = None


class Files(Protocol):
    """Lists folders and reads text files below the root; hidden files do not exist here."""

    async def list(self, path: str) -> list[FileEntry]:
        """What is in a folder, sorted by name.

        Raises:
            PathRefused, FileMissing.
        """
        ...

    async def read_text(self, path: str) -> str:
        """A text file, whole.

        Raises:
            PathRefused, FileMissing, NotReadable (binary, a folder, too large).
        """
        ...


async def walk(files: Files, path: str, *, recursive: bool) -> AsyncIterator[FileEntry]:
    """The entries below a folder, folders before what is in them, bounded in depth and number."""
    waiting = [(path.strip("/"), 0)]
    count = 0
    while waiting:
        folder, depth = waiting.pop()
        try:
            entries = await files.list(folder)
        except ToolError:
            if depth == 0:
                raise
            continue  # one folder that cannot be listed does not hide the others
        for entry in entries:
            count += 1
            if count > MAX_ENTRIES:
                return
            yield entry
        if recursive and depth < MAX_DEPTH:
            waiting += [(e.path, depth + 1) for e in reversed(entries) if e.kind == "directory"]
