"""The process of a kernel: when it ends, why, and which resources it uses."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil
from tornado.ioloop import IOLoop

if TYPE_CHECKING:
    from jupyter_client.manager import KernelManager

POLL_INTERVAL = 1.0
"""Seconds between checks of a process that cannot be awaited (no pidfd, or on another machine)."""


def local_process(manager: KernelManager) -> subprocess.Popen[bytes] | None:
    """Return the local process that a kernel manager started, or None."""
    process: Any = getattr(getattr(manager, "provisioner", None), "process", None)
    return process if isinstance(process, subprocess.Popen) else None


def is_stopped(manager: KernelManager) -> bool:
    """Return whether a kernel's local process is stopped (SIGSTOP), so that it handles no signal."""
    process = local_process(manager)
    if process is None:
        return False
    try:
        return psutil.Process(process.pid).status() == psutil.STATUS_STOPPED
    except psutil.Error:
        return False


async def process_end(manager: Any) -> int | None:
    """Wait until a kernel's current process has ended.

    Returns:
        The exit code (negative for a signal), or None if it is unknown.
    """
    process = local_process(manager)
    if process is None or not await _end_by_event(process.pid):
        # Poll: there is no event to wait for.
        while await manager.is_alive() and local_process(manager) is process:  # noqa: ASYNC110
            await asyncio.sleep(POLL_INTERVAL)
    return None if process is None else process.poll()


async def _end_by_event(pid: int) -> bool:
    """Wait for the end of a process through its pidfd; return False if that is impossible."""
    if not hasattr(os, "pidfd_open"):
        return False
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    ended = asyncio.Event()

    def on_end(_descriptor: int, _events: int) -> None:
        ended.set()

    loop = IOLoop.current()
    loop.add_handler(descriptor, on_end, IOLoop.READ)
    try:
        await ended.wait()
    finally:
        loop.remove_handler(descriptor)
        os.close(descriptor)
    return True


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


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources that a process and its children use.

    Attributes:
        memory: Resident bytes.
        cpu: Percent of one core since the previous measurement; None for the first.
        uptime: Seconds since the process was started.
    """

    memory: int
    cpu: float | None
    uptime: float


class UsageMeter:
    """Measures one process and its children; CPU time is counted between two measurements."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._processes: dict[int, psutil.Process] = {}

    def measure(self) -> Usage | None:
        """Return the current usage; None if the process has ended."""
        try:
            root = self._processes.get(self.pid) or psutil.Process(self.pid)
            family = [root, *root.children(recursive=True)]
            started = root.create_time()
        except psutil.NoSuchProcess:
            return None
        first = not self._processes
        # Reuse the objects: psutil counts CPU time between two calls on the same object.
        self._processes = {child.pid: self._processes.get(child.pid, child) for child in family}
        memory, cpu = 0, 0.0
        for process in self._processes.values():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                memory += process.memory_info().rss
                cpu += process.cpu_percent()
        return Usage(memory, None if first else cpu, max(time.time() - started, 0.0))
