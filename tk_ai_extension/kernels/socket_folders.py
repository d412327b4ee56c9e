"""Folders of mode 0700 for the Unix sockets of one kernel, short enough for the path of a socket."""

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
"""How the name of such a folder begins; the machine follows, see `prefix`."""

STARTING = 600.0
"""Seconds since its last change in which a folder without a listening socket may be a starting kernel's."""

FALLBACK = "/tmp"  # noqa: S108 - mkdtemp makes a folder of our own there
"""Where folders are made if the path of the system's temporary folder is too long."""

LONGEST_BASE = 75
"""Bytes of the longest folder to make them in: ``sun_path`` has 104 to 108 for the whole path."""

PRIVATE_KERNELS = frozenset({"ipykernel", "ipykernel_launcher"})
"""Modules that are known to serve the transport ``ipc`` by jupyter_client's naming of the sockets.

Others join the address by a colon for every transport, so a client would not find their sockets.
"""


def supports_ipc(argv: Sequence[str]) -> bool:
    """Return whether a kernelspec's command is Python on this machine with a kernel that serves ``ipc``.

    A command that only contains such a one, for instance ``docker run … python -m ipykernel``, may
    run it where this machine's folders are not.
    """
    if os.name != "posix" or not argv or not Path(argv[0]).name.startswith(("python", "pypy")):
        return False
    module = argv.index("-m") + 1 if "-m" in argv else len(argv)
    return module < len(argv) and argv[module] in PRIVATE_KERNELS


def make_folder() -> Path:
    """Make a folder of mode 0700. Blocks."""
    return Path(mkdtemp(prefix=prefix(), dir=_base()))


def prefix() -> str:
    """Return how the names of this machine's folders begin.

    A temporary folder may be shared with other machines, where nobody here can tell which kernels run.
    """
    name = socket.gethostname().encode("utf-8", "surrogateescape")
    return f"{PREFIX}{hashlib.sha256(name).hexdigest()[:4]}-"


def restore_folder(folder: Path) -> None:
    """Make a folder of `make_folder` again if it was removed. Blocks.

    Raises:
        OSError: something else has its name.
    """
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if not is_own(folder):
            raise


def remove_folder(folder: Path) -> None:
    """Remove a folder of `make_folder`; nothing if it is none, whatever named it. Blocks."""
    if is_own(folder):
        shutil.rmtree(folder, ignore_errors=True)


def remove_stale_folders() -> list[Path]:
    """Remove the folders of this user and machine whose kernels have ended. Blocks.

    Who kills a server and its kernels leaves their folders, which no other process knows. A kernel that
    is restarted just now makes its folder again, see `restore_folder`.

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
        log.info("Removed the socket folders of %d kernels that have ended.", len(removed))
    return removed


def _is_stale(folder: Path) -> bool:
    """Return whether no kernel listens in a folder, nor is about to."""
    try:
        found = list(_entries(folder))
        newest = max(status.st_mtime for _, status in found)
        sockets = [path for path, status in found if stat.S_ISSOCK(status.st_mode)]
        return time.time() - newest > STARTING and all(map(is_dead_socket, sockets))
    except OSError:
        return False  # it changes just now, or cannot be read


def _entries(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Return a folder, what is in it and in its folders, without following links."""
    yield str(folder), folder.lstat()
    for depth in (1, 2):
        for path in folder.glob("/".join("*" * depth)):
            yield str(path), path.lstat()


def is_own(folder: Path) -> bool:
    """Return whether a folder, not a link to one, is such as `make_folder` makes for this user."""
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
