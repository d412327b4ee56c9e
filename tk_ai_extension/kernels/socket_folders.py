"""Private folders (mode 0700) for a kernel's Unix sockets, with paths short enough for ``sun_path``."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import socket
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import gettempdir, mkdtemp

from tk_ai_extension.model.local_sockets import is_dead_socket

log = logging.getLogger(__name__)

PREFIX = "nb-"
"""Prefix of the folders' names; a hash of the host name follows, see `prefix`."""

STARTING = 600.0
"""Seconds after its last change in which a folder without a listening socket is not stale."""

FALLBACK = "/tmp"  # noqa: S108 - mkdtemp makes a private folder there
"""Where folders are made if the path of the system's temporary folder is too long."""

LONGEST_BASE = 75
"""Maximum bytes of the parent folder's path: ``sun_path`` has 104 to 108 for the whole path."""

PRIVATE_KERNELS = frozenset({"ipykernel", "ipykernel_launcher"})
"""Modules that name their ``ipc`` sockets as jupyter_client does.

Other kernels join address and port with a colon for every transport, so clients do not find them.
"""


def supports_ipc(argv: Sequence[str]) -> bool:
    """Return whether a kernelspec's command runs Python on this machine with a kernel that serves ``ipc``.

    A command that merely contains one, such as ``docker run … python -m ipykernel``, may run it where
    this machine's folders do not exist.

    >>> supports_ipc(["python3", "-m", "ipykernel", "-f", "{connection_file}"])
    True
    >>> supports_ipc(["docker", "run", "image", "python", "-m", "ipykernel"])
    False
    """
    if os.name != "posix" or not argv or not Path(argv[0]).name.startswith(("python", "pypy")):
        return False
    module = argv.index("-m") + 1 if "-m" in argv else len(argv)
    return module < len(argv) and argv[module] in PRIVATE_KERNELS


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


def remove_stale_folders() -> list[Path]:
    """Remove this user's folders on this machine whose kernels have ended. Blocks.

    When a server and its kernels are killed, their folders remain. A kernel that is restarted at this
    moment recreates its folder (`restore_folder`).

    Returns:
        The folders that were removed.
    """
    if os.name != "posix":
        return []
    removed: list[Path] = []
    for base in dict.fromkeys((gettempdir(), FALLBACK)):
        try:
            found = [path for path in Path(base).iterdir() if path.name.startswith(prefix())]
        except OSError:
            continue
        for folder in found:
            if is_own(folder) and _is_stale(folder):
                remove_folder(folder)
                removed.append(folder)
    if removed:
        log.info("Removed %d socket folders of kernels that have ended.", len(removed))
    return removed


def _is_stale(folder: Path) -> bool:
    """Return whether no kernel listens in a folder or is about to."""
    try:
        found = list(_entries(folder))
        newest = max(status.st_mtime for _, status in found)
        sockets = [path for path, status in found if stat.S_ISSOCK(status.st_mode)]
        return time.time() - newest > STARTING and all(map(is_dead_socket, sockets))
    except OSError:
        return False  # it is changing, or cannot be read


def _entries(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield a folder and its entries, two levels deep, without following links."""
    yield str(folder), folder.lstat()
    for depth in (1, 2):
        for path in folder.glob("/".join("*" * depth)):
            yield str(path), path.lstat()


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
