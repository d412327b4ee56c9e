"""A new file beside the one whose place it takes, in the way that the system does best.

Where the system has files without a name (`O_TMPFILE`), the new one gets a hidden name when it is on
disk, and changes places with the target (`RENAME_EXCHANGE`). What comes out is then looked at: if
somebody wrote the target in the last moment, the two change back. Where the system lacks one of
these, the nearest thing is done.
"""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from tk_ai_extension.model import file_locks
from tk_ai_extension.notebooks.base import FileChanged
from tk_ai_extension.notebooks.files.indexing import FileVersion

_NO_TMPFILE = frozenset((errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT))
_RENAME_EXCHANGE = 2


class NewFile(ABC):
    """A file that has not its name yet.

    Attributes:
        fd: Where its content goes; forced to disk before it gets a name.
    """

    fd: int

    @abstractmethod
    def alone(self) -> AbstractContextManager[None]:
        """Keep other programs that save as this one does out of the last step, where possible."""

    @abstractmethod
    def take_name(self, name: str) -> None:
        """Take a name that nothing has.

        Raises:
            FileExistsError.
        """

    @abstractmethod
    def take_place_of(self, target: str, expected: FileVersion) -> None:
        """Take the target's name, if the target is still at this version.

        Raises:
            FileChanged: it is not, and keeps its name.
        """

    @abstractmethod
    def overwrite(self, target: str) -> None:
        """Take the target's name, whatever has it."""

    @abstractmethod
    def placed(self, target: str) -> FileVersion:
        """Force the name that it has taken to disk; its version."""

    @abstractmethod
    def close(self) -> None:
        """Close it; a file that has not taken a name is removed."""


@contextmanager
def new_file(folder: Path, mode: int) -> Generator[NewFile]:
    """Make a file in a folder, with a mode as of `open`."""
    in_folder = _InFolder if os.open in os.supports_dir_fd else _ByPath
    temporary = in_folder(folder, mode)
    try:
        yield temporary
    finally:
        temporary.close()


class _InFolder(NewFile):
    """A file of an open folder, which may be moved meanwhile."""

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
        # A file system without unnamed files: one that file browsers and Dropbox pass over.
        name = f".~{os.urandom(16).hex()}"
        fd = os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode, dir_fd=self._folder)
        self._name = name
        return fd

    @contextmanager
    def alone(self) -> Generator[None]:
        """See `NewFile.alone`.

        Changing back is no single step: in between, one of them would take what is about to go for the
        present content. The hidden name is given up before the next one comes in, since that uses it.
        """
        locked = True
        try:
            file_locks.lock(self._folder)
        except OSError:
            # A file system without locks.
            locked = False
        try:
            yield
        finally:
            self._remove_hidden_name()
            if locked:
                file_locks.unlock(self._folder)

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
        out = FileVersion.of(os.stat(hidden, dir_fd=self._folder))
        if not out.is_same_content(expected):
            _exchange(self._folder, hidden, target)
            raise FileChanged

    def overwrite(self, target: str) -> None:
        """See `NewFile.overwrite`."""
        hidden = self._take_hidden_name(target)
        os.rename(hidden, target, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self._name = None

    def placed(self, target: str) -> FileVersion:  # noqa: ARG002
        """See `NewFile.placed`."""
        version = FileVersion.of(os.fstat(self.fd))
        os.fsync(self._folder)
        return version

    def close(self) -> None:
        """See `NewFile.close`."""
        os.close(self.fd)
        self._remove_hidden_name()
        os.close(self._folder)

    def _remove_hidden_name(self) -> None:
        """Remove the hidden name, if it has one."""
        if self._name is not None:
            with suppress(FileNotFoundError):
                os.unlink(self._name, dir_fd=self._folder)
            self._name = None

    def _take_hidden_name(self, target: str) -> str:
        """The name that the file has until it takes the target's."""
        if self._name is None:
            hidden = _hidden_name(target)
            try:
                self.take_name(hidden)
            except FileExistsError:
                # Left by a save that was killed: one process writes a notebook at a time.
                os.unlink(hidden, dir_fd=self._folder)
                self.take_name(hidden)
            self._name = hidden
        return self._name


class _ByPath(NewFile):
    """A file with a hidden name, where folders cannot be opened (Windows).

    An open file can be neither renamed nor replaced there: it is closed before.
    """

    def __init__(self, folder: Path, mode: int) -> None:
        self._folder = folder
        self._path = folder / f".~{os.urandom(16).hex()}"
        binary = getattr(os, "O_BINARY", 0)
        self.fd = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR | binary, mode)
        self._open = True

    @contextmanager
    def alone(self) -> Generator[None]:
        """See `NewFile.alone`: nothing is possible."""
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
        """See `NewFile.placed`; names are the system's to force to disk."""
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
