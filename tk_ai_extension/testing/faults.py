"""Fault injectors: what can go wrong with kernels, done for real.

Code for cells (`KILL_ITSELF` and the like), broken kernelspecs, a person who works in the same
kernel, and a meter for how long the event loop is held. Plug-in authors may import all of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import psutil
from jupyter_client.session import Session

# -- what a cell can do to its kernel (Python)

KILL_ITSELF = "import os\nos.kill(os.getpid(), 9)"
"""The kernel's process is killed, as by the system that is out of memory."""

EXIT_ITSELF = "import os\nos._exit(3)"
"""The kernel's process exits with code 3."""

RUN_FOREVER = "import time\nprint('running', flush=True)\nwhile True:\n    time.sleep(0.01)"
"""Prints ``running`` and does not end unless it is interrupted."""

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
"""Asks for more memory than the process may have: a MemoryError, which the kernel survives."""


def ignore_interrupts(seconds: float) -> str:
    """Code that prints ``ignoring`` and cannot be interrupted for a while."""
    return (
        "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        f"print('ignoring', flush=True)\nend = time.monotonic() + {seconds}\n"
        "while time.monotonic() < end:\n    time.sleep(0.01)"
    )


def run_until(path: Path, then: str = "") -> str:
    """Code that prints ``waiting``, runs until a file is there, and goes on with ``then``."""
    return (
        "import pathlib, time\nprint('waiting', flush=True)\n"
        f"while not pathlib.Path({str(path)!r}).exists():\n    time.sleep(0.005)\n{then}"
    )


def print_lines(count: int, *, width: int = 20, flush: bool = False) -> str:
    """Code that prints so many lines of so many characters, each beginning with its number."""
    return f"for number in range({count}):\n    print(f'{{number:<{width - 1}}}', flush={flush})"


def lose_messages(every: int) -> str:
    """Code that has its own kernel (ipykernel) lose one of so many messages with printed text."""
    return f"""
thread = get_ipython().kernel.iopub_thread
def lose_some(message, *args, send=thread._really_send, printed=[1], **options):
    printed[0] += b'"stream"' in b''.join(map(bytes, message))
    if printed[0] % {every} == 0:
        printed[0] += 1
    else:
        send(message, *args, **options)
thread._really_send = lose_some
"""


def show_displays(count: int) -> str:
    """Code that shows so many displays, each with its number."""
    return (
        "from IPython.display import display\n"
        f"for number in range({count}):\n"
        "    display({'text/plain': str(number)}, raw=True)"
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
    """Write a kernelspec into a folder of kernelspecs; returns its name."""
    (folder / name).mkdir(parents=True)
    spec = {"argv": list(argv), "display_name": name, "language": language}
    (folder / name / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    return name


def write_broken_kernelspec(folder: Path, name: str, code: str) -> str:
    """Write the kernelspec of a "kernel" that runs ``code`` and never answers."""
    return write_kernelspec(folder, name, [sys.executable, "-c", code, "{connection_file}"])


def processes_with(argument: str) -> list[int]:
    """The ids of running processes of which one argument contains a text."""
    return [
        process.info["pid"]
        for process in psutil.process_iter(["pid", "cmdline", "status"])
        if process.info["status"] != psutil.STATUS_ZOMBIE
        and any(argument in word for word in process.info["cmdline"] or ())
    ]


def kill(pid: int) -> None:
    """Kill a process from outside, as the system does that is out of memory."""
    os.kill(pid, signal.SIGKILL)


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


async def control_round_trip(client: Any) -> None:
    """Wait until a kernel has answered a client on its control channel."""
    client.control_channel.send(client.session.msg("kernel_info_request", {}))
    await client.get_control_msg(timeout=20)


class LoopMeter:
    """Measures how long the event loop was held at a stretch, in seconds of the loop's own CPU time.

    CPU time, so that what other processes of the machine do meanwhile is not held against it.
    """

    INTERVAL = 0.005

    def __init__(self) -> None:
        self.longest = 0.0
        """The longest stretch between two turns of the meter."""
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        self._last = time.thread_time()
        self._tick()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        now = time.thread_time()
        self.longest = max(self.longest, now - self._last)
        self._last = now
        self._timer = asyncio.get_running_loop().call_later(self.INTERVAL, self._tick)
