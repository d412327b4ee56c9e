"""Temporary files that replace a target, in the safest way that the system supports.

With `O_TMPFILE` the new file has no name; once synced to disk it gets a hidden name and is exchanged
with the target (`RENAME_EXCHANGE`). The exchanged file is then compared with the expected version: if
another program wrote the target at the last moment, the two are exchanged back. Systems without these
calls use the closest alternative.
"""

from __future__ import annotations

import errno
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from tk_ai_extension.model import file_locks
from tk_ai_extension.notebooks.base import FileChanged
from tk_ai_extension.notebooks.files.indexing import FileVersion

_log = logging.getLogger(__name__)

_NO_TMPFILE = frozenset((errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT))
_RENAME_EXCHANGE = 2


class NewFile(ABC):
    """A temporary file that does not have its final name yet.

    Attributes:
        fd: A descriptor for its content; sync it before the file gets a name.
    """

    fd: int

    @abstractmethod
    def alone(self) -> AbstractContextManager[None]:
        """Exclude other programs that save in the same way from the last step, if possible."""

    @abstractmethod
    def take_name(self, name: str) -> None:
        """Take an unused name.

        Raises:
            FileExistsError.
        """

    @abstractmethod
    def take_place_of(self, target: str, expected: FileVersion) -> None:
        """Replace the target if it still has the expected version.

        Raises:
            FileChanged: it has another version; it was not replaced.
        """

    @abstractmethod
    def overwrite(self, target: str) -> None:
        """Replace the target, whatever its version."""

    @abstractmethod
    def placed(self, target: str) -> FileVersion:
        """Sync the new name to disk, where possible, and return the file's version."""

    @abstractmethod
    def close(self) -> None:
        """Close the file; remove it if it has not taken a name."""


@contextmanager
def new_file(folder: Path, mode: int) -> Generator[NewFile]:
    """Yield a temporary file in a folder, with a mode as in `os.open`."""
    in_folder = _InFolder if os.open in os.supports_dir_fd else _ByPath
    temporary = in_folder(folder, mode)
    try:
        yield temporary
    finally:
        temporary.close()


@contextmanager
def folder_lock(folder: Path) -> Generator[None]:
    """Exclude other programs that save in a folder, as `NewFile.alone`; the folder may be read-only.

    It has no effect where a folder cannot be opened or locked.
    """
    try:
        fd = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except OSError:
        fd = None
    if fd is None:
        yield
        return
    try:
        with _locked(fd):
            yield
    finally:
        os.close(fd)


@contextmanager
def _locked(folder: int) -> Generator[None]:
    """Lock an open folder, unless its file system has no locks."""
    locked = True
    try:
        file_locks.lock(folder)
    except OSError:
        locked = False
    try:
        yield
    finally:
        if locked:
            file_locks.unlock(folder)


class _InFolder(NewFile):
    """A file in an open folder; the folder may be moved meanwhile."""

    def __init__(self, folder: Path, mode: int) -> None:
        self._name: str | None = None
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.fd = self._open(mode)
        except BaseException:
            os.close(self._folder)
            raise

    def _open(self, mode: int) -> int:
        if hasattr(os, "O_TMPFILE"):
            try:
                return os.open(".", os.O_TMPFILE | os.O_RDWR, mode, dir_fd=self._folder)
            except OSError as error:
                if error.errno not in _NO_TMPFILE:
                    raise
        # A file system without O_TMPFILE: use a name that file browsers and Dropbox ignore.
        name = f".~{os.urandom(16).hex()}"
        fd = os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode, dir_fd=self._folder)
        self._name = name
        return fd

    @contextmanager
    def alone(self) -> Generator[None]:
        """See `NewFile.alone`.

        Exchanging back is a second step: in between, another program would take the content that is
        about to be removed for the current one. The hidden name is removed before the lock is
        released, because the next program uses the same name.
        """
        with _locked(self._folder):
            try:
                yield
            finally:
                self._remove_hidden_name()

    def take_name(self, name: str) -> None:
        """See `NewFile.take_name`."""
        # A descriptor for the folder makes Python call linkat, which follows the link in /proc.
        source = f"/proc/self/fd/{self.fd}" if self._name is None else self._name
        os.link(
            source,
            name,
            src_dir_fd=self._folder,
            dst_dir_fd=self._folder,
            follow_symlinks=self._name is None,
        )

    def take_place_of(self, target: str, expected: FileVersion) -> None:
        """See `NewFile.take_place_of`."""
        hidden = self._take_hidden_name(target)
        if not _exchange(self._folder, hidden, target):
            self.overwrite(target)
            return
        is_expected = False
        try:
            out = FileVersion.of(os.stat(hidden, dir_fd=self._folder))
            is_expected = out.is_same_content(expected)
        finally:
            if not is_expected:
                _exchange(self._folder, hidden, target)
        if not is_expected:
            raise FileChanged

    def overwrite(self, target: str) -> None:
        """See `NewFile.overwrite`."""
        hidden = self._take_hidden_name(target)
        os.rename(hidden, target, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self._name = None

    def placed(self, target: str) -> FileVersion:
        """See `NewFile.placed`."""
        version = FileVersion.of(os.fstat(self.fd))
        try:
            os.fsync(self._folder)
        except OSError as error:
            # A file system that cannot sync folders; the file has its name.
            _log.warning("The name of %s may not be on disk yet: %s", target, error)
        return version

    def close(self) -> None:
        """See `NewFile.close`."""
        os.close(self.fd)
        self._remove_hidden_name()
        os.close(self._folder)

    def _remove_hidden_name(self) -> None:
        """Remove the hidden name, if it has one."""
        if self._name is not None:
            try:
                os.unlink(self._name, dir_fd=self._folder)
            except FileNotFoundError:
                pass
            except OSError as error:
                # It may hold the old content: the target may have been replaced.
                _log.warning("%s was not removed: %s", self._name, error)
            self._name = None

    def _take_hidden_name(self, target: str) -> str:
        """Return the file's hidden name, which it has until it replaces the target."""
        if self._name is None:
            hidden = _hidden_name(target)
            try:
                self.take_name(hidden)
            except FileExistsError:
                # Left by a killed save: only one process writes a notebook at a time.
                os.unlink(hidden, dir_fd=self._folder)
                self.take_name(hidden)
            self._name = hidden
        return self._name


class _ByPath(NewFile):
    """A file with a hidden name, where folders cannot be opened (Windows).

    An open file can be neither renamed nor replaced there, so it is closed first.
    """

    def __init__(self, folder: Path, mode: int) -> None:
        self._folder = folder
        self._path = folder / f".~{os.urandom(16).hex()}"
        binary = getattr(os, "O_BINARY", 0)
        self.fd = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR | binary, mode)
        self._open = True

    @contextmanager
    def alone(self) -> Generator[None]:
        """See `NewFile.alone`; not possible here."""
        yield

    def take_name(self, name: str) -> None:
        """See `NewFile.take_name`."""
        self._close_content()
        os.link(self._path, self._folder / name)

    def take_place_of(self, target: str, expected: FileVersion) -> None:
        """See `NewFile.take_place_of`."""
        if FileVersion.of((self._folder / target).stat()) != expected:
            raise FileChanged
        self.overwrite(target)

    def overwrite(self, target: str) -> None:
        """See `NewFile.overwrite`."""
        self._close_content()
        self._path.replace(self._folder / target)

    def placed(self, target: str) -> FileVersion:
        """See `NewFile.placed`; the system syncs names itself."""
        return FileVersion.of((self._folder / target).stat())

    def close(self) -> None:
        """See `NewFile.close`."""
        self._close_content()
        self._path.unlink(missing_ok=True)

    def _close_content(self) -> None:
        if self._open:
            self._open = False
            os.close(self.fd)


@cache
def _renameat2() -> Any:
    """Return the C library's function, or None if it has none."""
    import ctypes  # Imported late: not needed for reading.

    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is not None:
        path = ctypes.c_char_p
        function.argtypes = [ctypes.c_int, path, ctypes.c_int, path, ctypes.c_uint]
    return function


def _exchange(folder: int, one: str, other: str) -> bool:
    """Exchange two names of a folder; return False if the system cannot."""
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
    """Return the hidden name of the target's replacement.

    Its prefix is one that Dropbox and file browsers ignore.
    """
    return f".~tk-{blake2b(os.fsencode(target), digest_size=8).hexdigest()}"
