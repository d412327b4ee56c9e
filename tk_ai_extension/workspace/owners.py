"""Which process something in a shared file belongs to, and whether that process is alive."""

from __future__ import annotations

import socket
from functools import cache

import psutil

CLOCK_TOLERANCE = 2.0
"""Seconds by which a start time may differ between two looks: the system's clock is corrected."""


@cache
def own_process() -> str:
    """This process as ``host:pid:start``; the start in seconds since the epoch."""
    process = psutil.Process()
    return f"{socket.gethostname()}:{process.pid}:{process.create_time():.2f}"


def is_alive(owner: str) -> bool:
    """Return whether a process that `own_process` named is alive, and on this host.

    A pid alone does not say so: after a restart of the host or of a container another process has it.
    """
    try:
        host, pid, started = owner.rsplit(":", 2)
        if host != socket.gethostname():
            return False
        process = psutil.Process(int(pid))
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return abs(process.create_time() - float(started)) <= CLOCK_TOLERANCE
    except (ValueError, psutil.NoSuchProcess):
        return False
    except psutil.AccessDenied:
        return True
