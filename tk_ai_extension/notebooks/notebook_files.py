"""Files of a user's folders, and the notebooks in them, each with its content in memory.

Others (the author of a repository, code in a kernel) can put a link, a FIFO or a device under any name, and
a link in the place of a folder, at any time. A `FolderHandle` is therefore a descriptor: its files are
opened, compared and replaced relative to it, wherever its path leads by then. Only regular files are
opened, without following a link. They are replaced atomically, and only while they are those that were read.
Windows has no such descriptors, and paths are used there.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import stat
import time
from collections import OrderedDict
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from shutil import disk_usage
from typing import TYPE_CHECKING, Literal
from weakref import WeakValueDictionary, finalize

from tk_ai_extension.model import file_locks
from tk_ai_extension.model.errors import (
    DiskFull,
    FileMissing,
    InvalidArguments,
    InvalidNotebook,
    LimitReached,
    NotebookExists,
    NotebookNotFound,
    NotReadable,
    PathRefused,
    SaveFailed,
    is_out_of_files,
    save_error,
)
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.notebooks.document import Make, NotebookText
from tk_ai_extension.notebooks.parsed_notebooks import StoredNotebook, read_notebook

if TYPE_CHECKING:
    from tk_ai_extension.notebooks.jupyter_saves import SaveHooks

MAX_BYTES = 1 << 30
"""Maximum bytes of a file that is read: a sparse file of any size costs nothing to create."""

MAX_FILES = 64
MAX_KEPT = 128_000_000
"""Maximum number of files that are cached, and maximum bytes of their content."""

_TRIES = 5
_WRITER_DELAYS = (0.05, 0.1, 0.2, 0.4)
"""Seconds between attempts to read a file that a program such as JupyterLab is writing in place."""

_REGULAR = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
_DIRECTORY = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_PATH", 0)
"""Flags of `os.open`, not all of which exist on all systems."""


class FileChanged(Exception):
    """Another program wrote the file since it was read."""


@dataclass(frozen=True, slots=True)
class FileVersion:
    """Identifies the content of a file without reading it."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, s: os.stat_result) -> FileVersion:
        """Return the version in a stat result."""
        return cls(s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns)


class FolderHandle:
    """An open folder.

    Args:
        path: Its path, without links below ``base``.
        base: The folder below which no link is followed on the way to it; None to follow them.

    Attributes:
        path: See above. Another folder may be there by now (`is_in_place`).
        key: Identifies the folder itself.

    Raises:
        OSError: It does not exist, or a link is on the way.
    """

    def __init__(self, path: Path, base: Path | None = None) -> None:
        self.path = path
        self._fd = _open_folder(path, base) if os.open in os.supports_dir_fd else None
        self._closing = None if self._fd is None else finalize(self, os.close, self._fd)
        status = path.stat() if self._fd is None else os.fstat(self._fd)
        self.key = status.st_dev, status.st_ino

    def close(self) -> None:
        """Release the folder at once, even if it still has users; it must not be used afterwards."""
        if self._closing is not None:
            self._closing()

    def is_in_place(self) -> bool:
        """Return whether the path still leads to this folder."""
        try:
            status = self.path.stat()
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self.key

    def stat(self, name: str) -> os.stat_result:
        """Return the status of a file, which may be a link."""
        return os.stat(self._at(name), dir_fd=self._fd, follow_symlinks=False)

    def exists(self, name: str) -> bool:
        """Return whether a file, a folder or a link has a name."""
        try:
            self.stat(name)
        except FileNotFoundError:
            return False
        return True

    def open(self, name: str) -> FileIO:
        """Open a regular file for reading.

        Raises:
            OSError: It cannot be opened, is a link (ELOOP), a folder, or not a regular file (EINVAL).
        """
        return _regular(os.open(self._at(name), os.O_RDONLY | _REGULAR, dir_fd=self._fd), name)

    def read(self, name: str, max_bytes: int = MAX_BYTES) -> tuple[FileVersion, bytes]:
        """Return a consistent version and content of a file, retrying while it is written.

        Raises:
            OSError: It cannot be opened, or is larger than ``max_bytes`` (EFBIG).
        """
        for _ in range(_TRIES):
            with self.open(name) as file:
                version = FileVersion.of(os.fstat(file.fileno()))
                if version.size > max_bytes:
                    raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), name)
                data = file.readall()
                if FileVersion.of(os.fstat(file.fileno())) == version:
                    break
        return version, data  # pyrefly: ignore[unbound-name]

    def check_writable(self, name: str) -> None:
        """Raise PermissionError for a read-only file, even if its folder allows its replacement."""
        options = {"effective_ids": True} if os.access in os.supports_effective_ids else {}
        if not os.access(self._at(name), os.W_OK, dir_fd=self._fd, **options):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)

    def replace(
        self, name: str, data: bytes, expected: FileVersion | Literal["new", "any"]
    ) -> FileVersion:
        """Write a file atomically: every reader gets the old or the new content, even after a crash.

        Args:
            name: The file's name.
            data: The new content.
            expected: The version that it must have (compare-and-set); ``new`` if there must be none,
                ``any`` to replace any content.

        Returns:
            The new version. The file keeps its mode, owner and extended attributes.

        Raises:
            FileChanged: The file does not have the version ``expected``.
            FileExistsError: There is a file, and it should be new.
            OSError.
        """
        is_new = expected == "new" or (expected == "any" and not self.exists(name))
        if not is_new:
            self.check_writable(name)
        temporary = f".~tk-{os.urandom(8).hex()}"  # Dropbox and file browsers ignore such names.
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | _REGULAR
        fd = os.open(self._at(temporary), flags, 0o666 if is_new else 0o600, dir_fd=self._fd)
        try:
            with FileIO(fd, "wb") as file:
                view = memoryview(data)
                while view:
                    view = view[file.write(view) :]
                if not is_new:
                    self._copy_attributes(name, fd)
                os.fsync(fd)
                if os.name == "nt":  # An open file cannot be renamed there.
                    file.close()
                with self.lock():
                    self._check(name, expected)
                    old, new = self._at(temporary), self._at(name)
                    os.replace(old, new, src_dir_fd=self._fd, dst_dir_fd=self._fd)
                    return FileVersion.of(self.stat(name) if file.closed else os.fstat(fd))
        except BaseException:
            with suppress(FileNotFoundError):
                self.unlink(temporary)
            raise

    def _check(self, name: str, expected: FileVersion | Literal["new", "any"]) -> None:
        if expected == "new" and self.exists(name):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        if isinstance(expected, FileVersion) and expected != FileVersion.of(self.stat(name)):
            raise FileChanged

    def unlink(self, name: str) -> None:
        """Remove a file."""
        os.unlink(self._at(name), dir_fd=self._fd)

    @contextmanager
    def lock(self) -> Generator[None]:
        """Exclude other servers that save in the folder, where it can be locked; then sync its names."""
        try:
            fd = os.open(self._at("."), os.O_RDONLY, dir_fd=self._fd)
        except OSError:  # Windows, or a folder that may not be listed
            yield
            return
        try:
            with suppress(OSError):
                file_locks.lock(fd)
            yield
            with suppress(OSError):  # A file system that cannot sync folders.
                os.fsync(fd)
        finally:
            os.close(fd)

    def _at(self, name: str) -> str:
        return name if self._fd is not None else str(self.path / name)

    def _copy_attributes(self, name: str, fd: int) -> None:
        """Copy a file's mode, owner and extended attributes to a new one, where permitted."""
        if not hasattr(os, "fchown"):  # Windows
            return
        with self.open(name) as file:
            old, new = os.fstat(file.fileno()), os.fstat(fd)
            if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
                try:
                    os.fchown(fd, old.st_uid, old.st_gid)
                except PermissionError:
                    with suppress(PermissionError):
                        os.fchown(fd, -1, old.st_gid)
            os.fchmod(fd, stat.S_IMODE(old.st_mode))
            if hasattr(os, "listxattr"):
                with suppress(OSError):
                    for key in os.listxattr(file.fileno()):
                        os.setxattr(fd, key, os.getxattr(file.fileno(), key))


def folder_below(path: Path, bases: Sequence[Path]) -> FolderHandle:
    """Open a folder below one of the bases, without following a link on the way from there.

    Raises:
        PathRefused: It is below none of them.
        OSError: It does not exist, or has become a link.
    """
    base = next((base for base in bases if path.is_relative_to(base)), None)
    if base is None:
        raise PathRefused(f"{path.name} leads outside the root through a link.")
    return FolderHandle(path, base)


def _open_folder(path: Path, base: Path | None) -> int:
    """Open a folder, one component after the other below ``base``: none of them may be a link."""
    fd = os.open(base or path, os.O_RDONLY | _DIRECTORY)
    for part in path.relative_to(base).parts if base is not None else ():
        try:
            inner = os.open(part, os.O_RDONLY | _DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
        finally:
            os.close(fd)
        fd = inner
    return fd


def open_regular(file: Path) -> FileIO:
    """Open a regular file for reading.

    Args:
        file: The file; links are resolved before, so the last component must not be one.

    Raises:
        OSError: See `FolderHandle.open`.
    """
    return _regular(os.open(file, os.O_RDONLY | _REGULAR), str(file))


def _regular(fd: int, name: str) -> FileIO:
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return FileIO(fd, "rb")
    os.close(fd)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    raise OSError(errno.EINVAL, "Not a regular file", name)


@contextmanager
def typed_errors(path: str, *, new: bool = False) -> Generator[None]:
    """Convert OSErrors of writing to typed errors.

    Args:
        path: The path, for messages.
        new: Whether the file must be new: a missing path is then its folder.

    Raises:
        DiskFull, ReadOnly, NotebookNotFound, SaveFailed; with ``new`` NotebookExists, FileMissing.
    """
    try:
        yield
    except OSError as error:
        if new and isinstance(error, FileExistsError):
            raise NotebookExists(f"{path} already exists.") from None
        if new and isinstance(error, FileNotFoundError | NotADirectoryError):
            raise FileMissing(f"The folder of {path} does not exist.") from error
        raise save_error(error, path) from error


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

    def __init__(self, folder: FolderHandle, name: str, hooks: SaveHooks | None) -> None:
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
        if self._hooks is None:
            return (await self._rewrite(path, make))[1]
        async with self._hooks.rooms.writing(path, self.load) as written:
            before, after = await self._rewrite(path, make)
            if after is not before:
                await written(before)
        if after is not before:
            await self._hooks.saved(path, self.folder.path / self.name)
        return after

    async def _rewrite(self, path: str, make: Make) -> tuple[StoredNotebook, StoredNotebook]:
        """Return the notebook before and after the change."""
        for _ in range(_TRIES):
            version, before = await self._load(path)
            after = await asyncio.to_thread(make, before)
            if after is before:
                return before, before
            if self._hooks is not None:
                after = await self._hooks.pre_save(path, after)
            try:
                with typed_errors(path):
                    version = await asyncio.to_thread(self._write, after, version)
            except FileChanged:
                continue
            self._known = version, after
            return before, after
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
        self._folders: WeakValueDictionary[Path, FolderHandle] = WeakValueDictionary()
        # While a document uses a file, it is found here by its folder and name. Recent ones are kept as a
        # cache of their content.
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
        file = self._root / path
        with _read_errors(path):
            folder = file.parent.stat()
            known = self._files.get((folder.st_dev, folder.st_ino, file.name))
            # In the same folder it is the same file, unless a link has its name now.
            if known is None or not stat.S_ISREG(known.folder.stat(file.name).st_mode):
                known = self._resolved(path)
        self._cache(known)
        return known

    def _resolved(self, path: str) -> NotebookFile:
        """Return the file that a path leads to, with links resolved."""
        file = Path(self.file_of(path))
        folder = self._folder(file.parent)
        if not stat.S_ISREG(folder.stat(file.name).st_mode):
            raise InvalidArguments(
                f"{path} is not a file.",
                hint="Use a path that ends in .ipynb. For other text files, call read_file.",
            )
        key = (*folder.key, file.name)
        known = self._files.get(key)
        if known is None:
            known = self._files[key] = NotebookFile(folder, file.name, self._hooks)
        known.folder = folder
        return known

    def _folder(self, path: Path) -> FolderHandle:
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
