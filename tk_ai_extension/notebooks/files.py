"""Notebook files, each with its content in memory and the descriptor of its folder.

The folder is opened once: a link that appears later on the way to the file leads nowhere. A file is
replaced atomically, and only while it is the one that was read.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
import time
from collections import OrderedDict
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import disk_usage
from typing import TYPE_CHECKING, Literal
from weakref import WeakValueDictionary

from tk_ai_extension.model.errors import (
    DiskFull,
    InvalidArguments,
    InvalidNotebook,
    LimitReached,
    NotebookNotFound,
    NotReadable,
    SaveFailed,
    is_out_of_files,
)
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.notebooks.atomic_file import (
    FileChanged,
    FileVersion,
    Folder,
    folder_below,
    typed_errors,
)
from tk_ai_extension.notebooks.reading import StoredNotebook, read_notebook
from tk_ai_extension.notebooks.stored import Make, NotebookText

if TYPE_CHECKING:
    from tk_ai_extension.notebooks.save_hooks import SaveHooks

MAX_FILES = 64
MAX_KEPT = 128_000_000
"""Maximum number of files that are cached, and maximum bytes of their content."""

_TRIES = 5
_WRITER_DELAYS = (0.05, 0.1, 0.2, 0.4)
"""Seconds between attempts to read a file that a program such as JupyterLab is writing in place."""

_Known = tuple[FileVersion, StoredNotebook]


class NotebookFile(NotebookText):
    """A notebook file.

    Unedited cells stay byte-identical, unknown fields are kept, the format is not upgraded, and the
    file is replaced atomically, so that a crash leaves the old or the new content. The contents
    manager's save hooks run.

    Args:
        folder: The file's folder.
        name: Its name there.
        hooks: The contents manager's save hooks, or None.
    """

    kind = "file"

    def __init__(self, folder: Folder, name: str, hooks: SaveHooks | None) -> None:
        super().__init__()
        self.folder = folder
        self.name = name
        self._hooks = hooks
        self._reading = asyncio.Lock()
        self._known: _Known | None = None

    @property
    def weight(self) -> int:
        """Bytes in memory."""
        return self._known[1].size if self._known is not None else 0

    async def load(self, path: str) -> StoredNotebook:
        """See `NotebookText.load`; costs a stat if nothing changed."""
        return (await self._load(path))[1]

    async def _load(self, path: str) -> _Known:
        async with self._reading:
            for delay in (*_WRITER_DELAYS, None):
                with _read_errors(path):
                    status = self.folder.stat(self.name)
                    if self._known is not None and self._known[0] == FileVersion.of(status):
                        return self._known
                    version, data = await asyncio.to_thread(self.folder.read, self.name)
                try:
                    notebook = await asyncio.to_thread(read_notebook, data, path)
                except InvalidNotebook:
                    if delay is None or time.time() - status.st_mtime > 1.0:
                        raise
                    await asyncio.sleep(delay)
                else:
                    self._known = version, notebook
                    return self._known
        raise AssertionError

    def check_writable(self, path: str) -> None:
        """See `NotebookText.check_writable`."""
        with typed_errors(path):
            self.folder.check_writable(self.name)
            is_full = disk_usage(self.folder.path).free < self.folder.stat(self.name).st_size
        if is_full:
            raise DiskFull(f"{path} cannot be saved: the disk is full.")

    def _write(self, notebook: StoredNotebook, version: FileVersion) -> FileVersion:
        return self.folder.replace(self.name, notebook.data, version)

    async def rewrite(self, path: str, make: Make) -> StoredNotebook:
        """See `NotebookText.rewrite`."""
        if self._hooks is not None:
            await self._hooks.rooms.save(path)
        for _ in range(_TRIES):
            version, before = await self._load(path)
            after = await asyncio.to_thread(make, before)
            if after is before:
                return before
            if self._hooks is not None:
                after = await self._hooks.pre_save(path, after)
            try:
                with typed_errors(path):
                    version = await asyncio.to_thread(self._write, after, version)
            except FileChanged:
                continue
            self._known = version, after
            if self._hooks is not None:
                await self._hooks.saved(path, self.folder.path / self.name)
            return after
        raise SaveFailed(f"{path} cannot be saved: other programs keep writing it.")


class NotebookFiles:
    """The notebook files below a folder.

    Args:
        root: The folder.
        hooks: The contents manager's save hooks, or None.
        linked: Folders outside the root that links may lead to.
    """

    def __init__(
        self,
        root: Path,
        hooks: SaveHooks | None,
        linked: Sequence[Path] = (),
    ) -> None:
        self._root = root
        self._bases = [Path(os.path.realpath(folder)) for folder in (root, *linked)]
        self._hooks = hooks
        self._folders: WeakValueDictionary[Path, Folder] = WeakValueDictionary()
        # Two objects for one file would not serialize writes: while a document uses one, it is found
        # here by its folder and name. Recent ones are kept as a cache of their content.
        self._files: WeakValueDictionary[tuple[int, int, str], NotebookFile] = WeakValueDictionary()
        self._recent: OrderedDict[NotebookFile, None] = OrderedDict()

    async def open(self, path: str) -> NotebookFile:
        """See `text`."""
        return self.text(path)

    def text(self, path: str) -> NotebookFile:
        """Return the file at a contained path.

        Raises:
            NotebookNotFound, InvalidArguments, PathRefused.
        """
        file = Path(self.file_of(path))
        with _read_errors(path):
            folder = self._folder(file.parent)
            mode = folder.stat(file.name).st_mode
        if not stat.S_ISREG(mode):
            raise InvalidArguments(
                f"{path} is not a file.",
                hint="Use a path that ends in .ipynb. For other text files, call read_file.",
            )
        key = (*folder.key, file.name)
        known = self._files.get(key)
        if known is None:
            known = self._files[key] = NotebookFile(folder, file.name, self._hooks)
        known.folder = folder
        self._cache(known)
        return known

    def _folder(self, path: Path) -> Folder:
        """Return a folder without links on its path.

        Raises:
            PathRefused: It is not below the root.
            OSError: It does not exist, or has become a link.
        """
        known = self._folders.get(path)
        if known is not None and known.is_in_place():
            return known
        known = self._folders[path] = folder_below(path, self._bases)
        return known

    def file_of(self, path: str) -> str:
        """Return the file that a path leads to, which may not exist: a write replaces that file."""
        return os.path.realpath(self._root / path)

    async def exists(self, path: str) -> bool:
        """Return whether a file or folder exists at a path."""
        return (self._root / path).exists()

    async def create(self, path: str, notebook: Json) -> None:
        """Create a notebook as nbformat writes it: indent 1, sorted keys, a newline at the end.

        Raises:
            NotebookExists, FileMissing, ReadOnly, DiskFull, SaveFailed.
        """
        folder, _, name = path.rpartition("/")
        await self._write(path, Path(self.file_of(folder), name), _formatted(notebook), "new")

    async def write(self, path: str, notebook: Json) -> None:
        """Write a notebook as nbformat writes it; a file at the path is replaced.

        Raises:
            FileMissing, ReadOnly, DiskFull, SaveFailed.
        """
        await self._write(path, Path(self.file_of(path)), _formatted(notebook))

    async def copy(self, source: str, path: str) -> None:
        """Copy a notebook byte for byte; a file at the path is replaced.

        Raises:
            NotebookNotFound, FileMissing, ReadOnly, DiskFull, SaveFailed.
        """
        file = Path(self.file_of(source))
        with typed_errors(source):
            _, data = await asyncio.to_thread(self._folder(file.parent).read, file.name)
        await self._write(path, Path(self.file_of(path)), data)

    async def _write(
        self, path: str, target: Path, data: bytes, expected: Literal["new", "any"] = "any"
    ) -> None:
        if self._hooks is not None:
            data = (await self._hooks.pre_save(path, read_notebook(data, path))).data

        def write() -> None:
            with typed_errors(path, new=True):
                self._folder(target.parent).replace(target.name, data, expected)

        await asyncio.to_thread(write)
        if self._hooks is not None:
            await self._hooks.saved(path, target)

    def _cache(self, known: NotebookFile) -> None:
        if known in self._recent:
            self._recent.move_to_end(known)
            return
        self._recent[known] = None
        while len(self._recent) > MAX_FILES or (
            len(self._recent) > 1 and sum(file.weight for file in self._recent) > MAX_KEPT
        ):
            self._recent.popitem(last=False)

    async def close(self) -> None:
        """Release the files and folders."""
        self._recent.clear()
        for folder in list(self._folders.values()):
            folder.close()
        self._folders.clear()


def _formatted(notebook: Json) -> bytes:
    text = json.dumps(
        notebook, ensure_ascii=False, indent=1, sort_keys=True, separators=(",", ": ")
    )
    return f"{text}\n".encode("utf-8", "surrogatepass")


@contextmanager
def _read_errors(path: str) -> Generator[None]:
    """Convert OSErrors of reading to typed errors."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotebookNotFound(f"Notebook {path} does not exist.") from error
    except IsADirectoryError as error:
        raise InvalidArguments(
            f"{path} is a folder.",
            hint="Use a path that ends in .ipynb. For other text files, call read_file.",
        ) from error
    except OSError as error:
        kind = LimitReached if is_out_of_files(error) else NotReadable
        raise kind(f"{path} cannot be read: {error.strerror or error}.") from error
