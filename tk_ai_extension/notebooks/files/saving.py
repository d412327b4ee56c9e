"""Replacing a file so that every reader finds the old one or the new one, whenever anything dies.

The new content goes into a file without a name beside the target (`O_TMPFILE`), which the system
forgets if the process is killed. It is forced to disk, given a hidden name, and changes places with
the target (`RENAME_EXCHANGE`). What comes out is then looked at: if somebody wrote the target in the
last moment, the two change back. Where the system lacks one of these, the nearest thing is done.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any
from zlib import crc32

from tk_ai_extension.model import file_locks
from tk_ai_extension.model.errors import (
    DiskFull,
    FileMissing,
    NotebookExists,
    NotebookNotFound,
    ReadOnly,
    SaveFailed,
    ToolError,
)
from tk_ai_extension.notebooks.files.indexing import FileVersion
from tk_ai_extension.notebooks.files.splicing import Piece
from tk_ai_extension.notebooks.jsonspans import Span

_CHUNK = 1 << 20
_FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_REFUSED = frozenset((errno.EACCES, errno.EPERM, errno.EROFS))
_NO_TMPFILE = frozenset((errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT))


class FileChanged(Exception):
    """Somebody else wrote the file since it was read."""


def read_span(fd: int, span: Span) -> bytes:
    """The bytes of a span of an open file; the file's end cuts it."""
    start, end = span
    parts: list[bytes] = []
    while start < end:
        part = os.pread(fd, min(end - start, _CHUNK), start)
        if not part:
            break
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def save_error(error: OSError, path: str) -> ToolError:
    """The typed error for a failure to write ``path``."""
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return DiskFull(f"{path} cannot be saved: {reason}.")
    if error.errno in _REFUSED:
        return ReadOnly(f"{path} cannot be written: {reason}.")
    if error.errno == errno.ENOENT:
        return NotebookNotFound(f"{path} is gone.")
    return SaveFailed(f"{path} cannot be saved: {reason}.")


@contextmanager
def typed_errors(path: str) -> Generator[None]:
    """Turns the system's errors into those of the tools."""
    try:
        yield
    except OSError as error:
        raise save_error(error, path) from error


def check_writable(file: Path, path: str) -> None:
    """Raises what a save of the file would run into, as far as that can be known before.

    Raises:
        ReadOnly, DiskFull.
    """
    with typed_errors(path):
        status = file.stat()
        _check_access(file)
        space = os.statvfs(file)
        if space.f_bavail * space.f_frsize < status.st_size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _check_access(file: Path) -> None:
    """Raises PermissionError for a file that may not be written, though it could be replaced."""
    effective = os.access in os.supports_effective_ids
    if not os.access(file, os.W_OK, effective_ids=effective):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))


def replace_file(
    target: Path, pieces: Sequence[Piece], source: int | None, expected: FileVersion
) -> tuple[FileVersion, int]:
    """Replaces a file; mode, owner and extended attributes stay as they were.

    Args:
        target: The file, no link.
        pieces: The new content, in bytes and spans of ``source``.
        source: A descriptor of the present file.
        expected: The version on which the new content was made.

    Returns:
        The new file's version, and the CRC-32 of its content.

    Raises:
        FileChanged: the file is not at ``expected`` any more; it is left alone.
        OSError: nothing was changed.
    """
    _check_access(target)
    with _unnamed_file(target.parent, 0o600) as temporary:
        checksum = _write(temporary.fd, pieces, source)
        _like(target, temporary.fd)
        os.fsync(temporary.fd)
        with _alone(temporary):
            if FileVersion.of(target.stat()) != expected:
                raise FileChanged
            temporary.take_place_of(target.name, expected)
        version = FileVersion.of(os.fstat(temporary.fd))
        os.fsync(temporary.folder)
    return version, checksum


@contextmanager
def replacing(target: Path) -> Generator[int]:
    """Gives a descriptor to write a file's new content to; what is there is replaced at the end.

    Where the body fails, or the process dies, the file stays as it was. Mode, owner and extended
    attributes of a file that is there stay; a new one gets the mode that the umask leaves.

    Raises:
        OSError: nothing was changed.
    """
    is_there = target.exists()
    if is_there:
        _check_access(target)
    with _unnamed_file(target.parent, 0o600 if is_there else 0o666) as temporary:
        yield temporary.fd
        if is_there:
            with suppress(FileNotFoundError):
                _like(target, temporary.fd)
        os.fsync(temporary.fd)
        with _alone(temporary):
            temporary.overwrite(target.name)
        os.fsync(temporary.folder)


def create_file(target: Path, data: bytes, path: str) -> None:
    """Writes a file that must not be there yet.

    Raises:
        NotebookExists, FileMissing, and the errors of `save_error`.
    """
    try:
        with _unnamed_file(target.parent, 0o666) as temporary:
            _write(temporary.fd, [data], None)
            os.fsync(temporary.fd)
            temporary.take_name(target.name)
            os.fsync(temporary.folder)
    except FileExistsError:
        raise NotebookExists(f"{path} exists.") from None
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileMissing(f"There is no folder for {path}.") from error
    except OSError as error:
        raise save_error(error, path) from error


@contextmanager
def _alone(temporary: _Temporary) -> Generator[None]:
    """Keeps other programs that save as this one does out of the last step, where that is possible.

    Changing back is no single step: in between, one of them would take what is about to go for the
    present content. The hidden name is given up before the next one comes in, since that uses it too.
    """
    locked = True
    try:
        file_locks.lock(temporary.folder)
    except OSError:
        # A file system without locks.
        locked = False
    try:
        yield
    finally:
        temporary.give_up_name()
        if locked:
            file_locks.unlock(temporary.folder)


@dataclass(slots=True)
class _Temporary:
    """A file beside the target that has no name yet, or a hidden one."""

    fd: int
    folder: int
    name: str | None = None

    def take_name(self, name: str) -> None:
        """Takes a name that nothing has.

        Raises:
            FileExistsError.
        """
        # A descriptor for the folder makes Python call linkat, which follows the link in /proc.
        source = f"/proc/self/fd/{self.fd}" if self.name is None else self.name
        os.link(
            source,
            name,
            src_dir_fd=self.folder,
            dst_dir_fd=self.folder,
            follow_symlinks=self.name is None,
        )

    def take_place_of(self, target: str, expected: FileVersion) -> None:
        """Takes the target's name, if the target is still at this version.

        Raises:
            FileChanged: it is not, and keeps its name.
        """
        hidden = self._take_hidden_name(target)
        if not _exchange(self.folder, hidden, target):
            self.overwrite(target)
            return
        out = FileVersion.of(os.stat(hidden, dir_fd=self.folder))
        if not out.is_same_content(expected):
            _exchange(self.folder, hidden, target)
            raise FileChanged

    def overwrite(self, target: str) -> None:
        """Takes the target's name, whatever has it."""
        hidden = self._take_hidden_name(target)
        os.rename(hidden, target, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        self.name = None

    def give_up_name(self) -> None:
        """Removes the hidden name, if it has one."""
        if self.name is not None:
            with suppress(FileNotFoundError):
                os.unlink(self.name, dir_fd=self.folder)
            self.name = None

    def _take_hidden_name(self, target: str) -> str:
        """The name that the file has until it takes the target's."""
        if self.name is None:
            hidden = _hidden_name(target)
            try:
                self.take_name(hidden)
            except FileExistsError:
                # Left by a save that was killed: one process writes a notebook at a time.
                os.unlink(hidden, dir_fd=self.folder)
                self.take_name(hidden)
            self.name = hidden
        return self.name


_RENAME_EXCHANGE = 2


@cache
def _renameat2() -> Any:
    """The C library's function, or None where it has none."""
    import ctypes  # Late: who only reads does without.

    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is not None:
        path = ctypes.c_char_p
        function.argtypes = [ctypes.c_int, path, ctypes.c_int, path, ctypes.c_uint]
    return function


def _exchange(folder: int, one: str, other: str) -> bool:
    """Has two names of a folder change places; False where the system cannot."""
    function = _renameat2()
    if function is None:
        return False
    if function(folder, os.fsencode(one), folder, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    import ctypes

    error = ctypes.get_errno()
    if error in {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}:
        return False
    raise OSError(error, os.strerror(error), other)


def _hidden_name(target: str) -> str:
    """The name of the target's replacement for the moment before it takes its place.

    It begins as the names that Dropbox and file browsers pass over.
    """
    return f".~tk-{blake2b(os.fsencode(target), digest_size=8).hexdigest()}"


@contextmanager
def _unnamed_file(folder: Path, mode: int) -> Generator[_Temporary]:
    folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    temporary: _Temporary | None = None
    try:
        temporary = _open_temporary(folder_fd, mode)
        yield temporary
    finally:
        if temporary is not None:
            os.close(temporary.fd)
            temporary.give_up_name()
        os.close(folder_fd)


def _open_temporary(folder: int, mode: int) -> _Temporary:
    if hasattr(os, "O_TMPFILE"):
        try:
            return _Temporary(os.open(".", os.O_TMPFILE | os.O_RDWR, mode, dir_fd=folder), folder)
        except OSError as error:
            if error.errno not in _NO_TMPFILE:
                raise
    # A file system without unnamed files: one that file browsers and Dropbox pass over.
    name = f".~{os.urandom(16).hex()}"
    fd = os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode, dir_fd=folder)
    return _Temporary(fd, folder, name)


def _write(fd: int, pieces: Sequence[Piece], source: int | None) -> int:
    checksum = 0
    for piece in pieces:
        if isinstance(piece, bytes):
            checksum = crc32(piece, checksum)
            _write_all(fd, piece)
            continue
        assert source is not None
        at, end = piece
        while at < end and (part := os.pread(source, min(end - at, _CHUNK), at)):
            checksum = crc32(part, checksum)
            _write_all(fd, part)
            at += len(part)
    return checksum


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _like(target: Path, fd: int) -> None:
    """Gives the new file the old one's mode, owner and extended attributes, as far as we may."""
    old = target.stat()
    new = os.fstat(fd)
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        try:
            os.fchown(fd, old.st_uid, old.st_gid)
        except PermissionError:
            with suppress(PermissionError):
                os.fchown(fd, -1, old.st_gid)
    os.fchmod(fd, stat.S_IMODE(old.st_mode))
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(target):
                os.setxattr(fd, name, os.getxattr(target, name))
