"""Which servers live: each holds a lock that the system lets go of when its process ends, however.

A number of a process would not do: it is given to another one, and means nothing in a container.
"""

from __future__ import annotations

import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

from tk_ai_extension.model import file_locks

_ID = re.compile(r"[0-9a-f]{24}")


class ServerLease:
    """One server among those that use a folder; blocking, for the moment that a file takes.

    Args:
        folder: Where each server's file is; made when it is needed.
    """

    def __init__(self, folder: Path) -> None:
        self.id = secrets.token_hex(12)
        """The server's name; a new one each time it starts."""
        self._folder = folder
        self._held: int | None = None

    def begin(self) -> None:
        """Lives from now on; a second time changes nothing.

        Raises:
            OSError: the folder cannot be written.
        """
        if self._held is not None:
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = os.open(self._path(self.id), os.O_CREAT | os.O_RDWR, 0o600)
        file_locks.lock(held)
        self._held = held

    def lives(self, server: str) -> bool:
        """Whether a server lives; the file of one that does not goes."""
        if server == self.id:
            return True
        if _ID.fullmatch(server) is None:
            return False
        path = self._path(server)
        try:
            tried = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            file_locks.lock(tried, wait=False)
        except BlockingIOError:
            return True
        finally:
            os.close(tried)
        self._remove(path)
        return False

    def end(self) -> None:
        """Lives no more."""
        held, self._held = self._held, None
        if held is not None:
            os.close(held)
            self._remove(self._path(self.id))

    def _remove(self, path: Path) -> None:
        """Removes the file of a server that does not live; Windows refuses while others look at it."""
        with suppress(FileNotFoundError, PermissionError):
            path.unlink()

    def _path(self, server: str) -> Path:
        return self._folder / server
