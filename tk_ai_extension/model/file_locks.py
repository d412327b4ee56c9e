"""Advisory file locks, which the system releases when the process ends. Windows has none of them."""

from __future__ import annotations


def lock(file: int, *, wait: bool = True) -> None:
    """Lock an open file (or a folder, where folders can be opened) exclusively.

    Args:
        file: The file descriptor.
        wait: Whether to wait while another descriptor has the lock.

    Raises:
        BlockingIOError: Another descriptor has the lock, and ``wait`` is false.
        OSError: The file system has no locks (ENOLCK).
    """
    try:
        import fcntl
    except ImportError:
        return
    fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
