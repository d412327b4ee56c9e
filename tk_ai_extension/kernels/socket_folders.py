"""Private folders (mode 0700) for a kernel's Unix sockets, with paths short enough for ``sun_path``."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import socket
import stat
from pathlib import Path
from tempfile import gettempdir, mkdtemp

log = logging.getLogger(__name__)

PREFIX = "nb-"
"""Prefix of the folders' names; a hash of the host name follows, see `prefix`."""

FALLBACK = "/tmp"  # noqa: S108 - mkdtemp makes a private folder there
"""Where folders are made if the path of the system's temporary folder is too long."""

LONGEST_BASE = 75
"""Maximum bytes of the parent folder's path: ``sun_path`` has 104 to 108 for the whole path."""


def make_folder() -> Path:
    """Make a private folder. Blocks."""
    return Path(mkdtemp(prefix=prefix(), dir=_base()))


def prefix() -> str:
    """Return the prefix of this machine's folder names.

    A temporary folder may be shared with other machines, whose running kernels are unknown here.
    """
    name = socket.gethostname().encode("utf-8", "surrogateescape")
    return f"{PREFIX}{hashlib.sha256(name).hexdigest()[:4]}-"


def restore_folder(folder: Path) -> None:
    """Recreate a folder of `make_folder` if it was removed. Blocks.

    Raises:
        OSError: its path is taken.
    """
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if not is_own(folder):
            raise


def remove_folder(folder: Path) -> None:
    """Remove a folder of `make_folder`; do nothing for any other path. Blocks."""
    if is_own(folder):
        shutil.rmtree(folder, ignore_errors=True)


def is_own(folder: Path) -> bool:
    """Return whether a path is a folder, not a link, that `make_folder` made for this user."""
    if str(folder.parent) not in {gettempdir(), FALLBACK} or not folder.name.startswith(PREFIX):
        return False
    try:
        status = folder.lstat()
    except (OSError, ValueError):
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()


def _base() -> str:
    base = gettempdir()
    return base if len(os.fsencode(base)) <= LONGEST_BASE else FALLBACK
