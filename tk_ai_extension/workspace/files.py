"""Files beside the notebooks, as tools see them; a composition root says where they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol


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
