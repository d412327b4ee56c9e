"""Files and folders that only their owner can read or write."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

MAX_BYTES = 256_000
"""Maximum size of a file that is read, in bytes."""


class PrivateFileError(ValueError):
    """A private file cannot be used; the message does not contain its content."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


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
    """Replace a file atomically: others see the old text or the new one, even if the process is killed.

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


def read_private(path: Path, *, refused_bits: int = 0o077) -> str | None:
    """Return the text of a file of this user; None if there is no file.

    Args:
        path: The file.
        refused_bits: Bits of a mode that the file must not have.

    Raises:
        PrivateFileError: it cannot be read, is a symbolic link, another user's, or open to others.
    """
    # O_NONBLOCK: opening a FIFO must not block.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        why = "it is a symbolic link" if path.is_symlink() else error.strerror
        raise PrivateFileError(f"{path!s} cannot be read: {why}.") from None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise PrivateFileError(f"{path!s} cannot be read: it is not a regular file.")
        if os.name != "nt" and found.st_uid != os.geteuid():
            raise PrivateFileError(f"{path!s} is not used: it belongs to another user.")
        if os.name != "nt" and found.st_mode & refused_bits:
            raise PrivateFileError(
                f"{path!s} is not used: others can read or write it. Run `chmod 600` on it."
            )
        try:
            return file.read(MAX_BYTES).decode()
        except UnicodeDecodeError:
            # Not chained: that error would hold the file's bytes.
            raise PrivateFileError(f"{path!s} is not UTF-8 text.") from None
