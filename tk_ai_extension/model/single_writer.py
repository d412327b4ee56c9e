"""Exclusion of other writers of a private file: other threads, and other processes of the user."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from tk_ai_extension.model import file_locks

_UNLOCKED = threading.Lock()
"""Held where no lock on a file can be made."""


@contextmanager
def single_writer(file: Path) -> Generator[None]:
    """Exclude other writers of a file from its first reading until its replacement. Blocks.

    The lock is on an empty file ``.<name>.lock`` beside it, which stays: a file that is replaced has no
    lasting lock, and a folder cannot be locked everywhere. Where no lock can be made (the folder does
    not exist or is read-only, the disk is full, the file system has no locks), only the threads of this
    process exclude one another. It is not reentrant.

    Args:
        file: The file, which need not exist.
    """
    held = _locked(file.with_name(f".{file.name}.lock"))
    if held is None:
        with _UNLOCKED:
            yield
        return
    try:
        yield
    finally:
        # Releases it; each descriptor has a lock of its own, also in one process.
        os.close(held)


def _locked(path: Path) -> int | None:
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        held = os.open(path, flags, 0o600)
    except OSError:
        return None
    try:
        file_locks.lock(held)
    except OSError:
        with suppress(OSError):
            os.close(held)
        return None
    return held
