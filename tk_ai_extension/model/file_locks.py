"""Advisory locks on files (flock), which the system releases with the process that holds them."""

from __future__ import annotations

import errno
from typing import Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl: Any = None

SUPPORTED = fcntl is not None
"""Whether this system has them; a single file system may lack them nevertheless."""


def lock(file: int, *, wait: bool = True) -> None:
    """Lock an open file or folder for its descriptor alone.

    Args:
        file: The descriptor.
        wait: Whether to wait for another holder.

    Raises:
        BlockingIOError: another descriptor holds the lock, and ``wait`` is false.
        OSError: the system or the file system has no locks (ENOLCK).
    """
    if fcntl is None:
        raise OSError(errno.ENOLCK, "This system has no advisory file locks")
    fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def unlock(file: int) -> None:
    """Release a lock that `lock` has taken."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_UN)
