"""Files of a user's folders: regular ones alone, opened without following a link, replaced atomically.

Others (the author of a repository, code in a kernel) can put a link, a FIFO or a device under any name, and
a link in the place of a folder, at any time. A `Folder` is therefore the folder's descriptor: the files in
it are opened, compared and replaced relative to it, wherever its path leads by then. Windows has no such
descriptors, and paths are used there.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Literal
from weakref import finalize

from tk_ai_extension.model import file_locks
from tk_ai_extension.model.errors import (
    DiskFull,
    FileMissing,
    NotebookExists,
    NotebookNotFound,
    PathRefused,
    ReadOnly,
    SaveFailed,
    ToolError,
)

MAX_BYTES = 1 << 30
"""Maximum bytes of a file that is read: a sparse file of any size costs nothing to create."""

_TRIES = 5
_FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_REFUSED = frozenset((errno.EACCES, errno.EPERM, errno.EROFS))
_REGULAR = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
_DIRECTORY = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_PATH", 0)
"""Flags of `os.open`, not all of which exist on all systems."""


def save_error(error: OSError, path: str) -> ToolError:
    """Return the typed error for a failure to write ``path``."""
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return DiskFull(f"{path} cannot be saved: {reason}.")
    if error.errno in _REFUSED:
        return ReadOnly(f"{path} cannot be written: {reason}.")
    if error.errno == errno.ENOENT:
        return NotebookNotFound(f"{path} is gone.")
    return SaveFailed(f"{path} cannot be saved: {reason}.")


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


class Folder:
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
        """Release the folder before its last user is gone; it must not be used afterwards."""
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
        """Raise PermissionError for a read-only file, which the folder's permissions would let replace."""
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
                ``any`` to replace whatever there is.

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
                if os.name == "nt":  # An open file gets no other name there.
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
        """Copy a file's mode, owner and extended attributes to a new one, as far as permitted."""
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


def folder_below(path: Path, bases: Sequence[Path]) -> Folder:
    """Open a folder below one of the bases, without following a link on the way from there.

    Raises:
        PathRefused: It is below none of them.
        OSError: It does not exist, or has become a link.
    """
    base = next((base for base in bases if path.is_relative_to(base)), None)
    if base is None:
        raise PathRefused(f"{path.name} leads outside the root through a link.")
    return Folder(path, base)


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
        OSError: See `Folder.open`.
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
        new: Whether the file may not exist: what is missing is its folder then.

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
