"""Owners of journal entries that an earlier version of this package wrote: processes.

A process that runs seems to have ended after a step of the system's clock, from which the system
computes the start times of processes.
"""

from __future__ import annotations

import socket

import psutil

CLOCK_TOLERANCE = 2.0
"""Seconds by which a process's start time may differ, because the system's clock may be adjusted."""


def is_alive(owner: str) -> bool:
    """Return whether a process is alive on this host; False for any other text.

    Those of another host count as ended: a container has another name after each start. The start
    time is compared because a pid is reused, for example after a restart of the host.

    Args:
        owner: The process as ``host:pid:start``, with the start in seconds since the epoch.
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
