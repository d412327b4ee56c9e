"""Folders for local sockets: this user's alone, and no killed server's stays behind."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import tempfile
from pathlib import Path

PREFIX = "tk-ai-"


def sockets_folder() -> Path:
    """A new folder of mode 0700, with a path that is short enough for the socket in it. Blocks.

    What servers have left that were killed is removed first: this user's folders whose sockets
    nobody listens to.
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if _is_abandoned(folder):
            shutil.rmtree(folder, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=PREFIX))


def _is_abandoned(folder: Path) -> bool:
    try:
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            return False
        # One that is empty has just been made.
        sockets = list(folder.glob("*.sock"))
    except OSError:
        return False
    return bool(sockets) and all(map(_is_dead, sockets))


def _is_dead(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as line:
        line.setblocking(False)
        try:
            line.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            # It listens and is busy, or nobody can say.
            return False
    return False
