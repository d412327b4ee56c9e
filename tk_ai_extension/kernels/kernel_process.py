"""The process of a kernel: when it ends, why, and which resources it uses."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from typing import Any

import psutil

POLL_INTERVAL = 1.0
"""Seconds between checks of a process that cannot be awaited (no pidfd, or on another machine)."""


def local_process(manager: Any) -> subprocess.Popen[bytes] | None:
    """Return the local process that a kernel manager started, or None."""
    process = getattr(getattr(manager, "provisioner", None), "process", None)
    return process if isinstance(process, subprocess.Popen) else None


async def process_end(manager: Any) -> int | None:
    """Wait until a kernel's current process has ended.

    Returns:
        The exit code (negative for a signal), or None if it is unknown.
    """
    process = local_process(manager)
    if process is not None and hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):  # it has ended already, or the kernel is too old
            await _readable(os.pidfd_open(process.pid))
    while await manager.is_alive() and local_process(manager) is process:  # noqa: ASYNC110 - no event
        await asyncio.sleep(POLL_INTERVAL)
    return None if process is None else process.poll()


async def _readable(descriptor: int) -> None:
    """Wait until a file descriptor can be read, and close it."""
    readable = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(descriptor, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def describe_exit(code: int | None) -> str:
    """Return how a kernel's process ended, to follow "The kernel" in a sentence.

    >>> describe_exit(1), describe_exit(-11), describe_exit(None)
    ('exited with code 1', 'died of SIGSEGV', 'died')
    """
    if code is None:
        return "died"
    if code >= 0:
        return f"exited with code {code}"
    name = str(-code)
    with contextlib.suppress(ValueError):
        name = signal.Signals(-code).name
    if name == "SIGKILL":
        return "was killed (SIGKILL), possibly out of memory"
    return f"died of {name}"


class ResourceUsageMeter:
    """Measures a process and its children; CPU time is counted between two measurements."""

    def __init__(self) -> None:
        self._processes: dict[int, psutil.Process] = {}

    def measure(self, pid: int) -> dict[str, Any]:
        """Return the fields of `KernelInfo` about a process; none if it has ended."""
        known, self._processes = self._processes, {}
        memory, cpu = 0, 0.0
        try:
            root = known.get(pid) or psutil.Process(pid)
            for found in (root, *root.children(recursive=True)):
                # Reuse the objects: psutil counts CPU time between two calls on the same object.
                process = self._processes[found.pid] = known.get(found.pid, found)
                with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    memory += process.memory_info().rss
                    cpu += process.cpu_percent()
            uptime = time.time() - root.create_time()
        except psutil.NoSuchProcess:
            return {}
        used = cpu if pid in known else None
        return {"pid": pid, "memory": memory, "cpu": used, "uptime": uptime}
