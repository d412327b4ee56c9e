"""Folders of mode 0700 for the Unix sockets of one kernel, short enough for the path of a socket."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path
from tempfile import gettempdir, mkdtemp

PREFIX = "nb-"
"""How the name of such a folder begins."""

FALLBACK = "/tmp"  # noqa: S108 - mkdtemp makes a folder of our own there
"""Where folders are made if the path of the system's temporary folder is too long."""

LONGEST_BASE = 70
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
    return Path(mkdtemp(prefix=PREFIX, dir=_base()))


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
