"""Files below a plain folder, used without a Jupyter Server's contents manager."""

from __future__ import annotations

import asyncio
import builtins
import errno
import os
from pathlib import Path
from typing import Literal

from tk_ai_extension.model.errors import (
    FileMissing,
    LimitReached,
    NotReadable,
    PathRefused,
    ToolError,
    is_out_of_files,
)
from tk_ai_extension.notebooks.atomic_file import open_regular
from tk_ai_extension.workspace.files import (
    FileEntry,
    WriteLocks,
    encoded,
    names_notebook,
    no_notebook,
)
from tk_ai_extension.workspace.paths import contain, folder_path, is_contained

MAX_BYTES = 20_000_000
"""Maximum bytes of a text file."""


class FolderFiles:
    """Implementation of `workspace.files.Files` for a folder.

    Args:
        root: The folder.
        max_bytes: Maximum bytes of a file that can be read.
    """

    def __init__(self, root: Path, max_bytes: int = MAX_BYTES) -> None:
        self._root = root
        self._max_bytes = max_bytes
        self._writes = WriteLocks()

    async def list(self, path: str) -> builtins.list[FileEntry]:
        """Return the entries of a folder, sorted by name, without hidden ones."""
        return await asyncio.to_thread(self._list, folder_path(self._root, path))

    async def read_text(self, path: str) -> str:
        """Return the content of a text file."""
        return await asyncio.to_thread(self._read, contain(self._root, path))

    def locate(self, path: str) -> str:
        """Return the path of a text file below the root."""
        path = contain(self._root, path)
        return no_notebook(path, str(self._resolved(path)))

    def is_notebook(self, path: str) -> bool:
        """Return whether a path is a notebook's, itself or through a link."""
        path = contain(self._root, path)
        return names_notebook(path, str(self._resolved(path)))

    async def replace(self, path: str, before: str | None, after: str | None) -> None:
        """Write or remove a text file that has a known content."""
        from tk_ai_extension.workspace.file_writes import replace_on_disk

        path = self.locate(path)
        file = self._resolved(path)
        old, new = (None if text is None else encoded(path, text) for text in (before, after))
        async with self._writes.of(str(file)):
            await asyncio.to_thread(replace_on_disk, file, path, old, new)

    def _resolved(self, path: str) -> Path:
        return Path(os.path.realpath(self._root / path))

    def _list(self, folder: str) -> builtins.list[FileEntry]:
        try:
            with os.scandir(self._root / folder) as entries:
                found = [_entry(folder, entry) for entry in entries if entry.name[0] != "."]
        except OSError as error:
            raise _refusal(folder or "the root", error) from None
        shown = [entry for entry in found if is_contained(self._root, entry.path)]
        return sorted(shown, key=lambda entry: entry.path)

    def _read(self, path: str) -> str:
        try:
            with open_regular(self._resolved(path)) as file:
                size = os.fstat(file.fileno()).st_size
                if size > self._max_bytes:
                    raise NotReadable(
                        f"`{path}` has {size:,} bytes; the limit is {self._max_bytes:,}.",
                        hint="Read it with code in a kernel.",
                    )
                return file.readall().decode("utf-8")
        except UnicodeDecodeError:
            raise NotReadable(f"`{path}` is not UTF-8 text.") from None
        except OSError as error:
            raise _refusal(path, error) from None


def _entry(folder: str, entry: os.DirEntry[str]) -> FileEntry:
    kind: Literal["file", "notebook", "directory"] = "file"
    if entry.is_dir():
        kind = "directory"
    elif entry.name.endswith(".ipynb"):
        kind = "notebook"
    path = f"{folder}/{entry.name}" if folder else entry.name
    try:
        found = entry.stat()
    except OSError:  # A broken link.
        return FileEntry(path, kind)
    return FileEntry(path, kind, None if kind == "directory" else found.st_size, found.st_mtime)


def _refusal(path: str, error: OSError) -> ToolError:
    if is_out_of_files(error):
        return LimitReached(
            f"`{path}` cannot be opened: {error.strerror}.",
            hint="Shut down unused kernels, or restart the server with a higher `ulimit -n`.",
        )
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return FileMissing(f"`{path}` does not exist.")
    if isinstance(error, IsADirectoryError):
        return NotReadable(f"`{path}` is a folder.")
    if error.errno == errno.EINVAL:
        return NotReadable(f"`{path}` is not a regular file.")
    return PathRefused(f"`{path}` is not accessible.")
