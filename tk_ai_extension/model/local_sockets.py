"""Unix sockets that a process has left behind when it ended."""

from __future__ import annotations

import os
import socket


def is_dead_socket(path: str | os.PathLike[str]) -> bool:
    """Return whether nobody listens at a socket any more; False where that cannot be known."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.setblocking(False)
        try:
            connection.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return True
        except OSError:
            return False  # its backlog is full: the process is busy or hangs
    return False
