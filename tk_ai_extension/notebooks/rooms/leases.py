"""Leases: at most one server has a notebook's room, as two rooms of one file would save over each other.

A lease is a lock on a file in Jupyter's runtime folder, which the servers of a user share. The system
releases it when the process ends, in whatever way.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from tk_ai_extension.model import file_locks
from tk_ai_extension.model.errors import OpenElsewhere, OpenTwice
from tk_ai_extension.model.paths import moved

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Use:
    """A room that is being opened or closed. Its path follows renames."""

    path: str


class RoomLeases:
    """The leases of one server.

    A lease ends when no room of the notebook is open, being opened or being closed.

    Args:
        folder: The folder of the lock files, the same for all servers of a user.
        root: The folder that notebooks' paths are relative to.
        name: Returns this server's address, for people.
    """

    def __init__(self, folder: Path, root: Path, name: Callable[[], str]) -> None:
        self._folder = folder
        self._root = root
        self._name = name
        self._locks: dict[str, Path] = {}
        self._held: dict[Path, int] = {}
        self._uses: set[_Use] = set()
        # Leased notebooks' current names, by their earlier names.
        self._renamed: dict[str, str] = {}
        self._is_open: Callable[[str], bool] = lambda path: path in self._locks

    @contextmanager
    def opening(self, path: str) -> Generator[None]:
        """Take the lease of a notebook while its room is being opened, also after one that is being closed.

        Raises:
            OpenElsewhere, OpenTwice: see `take`.
        """
        self.take(path)
        with self._used(path):
            yield

    @contextmanager
    def _used(self, path: str) -> Generator[None]:
        """Keep the lease of a notebook inside the block; release it at the end if nothing else uses it."""
        use = _Use(path)
        self._uses.add(use)
        try:
            yield
        finally:
            self._uses.remove(use)
            if not self._is_used(use.path):
                self.release(use.path)

    def _is_used(self, path: str) -> bool:
        return self._is_open(path) or any(use.path == path for use in self._uses)

    def take_or_warn(self, path: str) -> None:
        """Take the lease of a notebook that is already open; log a warning if that fails."""
        try:
            self.take(path)
        except OpenTwice as error:
            self._locks[path] = self._lock_of(path)
            _log.warning("%s Both rooms save the file, so work may be lost.", error.message)
        except OpenElsewhere as error:
            _log.warning("%s Both servers save the file, so work may be lost.", error.message)

    def take(self, path: str) -> None:
        """Take the lease of a notebook; idempotent.

        Raises:
            OpenElsewhere: another server has the lease.
            OpenTwice: the file has a room under another name, a link.
        """
        if path in self._locks:
            return
        lock = self._lock_of(path)
        if lock in self._held:
            for name in [name for name, held in self._locks.items() if held == lock]:
                if self._is_used(name):
                    raise OpenTwice(
                        f"{path} is open in a collaboration room as {name}, which is the same file.",
                        hint=f"Use it as {name}, or try again when it is closed there.",
                    )
            self._locks[path] = lock
            return
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = _locked(lock)
        except OSError as error:
            _log.warning("%s has no lease, so other servers may open it as well: %s", path, error)
            return
        if fd is None:
            raise self._elsewhere(path, lock)
        self._locks[path], self._held[lock] = lock, fd
        with suppress(OSError):  # The lock counts; the address is for people.
            os.ftruncate(fd, 0)
            os.write(fd, self._name().encode("utf-8", "replace"))

    def check(self, path: str) -> None:
        """Raise if another server has the lease.

        Raises:
            OpenElsewhere: another server has the lease.
        """
        if path in self._locks:
            return
        lock = self._lock_of(path)
        if lock in self._held:
            return
        try:
            fd = os.open(lock, os.O_RDWR)
        except OSError:
            return
        try:
            file_locks.lock(fd, wait=False)
        except BlockingIOError:
            raise self._elsewhere(path, lock) from None
        except OSError:
            return
        finally:
            os.close(fd)

    def release(self, path: str) -> None:
        """Release the lease of a notebook if it is held."""
        lock = self._locks.pop(path, None)
        self._renamed = {old: now for old, now in self._renamed.items() if now != path}
        if lock is not None and lock not in self._locks.values():
            with suppress(OSError):
                lock.unlink()
            os.close(self._held.pop(lock))

    def release_with_rooms(self, server: Any) -> None:
        """Release a notebook's lease when jupyter-collaboration's server deletes its room."""
        delete = server.delete_room
        self._is_open = lambda path: any(
            self._path_of(room) == path for room in server.rooms.values()
        )

        async def delete_room(*, name: str | None = None, room: Any = None) -> None:
            path = self._path_of(server.rooms.get(name) if room is None else room)
            with nullcontext() if path is None else self._used(path):
                await delete(name=name, room=room)

        server.delete_room = delete_room

    def _path_of(self, room: Any) -> str | None:
        path = _path_of(room)
        if path is None or path in self._locks:
            return path
        # The file id of a notebook does not follow a rename of its folder.
        return self._renamed.get(path, path)

    def renamed(self, old: str, new: str) -> None:
        """Move leases after a rename of a notebook or a folder."""
        for use in self._uses:
            use.path = moved(use.path, old, new) or use.path
        for path in list(self._locks):
            place = moved(path, old, new)
            if place is None:
                continue
            earlier = [name for name, now in self._renamed.items() if now == path]
            self._renamed |= dict.fromkeys([*earlier, path], place)
            self._renamed.pop(place, None)
            if self._lock_of(place) == self._locks[path]:  # A link: its file stays.
                self._locks[place] = self._locks.pop(path)
            else:
                self.take_or_warn(place)
                self.release(path)

    def close(self) -> None:
        """Release all leases."""
        for path in list(self._locks):
            self.release(path)

    def _lock_of(self, path: str) -> Path:
        file = os.fsencode((self._root / path).resolve())
        return self._folder / blake2b(file, digest_size=16).hexdigest()

    def _elsewhere(self, path: str, lock: Path) -> OpenElsewhere:
        try:
            server = lock.read_text(encoding="utf-8")
        except OSError:
            server = ""
        return OpenElsewhere(
            f"{path} is open in a collaboration room of another Jupyter Server"
            f"{f' ({server})' if server else ''}.",
            server=server,
        )


def _path_of(room: Any) -> str | None:
    """Return the current path of a room's file; None for a room without a file.

    The document's own path follows a rename only when the file's loader looks at the file.
    """
    try:
        path: str = room._file.path  # noqa: SLF001
    except AttributeError:
        return None
    except RuntimeError:  # The file's id was removed with the file.
        path = room._document.path  # noqa: SLF001
    return path


def _locked(lock: Path) -> int | None:
    """Return a descriptor that holds a lock; None if another process holds it."""
    while True:
        fd = os.open(lock, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            file_locks.lock(fd, wait=False)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(fd), lock.stat()):
                    return fd
        except BlockingIOError:
            os.close(fd)
            return None
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)  # The previous holder removed the file in between.
