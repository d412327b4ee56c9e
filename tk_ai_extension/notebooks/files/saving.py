"""Replaces a file atomically: every reader gets the old or the new content, even after a crash.

The new content is written to a file beside the target, synced to disk, and renamed to the target
(`temporary`).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from shutil import disk_usage
from zlib import crc32

from tk_ai_extension.model.errors import (
    FileMissing,
    NotebookExists,
)
from tk_ai_extension.notebooks.base import FileChanged, save_error
from tk_ai_extension.notebooks.files.indexing import FileVersion, read_consistent
from tk_ai_extension.notebooks.files.opening import open_descriptor
from tk_ai_extension.notebooks.files.splicing import Piece
from tk_ai_extension.notebooks.files.temporary import NewFile, new_file
from tk_ai_extension.notebooks.jsonspans import Span

_CHUNK = 1 << 20


def read_span(file: FileIO, span: Span) -> bytes:
    """Return the bytes of a span of an open file, up to the end of the file."""
    start, end = span
    parts: list[bytes] = []
    file.seek(start)
    while start < end:
        part = file.read(min(end - start, _CHUNK))
        if not part:
            break
        parts.append(part)
        start += len(part)
    return b"".join(parts)


@contextmanager
def typed_errors(path: str) -> Generator[None]:
    """Convert OSErrors of writing to typed errors."""
    try:
        yield
    except OSError as error:
        raise save_error(error, path) from error


def check_writable(file: Path, path: str) -> None:
    """Raise the error of a save of the file if it is known beforehand.

    Raises:
        ReadOnly, DiskFull.
    """
    with typed_errors(path):
        status = file.stat()
        _check_access(file)
        if disk_usage(file.parent).free < status.st_size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _check_access(file: Path) -> None:
    """Raise PermissionError for a read-only file, which the folder's permissions would let replace."""
    effective = os.access in os.supports_effective_ids
    if not os.access(file, os.W_OK, effective_ids=effective):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))


def replace_file(
    target: Path,
    pieces: Sequence[Piece],
    source: FileIO | None,
    expected: FileVersion,
    content: bytes | None = None,
) -> tuple[FileVersion, int]:
    """Replace a file (compare-and-set) and keep its mode, owner and extended attributes.

    Args:
        target: The file, not a link.
        pieces: The new content, as bytes and spans of ``source``.
        source: The current file, opened; it is closed before the file is replaced.
        expected: The version from which the new content was made.
        content: The content of that version, to compare it too: a file that is overwritten twice in one
            tick of the clock has the same version.

    Returns:
        The new file's version and the CRC-32 of its content.

    Raises:
        FileChanged: the file no longer has the version ``expected``; it was not changed.
        OSError: nothing was changed.
    """
    _check_access(target)
    with new_file(target.parent, 0o600) as temporary:
        checksum = _write(temporary.fd, pieces, source)
        if source is not None:
            source.close()
        _copy_attributes(target, temporary.fd)
        os.fsync(temporary.fd)
        with temporary.alone():
            if FileVersion.of(target.stat()) != expected:
                raise FileChanged
            if content is not None and read_consistent(target)[1] != content:
                raise FileChanged
            temporary.take_place_of(target.name, expected)
        return temporary.placed(target.name), checksum


@contextmanager
def replacing(
    target: Path, *, write_mounted: Callable[[int], None] | None = None
) -> Generator[int]:
    """Yield a descriptor for a file's new content; the file is replaced at the end of the block.

    If the block fails or the process dies, the file is unchanged. An existing file keeps its mode, owner
    and extended attributes; a new one gets the default mode of the umask.

    Args:
        target: The file, not a link.
        write_mounted: Writes the content, from a descriptor, to a file that is a mount point: nothing can
            replace that.

    Raises:
        OSError: nothing was changed.
    """
    is_there = target.exists()
    if is_there:
        _check_access(target)
    with new_file(target.parent, 0o600 if is_there else 0o666) as temporary:
        yield temporary.fd
        if is_there:
            with suppress(FileNotFoundError):
                _copy_attributes(target, temporary.fd)
        os.fsync(temporary.fd)
        try:
            with temporary.alone():
                temporary.overwrite(target.name)
        except OSError as error:
            if error.errno != errno.EBUSY or write_mounted is None:
                raise
            write_mounted(temporary.fd)
        else:
            temporary.placed(target.name)


def write_file(target: Path, data: bytes, path: str) -> None:
    """Create a file, or replace it if it exists.

    Raises:
        FileMissing, and the errors of `save_error`.
    """
    try:
        with replacing(target) as fd:
            write_all(fd, data)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileMissing(f"The folder of {path} does not exist.") from error
    except OSError as error:
        raise save_error(error, path) from error


def create_file(target: Path, data: bytes, path: str) -> None:
    """Create a file that must not exist yet.

    Others see all of it or nothing, except on a file system without hard links (vfat, SMB).

    Raises:
        NotebookExists, FileMissing, and the errors of `save_error`.
    """
    try:
        with new_file(target.parent, 0o666) as temporary:
            _write(temporary.fd, [data], None)
            os.fsync(temporary.fd)
            _take_new_name(temporary, target, data)
            temporary.placed(target.name)
    except FileExistsError:
        raise NotebookExists(f"{path} already exists.") from None
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileMissing(f"The folder of {path} does not exist.") from error
    except OSError as error:
        raise save_error(error, path) from error


def _take_new_name(temporary: NewFile, target: Path, data: bytes) -> None:
    try:
        temporary.take_name(target.name)
    except FileExistsError:
        raise
    except OSError:
        # No hard links, for which systems have several errors. If there is another reason, it is raised now.
        with temporary.alone():
            _create_in_place(target, data)


def _create_in_place(target: Path, data: bytes) -> None:
    fd = open_descriptor(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    try:
        try:
            write_all(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
    except BaseException:
        with suppress(OSError):
            target.unlink()
        raise


def _write(fd: int, pieces: Sequence[Piece], source: FileIO | None) -> int:
    checksum = 0
    for piece in pieces:
        if isinstance(piece, bytes):
            checksum = crc32(piece, checksum)
            write_all(fd, piece)
            continue
        assert source is not None
        at, end = piece
        source.seek(at)
        while at < end and (part := source.read(min(end - at, _CHUNK))):
            checksum = crc32(part, checksum)
            write_all(fd, part)
            at += len(part)
    return checksum


def write_all(fd: int, data: bytes) -> None:
    """Write all bytes to a descriptor, which may take several calls."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _copy_attributes(target: Path, fd: int) -> None:
    """Copy a file's mode, owner and extended attributes to a new one, as far as permitted."""
    if not hasattr(os, "fchown"):  # Windows
        return
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
