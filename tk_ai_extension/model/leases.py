"""Leases of running servers: file locks that the system releases when a process ends.

A process id would not do: ids are reused, and have no meaning in another container.
"""

from __future__ import annotations

import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

from tk_ai_extension.model import file_locks

_ID = re.compile(r"[0-9a-f]{24}")


def _is_file_of(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


class ServerLease:
    """Lease of one server among those that share a folder. All methods block.

    Args:
        folder: Folder of the lock files; created when needed.
    """

    def __init__(self, folder: Path) -> None:
        self.id = secrets.token_hex(12)
        """The server's name; a new one at each start."""
        self._folder = folder
        self._held: int | None = None

    def begin(self) -> None:
        """Acquire the lease, and remove the files of servers that were killed; idempotent.

        Raises:
            OSError: The folder is not writable, or its file system has no locks.
        """
        if self._held is not None:
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._path(self.id)
        while self._held is None:
            held = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
            try:
                file_locks.lock(held)
            except OSError:
                os.close(held)
                self._remove(path)
                raise
            if _is_file_of(held, path):
                self._held = held
            else:  # Another server removed it before it was locked.
                os.close(held)
        for each in self._folder.iterdir():
            self.lives(each.name)

    def lives(self, server: str) -> bool:
        """Return whether a server may be running; removes the file of one that is not."""
        if server == self.id:
            return True
        if _ID.fullmatch(server) is None:
            return False
        path = self._path(server)
        try:
            tried = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            return False
        except OSError:  # For example the file of another user.
            return True
        try:
            file_locks.lock(tried, wait=False)
            # While it is locked: its server may be about to begin.
            self._remove(path)
        except OSError:  # The server has the lock, or the file cannot be locked.
            return True
        finally:
            os.close(tried)
        if os.name == "nt":  # It refuses to remove open files, also those of this process.
            self._remove(path)
        return False

    def end(self) -> None:
        """Release the lease."""
        held, self._held = self._held, None
        if held is not None:
            os.close(held)
            self._remove(self._path(self.id))

    def _remove(self, path: Path) -> None:
        """Remove the file of a server that is not running; Windows refuses while others have it open."""
        with suppress(OSError):
            path.unlink()

    def _path(self, server: str) -> Path:
        return self._folder / server
