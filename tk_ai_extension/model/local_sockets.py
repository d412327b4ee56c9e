"""Detect stale Unix sockets of processes that have ended."""

from __future__ import annotations

import os
import socket


def is_dead_socket(path: str | os.PathLike[str]) -> bool:
    """Return whether no process listens on a socket any more; False if that is unknown."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.setblocking(False)
        try:
            connection.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return True
        except OSError:
            return False  # Its backlog is full: the process is busy or hangs.
    return False
