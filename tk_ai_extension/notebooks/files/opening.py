"""Opens files in a user's folder: regular files only, without following a link and without waiting.

Others (the author of a repository, code in a kernel) can put a link, a FIFO or a device under any name,
also after the name was checked. A link may lead outside the root, opening a FIFO blocks its thread until
somebody writes to it, and a device may have no end. Code that reads a user's files opens them here.
"""

from __future__ import annotations

import errno
import os
import stat
from io import FileIO
from pathlib import Path

_FLAGS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
"""Not all of these exist on all systems."""


def open_regular(file: Path) -> FileIO:
    """Open a regular file for reading.

    Args:
        file: The file; links are resolved before, so the last component must not be one.

    Raises:
        OSError: It cannot be opened, is a link (ELOOP), a folder, or not a regular file (EINVAL).
    """
    return FileIO(open_descriptor(file), "rb")


def open_descriptor(file: Path, access: int = os.O_RDONLY) -> int:
    """Open a regular file, by default for reading, and return its descriptor; see `open_regular`."""
    fd = os.open(file, access | _FLAGS, 0o666)
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return fd
    os.close(fd)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    raise OSError(errno.EINVAL, "Not a regular file", str(file))
