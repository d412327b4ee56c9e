"""Advisory file locks, which the system releases when the process ends.

`flock` is used directly where it exists: portalocker would call it too, and takes 60 ms to import.
"""

from __future__ import annotations

import errno
from typing import Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl: Any = None


def lock(file: int, *, wait: bool = True) -> None:
    """Lock an open file (or a folder, where folders can be opened) exclusively.

    Args:
        file: The file descriptor.
        wait: Whether to wait while another descriptor has the lock.

    Raises:
        BlockingIOError: Another descriptor has the lock, and ``wait`` is false.
        OSError: The file system has no locks (ENOLCK).
    """
    if fcntl is None:
        _lock_portably(file, wait=wait)
    else:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def unlock(file: int) -> None:
    """Release a lock that `lock` acquired."""
    if fcntl is None:
        import portalocker

        portalocker.unlock(file)
    else:
        fcntl.flock(file, fcntl.LOCK_UN)


def _lock_portably(file: int, *, wait: bool) -> None:
    import portalocker

    flags = portalocker.LockFlags.EXCLUSIVE
    try:
        portalocker.lock(file, flags if wait else flags | portalocker.LockFlags.NON_BLOCKING)
    except portalocker.AlreadyLocked as held:
        raise BlockingIOError(errno.EAGAIN, "Another descriptor has the lock") from held
    except portalocker.LockException as failed:
        raise OSError(errno.ENOLCK, f"The file cannot be locked: {failed}") from failed
