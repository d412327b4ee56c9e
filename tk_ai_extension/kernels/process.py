"""The process of a kernel: when it ends, why, and which resources it uses."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from threading import Thread
from typing import Any, NamedTuple

import psutil

POLL_INTERVAL = 1.0
"""Seconds between checks of a process that cannot be awaited (no pidfd, or on another machine)."""

TAIL_BYTES = 4000
"""Bytes of the end of a kernel's stderr that are kept."""

BLOCK = 65536
"""Bytes of a kernel's stderr that are passed on at a time."""

READ_TIMEOUT = 0.5
"""Seconds to wait for the last lines of an ended kernel, whose children may keep its stderr open."""


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


class StderrTail:
    """A pipe for a process's stderr that is forwarded to this process's stderr, and keeps its end.

    A pipe, not a file: a kernel writes to it throughout its life, and a file would grow. A thread reads it
    until every process that has it has ended.
    """

    def __init__(self) -> None:
        read_end, write_end = os.pipe()
        self.writer = os.fdopen(write_end, "wb", 0)
        self._tail = b""
        self._reader = Thread(target=self._forward, args=(read_end,), daemon=True)
        self._reader.start()

    async def text(self) -> str:
        """Return the end of what an ended process wrote, in whole lines."""
        await asyncio.to_thread(self._reader.join, READ_TIMEOUT)
        text = self._tail.decode("utf-8", "replace").strip()
        return text if len(self._tail) < TAIL_BYTES else text.partition("\n")[2]

    def _forward(self, read_end: int) -> None:
        with os.fdopen(read_end, "rb", 0) as reader:
            while data := reader.read(BLOCK):
                self._tail = (self._tail + data)[-TAIL_BYTES:]
                with contextlib.suppress(OSError):  # this process has no stderr
                    os.write(2, data)


class Usage(NamedTuple):
    """Resources that a process and its children use.

    Attributes:
        memory: Resident bytes.
        cpu: Percent of one core since the previous measurement; None for the first.
        uptime: Seconds since the process was started.
        pid: The process.
    """

    memory: int
    cpu: float | None
    uptime: float
    pid: int


class UsageMeter:
    """Measures one process and its children; CPU time is counted between two measurements."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._processes: dict[int, psutil.Process] = {}

    def measure(self) -> Usage | None:
        """Return the current usage; None if the process has ended."""
        first = not self._processes
        try:
            root = self._processes.get(self.pid) or psutil.Process(self.pid)
            family = [root, *root.children(recursive=True)]
            # Reuse the objects: psutil counts CPU time between two calls on the same object.
            self._processes = {child.pid: self._processes.get(child.pid, child) for child in family}
            memory, cpu = 0, 0.0
            for process in self._processes.values():
                with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    memory += process.memory_info().rss
                    cpu += process.cpu_percent()
            uptime = time.time() - root.create_time()
            return Usage(memory, None if first else cpu, uptime, self.pid)
        except psutil.NoSuchProcess:
            return None
