"""Compare-and-set of a text file on disk: others see the old or the new content, and none is lost.

A file is replaced as a notebook is (`notebooks.atomic_file`): under the lock that the saves of all
servers take, and only while it is the file that was compared. A file that cannot or may not be replaced
is compared and overwritten under the same lock. Readers may then see a part of it.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from tk_ai_extension.model.errors import FileMissing, NotebookExists
from tk_ai_extension.notebooks.atomic_file import (
    FileVersion,
    Folder,
    creation_errors,
    is_replaceable,
    open_descriptor,
    write_all,
)
from tk_ai_extension.notebooks.base import FileChanged, save_error
from tk_ai_extension.workspace.files import changed_since

_TRIES = 5
"""Attempts to write a file whose attributes change meanwhile."""

_CHUNK = 1 << 20

_NOT_REPLACED = frozenset(
    (errno.EBUSY, errno.EACCES, errno.EPERM, errno.EROFS, errno.EOPNOTSUPP, errno.ENOSYS)
)
"""Errors of replacing a mount point, or in a folder that is read-only or has no hard links.

If the file itself is the reason, overwriting it fails too.
"""

_process_lock = threading.Lock()
"""Excludes the writes in place of this process from each other: not every folder can be locked."""


def replace_on_disk(
    file: Path,
    path: str,
    before: bytes | None,
    after: bytes | None,
    may_replace: Callable[[Path], bool] = is_replaceable,
) -> None:
    """Write or remove a file that has a known content. It keeps its mode, owner and attributes.

    Args:
        file: The file, not a link.
        path: The path below the root, for messages.
        before: The content that it must have; None if it must not exist.
        after: The new content; None to remove it.
        may_replace: Returns whether the file may be replaced; else it is overwritten.

    Raises:
        Conflict: It has another content.
        FileMissing: Its folder does not exist.
        ReadOnly, DiskFull, SaveFailed: Nothing was changed, or the message says that the old content
            could not be restored.
    """
    try:
        for _ in range(_TRIES):
            with suppress(FileChanged):
                if not _replace(file, path, before, after, may_replace):
                    break
                return
    except FileNotFoundError:
        pass  # It was removed since it was compared.
    except NotADirectoryError:
        raise FileMissing(f"There is no folder for `{path}`.") from None
    except OSError as error:
        raise save_error(error, f"`{path}`") from error
    raise changed_since(path)


def _replace(
    file: Path,
    path: str,
    before: bytes | None,
    after: bytes | None,
    may_replace: Callable[[Path], bool],
) -> bool:
    """Compare and write; return False if the file has another content.

    Raises:
        FileChanged: It, or only its attributes, changed since it was compared.
        OSError.
    """
    if before is None:
        return _create(file, path, after)
    if file.stat().st_size != len(before):
        return False
    version, found = Folder(file.parent).read(file.name)
    if found != before:
        return False
    if after is None:
        return _remove(file, before)
    if not may_replace(file) or not _replaced(file, before, after, version):
        return _overwrite(file, path, before, after)
    return True


def _replaced(file: Path, before: bytes, after: bytes, version: FileVersion) -> bool:
    """Replace a file; return False if it cannot be replaced, but perhaps overwritten."""
    try:
        Folder(file.parent).replace(file.name, after, version, before)
    except OSError as error:
        if error.errno not in _NOT_REPLACED:
            raise
        return False
    return True


@contextmanager
def _alone(file: Path) -> Generator[None]:
    with _process_lock, Folder(file.parent).lock():
        yield


def _overwrite(file: Path, path: str, before: bytes, after: bytes) -> bool:
    """Compare a file and write it in place; return False if it has another content."""
    with _alone(file):
        fd = open_descriptor(file, os.O_RDWR)
        try:
            if os.fstat(fd).st_size != len(before) or _read(fd) != before:
                return False
            try:
                _write_in_place(fd, before, after)
            except OSError as error:
                _restore(fd, path, before, error)
                raise
        finally:
            os.close(fd)
    return True


def _write_in_place(fd: int, before: bytes, after: bytes) -> None:
    size = len(before)
    # What needs space comes first: a full disk is known before the old content is overwritten.
    for start, part in ((size, after[size:]), (0, after[:size])):
        os.lseek(fd, start, os.SEEK_SET)
        write_all(fd, part)
    os.ftruncate(fd, len(after))
    os.fsync(fd)


def _restore(fd: int, path: str, before: bytes, error: OSError) -> None:
    """Write the old content after an error of `_write_in_place`.

    Raises:
        ToolError: It failed too.
    """
    try:
        os.ftruncate(fd, len(before))
        if _read(fd) != before:
            os.lseek(fd, 0, os.SEEK_SET)
            write_all(fd, before)
        os.fsync(fd)
    except OSError:
        failed = save_error(error, f"`{path}`")
        raise type(failed)(
            f"{failed.message} Its old content could not be restored: the file may be incomplete.",
            hint="Fix the cause, then read the file and write it again.",
        ) from error


def _read(fd: int) -> bytes:
    os.lseek(fd, 0, os.SEEK_SET)
    return b"".join(iter(lambda: os.read(fd, _CHUNK), b""))


def _create(file: Path, path: str, data: bytes | None) -> bool:
    if data is None:
        return not file.exists()
    try:
        with creation_errors(f"`{path}`"):
            Folder(file.parent).create(file.name, data)
    except NotebookExists:
        return False
    return True


def _remove(file: Path, before: bytes) -> bool:
    with _alone(file):
        if Folder(file.parent).read(file.name)[1] != before:
            return False
        file.unlink()
    return True
