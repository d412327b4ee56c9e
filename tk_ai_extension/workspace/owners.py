"""Process identities for entries of shared files, and checks whether the process is alive."""

from __future__ import annotations

import socket
from functools import cache

import psutil

CLOCK_TOLERANCE = 2.0
"""Seconds by which a process's start time may differ, because the system's clock may be adjusted."""


@cache
def own_process() -> str:
    """Return this process as ``host:pid:start``, with the start in seconds since the epoch."""
    process = psutil.Process()
    return f"{socket.gethostname()}:{process.pid}:{process.create_time():.2f}"


def is_alive(owner: str) -> bool:
    """Return whether a process, given as by `own_process`, is alive on this host.

    The start time is compared because a pid is reused, for example after a restart of the host.
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
