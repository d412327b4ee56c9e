"""Fault injectors for kernels.

Code for cells (`KILL_ITSELF` and the like), broken kernelspecs, a person who works in the same
kernel, and a meter for blocked event loops.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import select
import signal
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psutil
from jupyter_client.session import Session

if TYPE_CHECKING:
    from jupyter_client.asynchronous.client import AsyncKernelClient

KILL_TIMEOUT = 10.0
"""Seconds in which a killed process must have ended."""

# -- what a cell can do to its kernel (Python)

KILL_ITSELF = "import os\nos.kill(os.getpid(), 9)"
"""Kills the kernel's process, as the OOM killer does."""

EXIT_ITSELF = "import os\nos._exit(3)"
"""Exits the kernel's process with code 3."""

RUN_FOREVER = "import time\nprint('running', flush=True)\nwhile True:\n    time.sleep(0.01)"
"""Prints ``running`` and runs until it is interrupted."""

OUT_OF_MEMORY = """
import resource
limits = resource.getrlimit(resource.RLIMIT_AS)
used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 200_000_000, limits[1]))
try:
    hog = bytearray(4_000_000_000)
finally:
    resource.setrlimit(resource.RLIMIT_AS, limits)
"""
"""Allocates more memory than the limit: a MemoryError that the kernel survives."""


def ignore_interrupts(seconds: float, pipe: Path | None = None) -> str:
    """Return code that prints ``ignoring`` and ignores interrupts for some seconds.

    Args:
        seconds: How long it runs.
        pipe: A named pipe that it opens and closes once it ignores them.
    """
    ignores = "" if pipe is None else f"open({str(pipe)!r}, 'w').close()\n"
    return (
        f"import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n{ignores}"
        f"print('ignoring', flush=True)\nend = time.monotonic() + {seconds}\n"
        "while time.monotonic() < end:\n    time.sleep(0.01)"
    )


def run_until(path: Path, then: str = "") -> str:
    """Return code that prints ``waiting``, runs until a file exists, and continues with ``then``."""
    return (
        "import pathlib, time\nprint('waiting', flush=True)\n"
        f"while not pathlib.Path({str(path)!r}).exists():\n    time.sleep(0.005)\n{then}"
    )


def print_lines(count: int, *, width: int = 20, flush: bool = False) -> str:
    """Return code that prints numbered lines of a width in characters."""
    return f"for number in range({count}):\n    print(f'{{number:<{width - 1}}}', flush={flush})"


def show_displays(count: int) -> str:
    """Return code that shows numbered displays.

    It pauses after each 500: a kernel that gets no processor to send drops what is beyond 1,000.
    """
    return (
        "import time\nfrom IPython.display import display\n"
        f"for number in range({count}):\n"
        "    display({'text/plain': str(number)}, raw=True)\n"
        "    if number % 500 == 499: time.sleep(0.1)"
    )


# -- kernels that do not start

SLEEPS = "import time; print('I sleep', file=__import__('sys').stderr, flush=True); time.sleep(600)"
EXITS = "import sys; print('no such module: spam', file=sys.stderr); sys.exit(7)"
GARBAGE = (
    "import os, time\nfor at in range(200): os.write(1 + at % 2, bytes(range(256)))\n"
    "os.write(2, b'\\nand then it hangs\\n'); time.sleep(600)"
)


def write_kernelspec(
    folder: Path, name: str, argv: Sequence[str], *, language: str = "python"
) -> str:
    """Write a kernelspec to a folder of kernelspecs; return its name."""
    (folder / name).mkdir(parents=True)
    spec = {"argv": list(argv), "display_name": name, "language": language}
    (folder / name / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    return name


def write_broken_kernelspec(folder: Path, name: str, code: str) -> str:
    """Write the kernelspec of a "kernel" that runs ``code`` and never answers."""
    return write_kernelspec(folder, name, [sys.executable, "-c", code, "{connection_file}"])


def processes_with(argument: str) -> list[int]:
    """Return the ids of running processes with an argument that contains a text."""
    return [
        process.info["pid"]
        for process in psutil.process_iter(["pid", "cmdline", "status"])
        if process.info["status"] != psutil.STATUS_ZOMBIE
        and any(argument in word for word in process.info["cmdline"] or ())
    ]


def kill(pid: int) -> None:
    """Kill a process from outside, as the OOM killer does.

    On Linux, wait until it has ended: on a busy machine a killed process may answer for a while.

    Raises:
        ProcessLookupError: there is no such process.
        TimeoutError: it has not ended within `KILL_TIMEOUT`.
    """
    if not hasattr(os, "pidfd_open"):
        os.kill(pid, signal.SIGKILL)
        return
    descriptor = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        ended, _, _ = select.select([descriptor], [], [], KILL_TIMEOUT)
    finally:
        os.close(descriptor)
    if not ended:
        raise TimeoutError(f"Process {pid} has not ended within {KILL_TIMEOUT:g} s")


# -- other people


@asynccontextmanager
async def person(manager: Any, kernel_id: str) -> AsyncGenerator[Any]:
    """A person's own client on a kernel of a multi-kernel manager: an `AsyncKernelClient`."""
    kernel = manager.get_kernel(kernel_id)
    session = Session(key=kernel.session.key, signature_scheme=kernel.session.signature_scheme)
    client = kernel.client(session=session)
    client.start_channels(hb=False)
    try:
        await client.wait_for_ready(timeout=20)
        yield client
    finally:
        client.stop_channels()


async def control_round_trip(client: AsyncKernelClient) -> None:
    """Wait until a kernel has answered a client on its control channel."""
    client.control_channel.send(client.session.msg("kernel_info_request", {}))
    await client.get_control_msg(timeout=20)


class LoopMeter:
    """Measures how long the event loop was held while a block runs.

    What the process computed in that time bounds it: the load of other processes does not count, a thread
    that holds the GIL does. Waiting for a file, a lock or a sleep does not count.

    Attributes:
        longest: The longest time for which this process held the loop, in seconds.
    """

    INTERVAL = 0.005

    def __init__(self) -> None:
        self.longest = 0.0
        self._last = (0.0, 0.0)
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        # A collection of what other tests have made stops all threads.
        gc.freeze()
        self._last = _clocks()
        self._beat()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        # What held the loop since the last beat.
        self._look()
        gc.unfreeze()

    def _beat(self) -> None:
        self._look()
        self._timer = asyncio.get_running_loop().call_later(self.INTERVAL, self._beat)

    def _look(self) -> None:
        now = _clocks()
        wall, process = (after - before for after, before in zip(now, self._last, strict=True))
        self._last = now
        self.longest = max(self.longest, min(wall, process))


def _clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()
