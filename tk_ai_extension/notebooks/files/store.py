"""The notebook files of a server, with one shared state for each file in use."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from tk_ai_extension.model.errors import NotANotebook, NotebookNotFound
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.paths import moved
from tk_ai_extension.notebooks.files.document import FileDocument
from tk_ai_extension.notebooks.files.indexer import Indexer
from tk_ai_extension.notebooks.files.indexing import read_consistent
from tk_ai_extension.notebooks.files.saving import create_file, typed_errors, write_file
from tk_ai_extension.notebooks.files.state import NotebookFile

if TYPE_CHECKING:
    from tk_ai_extension.notebooks.files.hooks import SaveHooks

MAX_FILES = 64
MAX_CHARACTERS = 64_000_000
"""Maximum number of indexes that are cached, and maximum characters of source in them."""


def _formatted(notebook: Json) -> bytes:
    text = json.dumps(
        notebook, ensure_ascii=False, indent=1, sort_keys=True, separators=(",", ": ")
    )
    return f"{text}\n".encode("utf-8", "surrogatepass")


class NotebookFiles:
    """The notebook files below a folder.

    Args:
        root: The folder.
        hooks: The contents manager's save hooks, or None.
        changed: Called with a notebook's path after each change by this server.
        warn: Called with warnings for people, such as that a file was recovered.
    """

    def __init__(
        self,
        root: Path,
        hooks: SaveHooks | None,
        changed: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> None:
        self._root = root
        self._hooks = hooks
        self._changed = changed
        self._warn = warn
        self._indexer = Indexer()
        # Two objects for one file would not serialize writes: while a document uses one, it is found
        # here. Recent ones are kept as a cache of indexes.
        self._files: WeakValueDictionary[Path, NotebookFile] = WeakValueDictionary()
        self._recent: OrderedDict[Path, NotebookFile] = OrderedDict()

    async def open(self, path: str) -> FileDocument:
        """Return the document of the file at a contained path.

        Raises:
            NotebookNotFound, NotANotebook.
        """
        file = (self._root / path).resolve()
        known = self._files.get(file)
        if not file.exists():
            known = self._find_running(file, path)
            if known is None:
                raise NotebookNotFound(f"Notebook {path} does not exist.")
            file = known.file
        if not file.is_file():
            raise NotANotebook(f"{path} is not a file.")
        if known is None:
            known = self._files[file] = NotebookFile(
                file, self._indexer, self._hooks, self._moved_on_disk, self._warn
            )
        self._remember(file, known)
        return FileDocument(path, known, self._changed)

    def _find_running(self, file: Path, path: str) -> NotebookFile | None:
        """Return the moved notebook that was at a path before, if cells of it are running."""
        known = self._files.get(file)
        if known is not None and known.find_moved():
            return known
        return next(
            (k for k in self._files.values() if k.session.saver is not None and path in k.names),
            None,
        )

    def file_of(self, path: str) -> str:
        """Return the file that a path leads to, which may not exist: a write replaces that file."""
        return str((self._root / path).resolve())

    async def exists(self, path: str) -> bool:
        """Return whether a file or folder exists at a path."""
        return (self._root / path).exists()

    async def create(self, path: str, notebook: Json) -> None:
        """Create a notebook as nbformat writes it: indent 1, sorted keys, a newline at the end.

        Raises:
            NotebookExists, FileMissing, ReadOnly, DiskFull, SaveFailed.
        """
        data = _formatted(notebook)
        if self._hooks is not None and self._hooks.before:
            data = await self._hooks.pre_save(path, data)
        target = self._root / path
        await asyncio.to_thread(create_file, target, data, path)
        if self._hooks is not None:
            await self._hooks.saved(path, target)
        self._changed(path)

    async def write(self, path: str, notebook: Json) -> None:
        """Write a notebook as nbformat writes it; a file at the path is replaced.

        Raises:
            FileMissing, ReadOnly, DiskFull, SaveFailed.
        """
        await self._write(path, _formatted(notebook))

    async def copy(self, source: str, path: str) -> None:
        """Copy a notebook byte for byte; a file at the path is replaced.

        Raises:
            NotebookNotFound, FileMissing, ReadOnly, DiskFull, SaveFailed.
        """
        with typed_errors(source):
            _, data = await asyncio.to_thread(read_consistent, (self._root / source).resolve())
        await self._write(path, data)

    async def _write(self, path: str, data: bytes) -> None:
        if self._hooks is not None and self._hooks.before:
            data = await self._hooks.pre_save(path, data)
        target = (self._root / path).resolve()
        await asyncio.to_thread(write_file, target, data, path)
        if self._hooks is not None:
            await self._hooks.saved(path, target)
        self._changed(path)

    def renamed(self, old: str, new: str) -> None:
        """Move the state of files after a person's rename of a notebook or a folder."""
        for known in list(self._files.values()):
            names = {
                name: place
                for name, current in known.names.items()
                if (place := moved(current, old, new)) is not None
            }
            if names:
                known.names |= names
                self._place(known, (self._root / next(iter(names.values()))).resolve())

    def _moved_on_disk(self, known: NotebookFile, place: Path) -> bool:
        """Accept a notebook's new path if it is below the root; return whether it was accepted."""
        root = self._root.resolve()
        if place.suffix != ".ipynb" or not place.is_relative_to(root):
            return False
        path = place.relative_to(root)
        if any(part.startswith(".") for part in path.parts):
            return False
        old = set(known.names.values())
        known.names = dict.fromkeys(known.names, path.as_posix())
        self._place(known, place)
        if self._hooks is not None:
            for name in old:
                self._hooks.moved(name, path.as_posix())
        return True

    def _place(self, known: NotebookFile, file: Path) -> None:
        """Register the state of a file under its new path."""
        if self._files.get(known.file) is known:
            del self._files[known.file]
        self._recent.pop(known.file, None)
        known.file = file
        self._files[file] = known

    async def close(self) -> None:
        """End the worker process for large files."""
        await self._indexer.close()

    def _remember(self, file: Path, known: NotebookFile) -> None:
        self._recent[file] = known
        self._recent.move_to_end(file)
        if len(self._recent) > 1 and self._is_over():
            self._recent.popitem(last=False)

    def _is_over(self) -> bool:
        if len(self._recent) > MAX_FILES:
            return True
        return sum(file.weight for file in self._recent.values()) > MAX_CHARACTERS
