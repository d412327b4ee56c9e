"""Notebook files, each with its content in memory and the descriptor of its folder.

The folder is opened once: a link that appears later on the way to the file leads nowhere. A file is
replaced atomically, and only while it is the one that was read.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import disk_usage
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from tk_ai_extension.model.errors import (
    DiskFull,
    InvalidArguments,
    InvalidNotebook,
    LimitReached,
    NotebookNotFound,
    NotReadable,
    PathRefused,
    SaveFailed,
    is_out_of_files,
)
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.paths import moved
from tk_ai_extension.notebooks.atomic_file import (
    FileVersion,
    Folder,
    creation_errors,
    typed_errors,
    write_all,
)
from tk_ai_extension.notebooks.base import FileChanged
from tk_ai_extension.notebooks.reading import StoredNotebook, read_notebook
from tk_ai_extension.notebooks.stored import Make, NotebookText, TextDocument

if TYPE_CHECKING:
    from tk_ai_extension.notebooks.save_hooks import SaveHooks

MAX_FILES = 64
MAX_KEPT = 128_000_000
"""Maximum number of files that are cached, and maximum bytes of their content."""

_TRIES = 5
_WRITER_DELAYS = (0.05, 0.1, 0.2, 0.4)
"""Seconds to wait between attempts to read a file while another program is writing it."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The content of a file as it was read or written.

    Attributes:
        version: The file's version.
        notebook: Its content.
        is_racy: Whether another write could have resulted in the same version: the content is then
            compared before it is used.
    """

    version: FileVersion
    notebook: StoredNotebook
    is_racy: bool


class NotebookFile(NotebookText):
    """A notebook file.

    Unedited parts stay byte-identical, unknown fields are kept, the format is not upgraded, and the
    file is replaced atomically, so that a crash leaves the old or the new content. The contents
    manager's save hooks run.

    Args:
        folder: The file's folder.
        name: Its name there.
        hooks: The contents manager's save hooks, or None.
        moved: Called with this and the new path when another program moved the file while cells run;
            returns whether the new path is used.
    """

    kind = "file"

    def __init__(
        self,
        folder: Folder,
        name: str,
        hooks: SaveHooks | None,
        moved: Callable[[NotebookFile, Path], bool],
    ) -> None:
        super().__init__()
        self.folder = folder
        self.name = name
        self._hooks = hooks
        self._moved = moved
        self._anchor: int | None = None
        self._reading = asyncio.Lock()
        self._known: _Known | None = None

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self.folder.path / self.name

    @property
    def weight(self) -> int:
        """Bytes in memory."""
        return self._known.notebook.size if self._known is not None else 0

    # --- reading

    async def load(self, path: str) -> StoredNotebook:
        """See `NotebookText.load`; costs a stat if nothing changed."""
        return (await self._load(path)).notebook

    async def _load(self, path: str, *, settled: bool = True) -> _Known:
        known = self._known
        is_current = known is not None and known.version == self._version(path)
        if known is not None and is_current and not (known.is_racy and settled):
            return known
        async with self._reading:
            return await self._read(path)

    def _version(self, path: str) -> FileVersion:
        with _read_errors(path):
            if self._anchor is not None and not self.folder.is_in_place():
                self.find_moved()
            if not (self._is_there() or self.find_moved()):
                raise FileNotFoundError(self.name)
            return FileVersion.of(self.folder.stat(self.name))

    def _is_there(self) -> bool:
        """Return whether a file that is tracked is in its place, and no link; others are taken as found."""
        try:
            mode = self.folder.stat(self.name).st_mode
        except FileNotFoundError:
            return False
        return self._anchor is None or stat.S_ISREG(mode)

    async def _read(self, path: str) -> _Known:
        for delay in (*_WRITER_DELAYS, None):
            try:
                with _read_errors(path):
                    known = await asyncio.to_thread(self._read_once, path)
            except InvalidNotebook:
                if delay is None or not self._is_being_written():
                    raise
                await asyncio.sleep(delay)
            else:
                self._remember(known)
                return known
        raise AssertionError

    def _read_once(self, path: str) -> _Known:
        now = time.time_ns()
        version, data = self.folder.read(self.name)
        is_racy, known = version.is_racy(now), self._known
        if known is not None and known.version == version and known.notebook.data == data:
            return replace(known, is_racy=is_racy)
        return _Known(version, read_notebook(data, path), is_racy)

    def _is_being_written(self) -> bool:
        """Return whether a program that does not save atomically may be writing the file."""
        try:
            return time.time() - self.folder.stat(self.name).st_mtime < 1.0
        except FileNotFoundError:
            return True

    def _remember(self, known: _Known) -> None:
        before, self._known = self._known, known
        if self._anchor is not None and (
            before is None or before.version.inode != known.version.inode
        ):
            self.track()

    def check_writable(self, path: str) -> None:
        """See `NotebookText.check_writable`."""
        with typed_errors(path):
            self.folder.check_writable(self.name)
            is_full = disk_usage(self.folder.path).free < self.folder.stat(self.name).st_size
        if is_full:
            raise DiskFull(f"{path} cannot be saved: the disk is full.")

    # --- tracking moves

    def track(self) -> None:
        """See `NotebookText.track`: keeps the file open."""
        self.untrack()
        with suppress(OSError):
            self._anchor = self.folder.descriptor(self.name)

    def untrack(self) -> None:
        """See `NotebookText.untrack`."""
        fd, self._anchor = self._anchor, None
        if fd is not None:
            os.close(fd)

    def find_moved(self) -> bool:
        """Switch to the new path of a file that another program moved; return whether it was found.

        It is found only while it is tracked, and if the system reports the path of a descriptor.
        """
        if self._anchor is None or (place := _path_of(self._anchor)) is None:
            return False
        with suppress(OSError):
            if place != self.path and os.path.samestat(place.lstat(), os.fstat(self._anchor)):
                return self._moved(self, place)
        return False

    # --- writing

    async def rewrite(self, path: str, make: Make) -> StoredNotebook:
        """See `NotebookText.rewrite`."""
        for _ in range(_TRIES):
            known = await self._load(path, settled=False)
            try:
                with typed_errors(path):
                    written = await self._write(path, known, make)
            except FileChanged:
                self._known = None
            except NotebookNotFound:
                if not self.find_moved():
                    raise
            else:
                if written is not known:
                    self._remember(written)
                    if self._hooks is not None:
                        await self._hooks.saved(path, self.path)
                return written.notebook
        raise SaveFailed(f"{path} cannot be saved: other programs keep writing it.")

    async def _write(self, path: str, known: _Known, make: Make) -> _Known:
        def write(notebook: StoredNotebook) -> _Known:
            content = known.notebook.data if known.is_racy else None
            version, is_racy = self.folder.replace(self.name, notebook.data, known.version, content)
            return _Known(version, notebook, is_racy)

        def make_and_write() -> _Known:
            notebook = make(known.notebook)
            return known if notebook is known.notebook else write(notebook)

        if self._hooks is None or not self._hooks.before:
            return await asyncio.to_thread(make_and_write)
        notebook = await asyncio.to_thread(make, known.notebook)
        if notebook is known.notebook:
            return known
        hooked = await self._hooks.pre_save(path, notebook)
        return await asyncio.to_thread(write, hooked)


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

    async def open(self, path: str) -> TextDocument:
        """Return the document of the file at a contained path.

        Raises:
            NotebookNotFound, InvalidArguments, PathRefused.
        """
        file = Path(self.file_of(path))
        with _read_errors(path):
            try:
                folder = self._folder(file.parent)
                mode = folder.stat(file.name).st_mode
            except FileNotFoundError:
                known = self._find_running(path)
                if known is None:
                    raise
                return TextDocument(path, known)
        if not stat.S_ISREG(mode):
            raise InvalidArguments(
                f"{path} is not a file.",
                hint="Use a path that ends in .ipynb. For other text files, call read_file.",
            )
        known = self._files.get((*folder.key, file.name))
        if known is None:
            known = NotebookFile(folder, file.name, self._hooks, self._moved_on_disk)
        self._place(known, folder, file.name)
        self._cache(known)
        return TextDocument(path, known)

    def _folder(self, path: Path) -> Folder:
        """Return a folder without links on its path.

        Raises:
            PathRefused: It is not below the root.
            OSError: It does not exist, or has become a link.
        """
        known = self._folders.get(path)
        if known is not None and known.is_in_place():
            return known
        base = next((base for base in self._bases if path.is_relative_to(base)), None)
        if base is None:
            raise PathRefused(f"{path.name} leads outside the root through a link.")
        known = self._folders[path] = Folder(path, base)
        return known

    def _find_running(self, path: str) -> NotebookFile | None:
        """Return the moved notebook that was at a path before, if cells of it are running."""
        for known in self._files.values():
            if known.session.saver is not None and path in known.names:
                known.find_moved()
                return known
        return None

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
        await self._write(path, Path(self.file_of(folder), name), _formatted(notebook))

    async def write(self, path: str, notebook: Json) -> None:
        """Write a notebook as nbformat writes it; a file at the path is replaced.

        Raises:
            FileMissing, ReadOnly, DiskFull, SaveFailed.
        """
        await self._write(path, Path(self.file_of(path)), _formatted(notebook), replaces=True)

    async def copy(self, source: str, path: str) -> None:
        """Copy a notebook byte for byte; a file at the path is replaced.

        Raises:
            NotebookNotFound, FileMissing, ReadOnly, DiskFull, SaveFailed.
        """
        file = Path(self.file_of(source))
        with typed_errors(source):
            _, data = await asyncio.to_thread(self._folder(file.parent).read, file.name)
        await self._write(path, Path(self.file_of(path)), data, replaces=True)

    async def _write(self, path: str, target: Path, data: bytes, *, replaces: bool = False) -> None:
        if self._hooks is not None and self._hooks.before:
            data = (await self._hooks.pre_save(path, read_notebook(data, path))).data

        def write() -> None:
            with creation_errors(path):
                folder = self._folder(target.parent)
                if not replaces:
                    folder.create(target.name, data)
                    return
                with folder.overwriting(target.name) as fd:
                    write_all(fd, data)

        await asyncio.to_thread(write)
        if self._hooks is not None:
            await self._hooks.saved(path, target)

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
                file = Path(self.file_of(next(iter(names.values()))))
                try:
                    self._place(known, self._folder(file.parent), file.name)
                except (OSError, PathRefused):
                    # It has gone from there as well; another notebook may come to its former path.
                    self._files.pop((*known.folder.key, known.name), None)

    def _moved_on_disk(self, known: NotebookFile, place: Path) -> bool:
        """Accept a notebook's new path if it is below the root; return whether it was accepted."""
        root = self._bases[0]
        if place.suffix != ".ipynb" or not place.is_relative_to(root):
            return False
        path = place.relative_to(root)
        if any(part.startswith(".") for part in path.parts):
            return False
        try:
            folder = self._folder(place.parent)
        except OSError:
            return False
        old = set(known.names.values())
        known.names = dict.fromkeys(known.names, path.as_posix())
        self._place(known, folder, place.name)
        if self._hooks is not None:
            for name in old:
                self._hooks.moved(name, path.as_posix())
        return True

    def _place(self, known: NotebookFile, folder: Folder, name: str) -> None:
        """Register the state of a file under its folder and name."""
        old = (*known.folder.key, known.name)
        if self._files.get(old) is known:
            del self._files[old]
        known.folder, known.name = folder, name
        self._files[(*folder.key, name)] = known

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


def _path_of(fd: int) -> Path | None:
    """Return the present path of an open file; None if the system does not report it."""
    try:
        if sys.platform == "darwin":
            import fcntl  # Not on Windows.

            return Path(os.fsdecode(fcntl.fcntl(fd, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0")))
        return Path(f"/proc/self/fd/{fd}").readlink()
    except OSError:
        return None
