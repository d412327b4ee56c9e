"""Peer credentials of Unix sockets: the process at the other end, if the system provides it."""

from __future__ import annotations

import socket
import struct

import psutil

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid (unix(7))


def peer_of(connection: socket.socket) -> int | None:
    """Return the process id at the other end of a Unix socket; None if the system does not provide it."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    return (
        _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))[0]
        or None
    )


def comes_from(process: int, ancestor: int) -> bool:
    """Return whether a process is another one or its descendant. Reads the process table, so it blocks."""
    if process == ancestor:
        return True
    try:
        return any(parent.pid == ancestor for parent in psutil.Process(process).parents())
    except psutil.NoSuchProcess:
        return False
