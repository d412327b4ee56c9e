"""Files below a plain folder, where there is no Jupyter Server whose contents manager has them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Literal

from tk_ai_extension.model.errors import FileMissing, NotReadable, PathRefused
from tk_ai_extension.workspace.files import FileEntry
from tk_ai_extension.workspace.paths import contain, folder_path, is_contained

MAX_BYTES = 20_000_000
"""Bytes of a text file; a larger one is read by code in a kernel."""


class FolderFiles:
    """`workspace.files.Files` of a folder.

    Args:
        root: The folder.
        max_bytes: The bound on a file that is read.
    """

    def __init__(self, root: Path, max_bytes: int = MAX_BYTES) -> None:
        self._root = root
        self._max_bytes = max_bytes

    async def list(self, path: str) -> list[FileEntry]:
        """What is in a folder, sorted by name, but for what is hidden."""
        return await asyncio.to_thread(self._list, folder_path(self._root, path))

    async def read_text(self, path: str) -> str:
        """A text file, whole."""
        return await asyncio.to_thread(self._read, contain(self._root, path))

    def _list(self, folder: str) -> list[FileEntry]:
        try:
            with os.scandir(self._root / folder) as entries:
                found = [_entry(folder, entry) for entry in entries if entry.name[0] != "."]
        except OSError as error:
            raise _refusal(folder or "the root", error) from None
        shown = [entry for entry in found if is_contained(self._root, entry.path)]
        return sorted(shown, key=lambda entry: entry.path)

    def _read(self, path: str) -> str:
        try:
            with (self._root / path).open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size > self._max_bytes:
                    raise NotReadable(
                        f"`{path}` has {size:,} bytes; at most {self._max_bytes:,} are read.",
                        hint="Read it with code in a kernel.",
                    )
                return file.read().decode("utf-8")
        except UnicodeDecodeError:
            raise NotReadable(f"`{path}` cannot be read as text: it is not UTF-8.") from None
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
    except OSError:  # a link to nowhere
        return FileEntry(path, kind)
    return FileEntry(path, kind, None if kind == "directory" else found.st_size, found.st_mtime)


def _refusal(path: str, error: OSError) -> FileMissing | NotReadable | PathRefused:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return FileMissing(f"There is nothing at `{path}`.")
    if isinstance(error, IsADirectoryError):
        return NotReadable(f"`{path}` is a folder.")
    return PathRefused(f"`{path}` may not be read.")
