"""The process of a kernel: when it ends, why, and what it uses."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import Any

import psutil
from tornado.ioloop import IOLoop

POLL_INTERVAL = 1.0
"""Seconds between looks at a process that cannot be awaited (no pidfd, or not on this machine)."""


class AdoptedProcess:
    """A running process that another one has started: as much of a `Popen` as kernels need.

    Args:
        pid: Its id.
        name: A part of its command line that no other process's has. Unlike the time of its start
            it stays the same when the clock is set.

    Raises:
        psutil.NoSuchProcess: it has ended, or its id is another's by now.
        psutil.AccessDenied: it is another user's.
    """

    stdin = stdout = stderr = None

    def __init__(self, pid: int, name: str) -> None:
        self.pid = pid
        self._process = psutil.Process(pid)
        named = any(name in part for part in self._process.cmdline())
        if not named or self.poll() is not None:
            raise psutil.NoSuchProcess(pid)

    def poll(self) -> int | None:
        """None while it runs; 0 afterwards: its exit code is its parent's to know."""
        with contextlib.suppress(psutil.NoSuchProcess):
            if self._process.is_running() and self._process.status() != psutil.STATUS_ZOMBIE:
                return None
        return 0

    def wait(self) -> int:
        """Called when `poll` says that it has ended."""
        return 0

    def send_signal(self, number: int) -> None:
        """Sends a signal to it alone; nothing where it has ended."""
        with contextlib.suppress(ProcessLookupError):
            if self.poll() is None:
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Asks it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it."""
        self.send_signal(signal.SIGKILL)


def local_process(manager: Any) -> subprocess.Popen[bytes] | AdoptedProcess | None:
    """The process on this machine that a kernel manager has started or adopted, or None."""
    process: Any = getattr(getattr(manager, "provisioner", None), "process", None)
    return process if isinstance(process, subprocess.Popen | AdoptedProcess) else None  # pyright: ignore[reportUnknownVariableType]


def is_stopped(manager: Any) -> bool:
    """Return whether a kernel's process on this machine was stopped (SIGSTOP), so handles no signal."""
    process = local_process(manager)
    if process is None:
        return False
    try:
        return psutil.Process(process.pid).status() == psutil.STATUS_STOPPED
    except psutil.Error:
        return False


async def process_end(manager: Any) -> int | None:
    """Waits until the present process of a kernel has ended.

    Returns:
        The exit code (negative for a signal), or None where it cannot be known.
    """
    process = local_process(manager)
    if process is None or not await _end_by_event(process.pid):
        # There is no event to wait for.
        while await manager.is_alive() and local_process(manager) is process:  # noqa: ASYNC110
            await asyncio.sleep(POLL_INTERVAL)
    return process.poll() if isinstance(process, subprocess.Popen) else None


async def _end_by_event(pid: int) -> bool:
    """Waits for the end of a process by its pidfd; False where that is not possible."""
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
    """How a kernel's process ended, as the end of a sentence that begins with "The kernel"."""
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
    """What a process and its children use.

    Attributes:
        memory: Resident bytes.
        cpu: Per cent of one core since the last look, None on the first.
        uptime: Seconds since it was started.
    """

    memory: int
    cpu: float | None
    uptime: float


class UsageMeter:
    """Measures one process and its children; CPU is counted between two looks."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._processes: dict[int, psutil.Process] = {}

    def look(self) -> Usage | None:
        """The usage now; None where the process is gone."""
        try:
            root = self._processes.get(self.pid) or psutil.Process(self.pid)
            family = [root, *root.children(recursive=True)]
            started = root.create_time()
        except psutil.NoSuchProcess:
            return None
        first = not self._processes
        # The same objects as last time: psutil counts CPU between two calls on one object.
        self._processes = {child.pid: self._processes.get(child.pid, child) for child in family}
        memory, cpu = 0, 0.0
        for process in self._processes.values():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                memory += process.memory_info().rss
                cpu += process.cpu_percent()
        return Usage(memory, None if first else cpu, max(time.time() - started, 0.0))
