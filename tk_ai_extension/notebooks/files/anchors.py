"""Where a file is after somebody has moved it: an open descriptor goes along with it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tk_ai_extension.notebooks.files.indexing import FileVersion

_MAX_PATH = 1024
"""Bytes that macOS's F_GETPATH fills at most."""


class Anchor:
    """A descriptor of a file that is about to be written again and again.

    Where the system does not tell a descriptor's path, it knows nothing, and says so.
    """

    def __init__(self) -> None:
        self._fd: int | None = None

    def hold(self, file: Path) -> None:
        """Holds this file from now on, in place of another one; of one that is gone, none."""
        self.release()
        try:
            self._fd = os.open(file, os.O_RDONLY)
        except OSError:
            self._fd = None

    def release(self) -> None:
        """Lets go."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def place(self) -> Path | None:
        """Where the file is now; None where it was deleted, or where that cannot be known."""
        if self._fd is None or (text := _path_of(self._fd)) is None:
            return None
        place = Path(text)
        try:
            found = FileVersion.of(place.stat())
        except OSError:
            return None
        return place if found == FileVersion.of(os.fstat(self._fd)) else None


def _path_of(fd: int) -> str | None:
    try:
        if sys.platform == "darwin":
            import fcntl  # Windows has none.

            return os.fsdecode(fcntl.fcntl(fd, fcntl.F_GETPATH, bytes(_MAX_PATH)).rstrip(b"\0"))
        return str(Path(f"/proc/self/fd/{fd}").readlink())
    except OSError:
        return None
