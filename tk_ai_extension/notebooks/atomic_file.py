"""Files of a user's folders: regular ones alone, opened without following a link, replaced atomically.

Others (the author of a repository, code in a kernel) can put a link, a FIFO or a device under any name, and
a link in the place of a folder, at any time. A `Folder` is therefore the folder's descriptor: the files in
it are opened, compared and replaced relative to it, wherever its path leads by then. Windows has no such
descriptors, and paths are used there.

A file is replaced by a temporary one beside it, which is synced to disk first: every reader gets the old or
the new content, even after a crash.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from weakref import finalize

from tk_ai_extension.model import file_locks
from tk_ai_extension.model.errors import FileMissing, NotebookExists
from tk_ai_extension.notebooks.base import FileChanged, save_error

_log = logging.getLogger(__name__)

RACY = 25_000_000
"""Nanoseconds within which two writes may result in the same modification time."""

MAX_BYTES = 1 << 30
"""Maximum bytes of a file that is read: a sparse file of any size costs nothing to create."""

_TRIES = 5
_REGULAR = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
_DIRECTORY = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_PATH", 0)
"""Flags of `os.open`, not all of which exist on all systems."""


@dataclass(frozen=True, slots=True)
class FileVersion:
    """Identifies the content of a file without reading it."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileVersion:
        """Return the version in a stat result."""
        return cls(
            status.st_dev,
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
        )

    def is_racy(self, now_ns: int) -> bool:
        """Return whether another write at ``now_ns`` could result in the same version."""
        return now_ns - max(self.mtime_ns, self.ctime_ns) < RACY


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

    def descriptor(self, name: str, access: int = os.O_RDONLY) -> int:
        """Open a regular file and return its descriptor.

        Raises:
            OSError: It cannot be opened, is a link (ELOOP), a folder, or not a regular file (EINVAL).
        """
        return _checked(os.open(self._at(name), access | _REGULAR, dir_fd=self._fd), name)

    def open(self, name: str) -> FileIO:
        """Open a regular file for reading; see `descriptor`."""
        return FileIO(self.descriptor(name), "rb")

    def read(self, name: str) -> tuple[FileVersion, bytes]:
        """Return a consistent version and content of a file, retrying while it is written.

        Raises:
            OSError: It cannot be opened, or is larger than `MAX_BYTES` (EFBIG).
        """
        for _ in range(_TRIES):
            with self.open(name) as file:
                version = FileVersion.of(os.fstat(file.fileno()))
                if version.size > MAX_BYTES:
                    raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), name)
                data = file.readall()
                after = FileVersion.of(os.fstat(file.fileno()))
                if after == version and len(data) == version.size:
                    break
        return version, data  # pyrefly: ignore[unbound-name]

    def check_writable(self, name: str) -> None:
        """Raise PermissionError for a read-only file, which the folder's permissions would let replace."""
        options = {"effective_ids": True} if os.access in os.supports_effective_ids else {}
        if not os.access(self._at(name), os.W_OK, dir_fd=self._fd, **options):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)

    def replace(
        self, name: str, data: bytes, expected: FileVersion, content: bytes | None = None
    ) -> tuple[FileVersion, bool]:
        """Replace a file (compare-and-set); it keeps its mode, owner and extended attributes.

        Args:
            name: The file's name.
            data: The new content.
            expected: The version from which the new content was made.
            content: The content of that version, to compare it too: a file that is overwritten twice in
                one tick of the clock has the same version.

        Returns:
            The new file's version, and whether another write could result in the same one.

        Raises:
            FileChanged: The file no longer has the version ``expected``; it was not changed.
            OSError: Nothing was changed.
        """
        self.check_writable(name)
        with self._new_file(0o600) as new:
            write_all(new.fd, data)
            self._copy_attributes(name, new.fd)
            # The next write gets the time of a tick of the system's clock, hardly this one.
            now = time.time_ns()
            if os.utime in os.supports_fd:
                with suppress(OSError):
                    os.utime(new.fd, ns=(now, now))
            os.fsync(new.fd)
            with self.lock():
                if FileVersion.of(self.stat(name)) != expected:
                    raise FileChanged
                if content is not None and self.read(name)[1] != content:
                    raise FileChanged
                version = new.take_place_of(name)
        return version, version.mtime_ns != now and version.is_racy(time.time_ns())

    @contextmanager
    def overwriting(self, name: str) -> Generator[int]:
        """Yield a descriptor for a file's new content; the file is replaced at the end of the block.

        If the block fails or the process dies, the file is unchanged. An existing file keeps its mode,
        owner and extended attributes; a new one gets the default mode of the umask.

        Raises:
            OSError: Nothing was changed; EBUSY if the file is a mount point.
        """
        is_there = self.exists(name)
        if is_there:
            self.check_writable(name)
        with self._new_file(0o600 if is_there else 0o666) as new:
            yield new.fd
            if is_there:
                with suppress(FileNotFoundError):
                    self._copy_attributes(name, new.fd)
            os.fsync(new.fd)
            with self.lock():
                new.take_place_of(name)

    def create(self, name: str, data: bytes) -> None:
        """Create a file that must not exist yet; others see all of it or nothing.

        Raises:
            FileExistsError, OSError.
        """
        with self._new_file(0o666) as new:
            write_all(new.fd, data)
            os.fsync(new.fd)
            new.take_name(name)

    def exists(self, name: str) -> bool:
        """Return whether a file, a folder or a link has a name."""
        try:
            self.stat(name)
        except FileNotFoundError:
            return False
        return True

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

    @contextmanager
    def _new_file(self, mode: int) -> Generator[_NewFile]:
        name = f".~tk-{os.urandom(8).hex()}"  # Dropbox and file browsers ignore such names.
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | _REGULAR
        new = _NewFile(self, name, os.open(self._at(name), flags, mode, dir_fd=self._fd))
        try:
            yield new
        finally:
            new.close()

    def rename(self, old: str, new: str) -> None:
        """Rename a file; a file with the new name is replaced."""
        os.replace(self._at(old), self._at(new), src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def link(self, old: str, new: str) -> None:
        """Give a file a second name."""
        if self._fd is None:
            os.link(self._at(old), self._at(new))
        else:
            fds = {"src_dir_fd": self._fd, "dst_dir_fd": self._fd}
            os.link(old, new, follow_symlinks=False, **fds)

    def unlink(self, name: str) -> None:
        """Remove a file."""
        os.unlink(self._at(name), dir_fd=self._fd)

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


class _NewFile:
    """A file with a temporary name; it is removed unless it takes a final one."""

    def __init__(self, folder: Folder, name: str, fd: int) -> None:
        self.fd = fd
        self._folder = folder
        self._name: str | None = name

    def take_place_of(self, target: str) -> FileVersion:
        """Replace a file, whatever it is; return the new one's version."""
        assert self._name is not None
        self._close_on_windows()
        self._folder.rename(self._name, target)
        self._name = None
        return FileVersion.of(self._folder.stat(target) if self.fd < 0 else os.fstat(self.fd))

    def take_name(self, name: str) -> None:
        """Take an unused name.

        Raises:
            FileExistsError.
        """
        assert self._name is not None
        self._close_on_windows()
        try:
            with self._folder.lock():
                self._folder.link(self._name, name)
        except FileExistsError:
            raise
        except OSError:
            # No hard links (vfat, SMB). If there is another reason, it is raised now.
            if self._folder.exists(name):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name) from None
            self.take_place_of(name)

    def close(self) -> None:
        """Close the file; remove the temporary name."""
        self._close_content()
        if self._name is not None:
            try:
                self._folder.unlink(self._name)
            except OSError as error:
                _log.warning("%s was not removed: %s", self._name, error)

    def _close_on_windows(self) -> None:
        """Close the file on Windows, where an open one gets no other name."""
        if os.name == "nt":
            self._close_content()

    def _close_content(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


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
        OSError: It cannot be opened, is a link (ELOOP), a folder, or not a regular file (EINVAL).
    """
    return FileIO(open_descriptor(file), "rb")


def open_descriptor(file: Path, access: int = os.O_RDONLY) -> int:
    """Open a regular file, by default for reading, and return its descriptor; see `open_regular`."""
    return _checked(os.open(file, access | _REGULAR, 0o666), str(file))


def _checked(fd: int, name: str) -> int:
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return fd
    os.close(fd)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    raise OSError(errno.EINVAL, "Not a regular file", name)


def write_all(fd: int, data: bytes) -> None:
    """Write all bytes to a descriptor, which may take several calls."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def is_replaceable(target: Path) -> bool:
    """Return whether a file can be replaced without losing a second hard link or its owner."""
    try:
        status = target.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    plain = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
    is_ours = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
    return plain and is_ours and os.access(target.parent, os.W_OK)


@contextmanager
def typed_errors(path: str) -> Generator[None]:
    """Convert OSErrors of writing to typed errors.

    Raises:
        FileChanged, DiskFull, ReadOnly, NotebookNotFound, SaveFailed.
    """
    try:
        yield
    except OSError as error:
        raise save_error(error, path) from error


@contextmanager
def creation_errors(path: str) -> Generator[None]:
    """Convert OSErrors of creating a file, or writing one that may not exist, to typed errors.

    Raises:
        NotebookExists, FileMissing, and what `typed_errors` raises.
    """
    try:
        yield
    except FileExistsError:
        raise NotebookExists(f"{path} already exists.") from None
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileMissing(f"The folder of {path} does not exist.") from error
    except OSError as error:
        raise save_error(error, path) from error
