"""Files and folders that only their owner can read or write."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents with mode 0700.

    `Path.mkdir(parents=True)` would create the parents with the umask's mode.

    Raises:
        OSError: It cannot be created.
    """
    for part in (*reversed(folder.parents), folder):
        if not part.is_dir():
            part.mkdir(mode=0o700, exist_ok=True)


def write_private(path: Path, text: str, *, mode: int = 0o600, sync: bool = True) -> None:
    """Replace a file at once: others see the old text or the new one, also if the process is killed.

    Threads and processes may write the same file. Nothing is written through a symbolic link. A file
    that a killed process left is named ``.<name>-<hex>``.

    Args:
        path: File in an existing folder.
        text: The whole text.
        mode: Permission bits from the first moment on, less the umask.
        sync: Whether the new text is on the disk when this returns.

    Raises:
        OSError: It cannot be written; it is as before.
    """
    new = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise
