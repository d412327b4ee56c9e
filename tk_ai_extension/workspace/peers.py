"""Which process is at the other end of a local socket, where the system says it."""

from __future__ import annotations

import socket
import struct
from typing import Any

import psutil

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid (unix(7))


def peer_of(line: Any) -> int | None:
    """The process at the other end of a connected Unix socket; None where nobody can know."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    return (
        _CREDENTIALS.unpack(line.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))[0]
        or None
    )


def comes_from(process: int, ancestor: int) -> bool:
    """Return whether a process is another one or comes from it; looks into the system's list of them."""
    if process == ancestor:
        return True
    try:
        return any(parent.pid == ancestor for parent in psutil.Process(process).parents())
    except psutil.NoSuchProcess:
        return False
