"""Replacing a file so that every reader finds the old one or the new one, whenever anything dies.

The new content goes into a file beside the target, is forced to disk, and takes the target's place
(`temporary`).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Sequence
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
from tk_ai_extension.notebooks.files.indexing import FileVersion
from tk_ai_extension.notebooks.files.splicing import Piece
from tk_ai_extension.notebooks.files.temporary import new_file
from tk_ai_extension.notebooks.jsonspans import Span

_CHUNK = 1 << 20


def read_span(file: FileIO, span: Span) -> bytes:
    """The bytes of a span of an open file; the file's end cuts it."""
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
    """Turn the system's errors into those of the tools."""
    try:
        yield
    except OSError as error:
        raise save_error(error, path) from error


def check_writable(file: Path, path: str) -> None:
    """Raise what a save of the file would run into, as far as that can be known before.

    Raises:
        ReadOnly, DiskFull.
    """
    with typed_errors(path):
        status = file.stat()
        _check_access(file)
        if disk_usage(file.parent).free < status.st_size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _check_access(file: Path) -> None:
    """Raise PermissionError for a file that may not be written, though it could be replaced."""
    effective = os.access in os.supports_effective_ids
    if not os.access(file, os.W_OK, effective_ids=effective):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))


def replace_file(
    target: Path, pieces: Sequence[Piece], source: FileIO | None, expected: FileVersion
) -> tuple[FileVersion, int]:
    """Replace a file; mode, owner and extended attributes stay as they were.

    Args:
        target: The file, no link.
        pieces: The new content, in bytes and spans of ``source``.
        source: The present file, opened; it is closed before it is replaced.
        expected: The version on which the new content was made.

    Returns:
        The new file's version, and the CRC-32 of its content.

    Raises:
        FileChanged: the file is not at ``expected`` any more; it is left alone.
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
            temporary.take_place_of(target.name, expected)
        return temporary.placed(target.name), checksum


@contextmanager
def replacing(target: Path) -> Generator[int]:
    """Give a descriptor to write a file's new content to; what is there is replaced at the end.

    Where the body fails, or the process dies, the file stays as it was. Mode, owner and extended
    attributes of a file that is there stay; a new one gets the mode that the umask leaves.

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
        with temporary.alone():
            temporary.overwrite(target.name)
        temporary.placed(target.name)


def create_file(target: Path, data: bytes, path: str) -> None:
    """Write a file that must not be there yet.

    Raises:
        NotebookExists, FileMissing, and the errors of `save_error`.
    """
    try:
        with new_file(target.parent, 0o666) as temporary:
            _write(temporary.fd, [data], None)
            os.fsync(temporary.fd)
            temporary.take_name(target.name)
            temporary.placed(target.name)
    except FileExistsError:
        raise NotebookExists(f"{path} exists.") from None
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileMissing(f"There is no folder for {path}.") from error
    except OSError as error:
        raise save_error(error, path) from error


def _write(fd: int, pieces: Sequence[Piece], source: FileIO | None) -> int:
    checksum = 0
    for piece in pieces:
        if isinstance(piece, bytes):
            checksum = crc32(piece, checksum)
            _write_all(fd, piece)
            continue
        assert source is not None
        at, end = piece
        source.seek(at)
        while at < end and (part := source.read(min(end - at, _CHUNK))):
            checksum = crc32(part, checksum)
            _write_all(fd, part)
            at += len(part)
    return checksum


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _copy_attributes(target: Path, fd: int) -> None:
    """Give the new file the old one's mode, owner and extended attributes, as far as we may."""
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
