"""In-process kernels for notebooks whose code only prints tokens.

They implement the contracts of `kernels.base` at no cost: a suite of many thousand steps does not test
kernels. Other suites run the same code in real kernels, with `SAY` in a file beside the notebook.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Protocol
from uuid import uuid4

from tk_ai_extension.kernels.base import KernelEvent, KernelInfo, Kernelspec
from tk_ai_extension.model.errors import KernelNotFound
from tk_ai_extension.model.executions import (
    Execution,
    ExecutionEvent,
    ExecutionRequest,
    OutputsChanged,
    Started,
)
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.outputs import Append, OutputChange, StreamEdit

SAY = """
import os
LOG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "said.log")
def say(token):
    with open(LOG, "a") as file:
        file.write(token + "\\n")
        file.flush()
        print(token, file.tell(), flush=True)
def fail(token):
    say(token)
    raise RuntimeError(token)
"""
"""The module ``saying``, in the folder of the notebook. Each line that it prints has a number of its own."""

_SAID = re.compile(r"^__import__\(\"saying\"\)\.(say|fail)\(\"(\w+)\"\)$")


def line(token: str, verb: str = "say") -> str:
    """Return a line of source that prints a token, and fails afterwards if requested."""
    return f'__import__("saying").{verb}("{token}")'


def tokens(source: str) -> list[str]:
    """Return the tokens that a source prints, up to its failure."""
    found: list[str] = []
    for line in source.splitlines():
        if match := _SAID.match(line):
            found.append(match[2])
            if match[1] == "fail":
                break
    return found


class SaidLog(Protocol):
    """Log of all tokens that code has printed, in order."""

    def said(self) -> dict[int, str]:
        """Return the tokens by the numbers that were printed with them."""
        ...


class SaidFile:
    """Log file of the module ``saying`` in kernels."""

    def __init__(self, folder: Path) -> None:
        (folder / "saying.py").write_text(SAY)
        self._file = folder / "said.log"

    def said(self) -> dict[int, str]:
        """See `SaidLog.said`."""
        lines = self._file.read_text().splitlines() if self._file.exists() else []
        return dict(zip(itertools.accumulate(len(line) + 1 for line in lines), lines, strict=True))


@dataclass
class _Kernel:
    """One of them.

    Attributes:
        lock: Held by what runs.
        restarts: Number of restarts; earlier executions end at a restart.
        counts: Execution counter.
    """

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    restarts: int = 0
    counts: itertools.count[int] = field(default_factory=lambda: itertools.count(1))


class SayingKernels:
    """Kernels that support ``say`` and ``fail``; see `kernels.base.Kernels` and `Sessions`.

    They are a `SaidLog` too.
    """

    name = "saying"

    def __init__(self) -> None:
        self._said: list[str] = []
        self._kernels: dict[str, _Kernel] = {}
        self._bound: dict[str, str] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    def said(self) -> dict[int, str]:
        """See `SaidLog.said`."""
        return dict(enumerate(self._said, 1))

    # --- kernels.base.Kernels

    async def kernelspecs(self) -> list[Kernelspec]:
        """One."""
        return [Kernelspec("python3", "Python 3", "python", default=True)]

    async def start(self, kernel_name: str | None = None, *, path: str | None = None) -> str:  # noqa: ARG002
        """Start a kernel."""
        await asyncio.sleep(0)
        kernel_id = str(uuid4())
        self._kernels[kernel_id] = _Kernel()
        return kernel_id

    async def wait_ready(self, kernel_id: str) -> float:
        """Do nothing: kernels are ready at once."""
        self._known(kernel_id)
        return 0.0

    def ids(self) -> list[str]:
        """Return the ids of running kernels."""
        return list(self._kernels)

    async def info(self, kernel_id: str) -> KernelInfo:
        """Return information on a kernel."""
        await asyncio.sleep(0)
        self._known(kernel_id)
        return KernelInfo(kernel_id, "python3", "python", "idle")

    def executor(self, kernel_id: str) -> SayingKernels:
        """This."""
        self._known(kernel_id)
        return self

    async def interrupt(self, kernel_id: str, *, only: ExecutionRequest | None = None) -> None:  # noqa: ARG002
        """Do nothing: code ends at once."""
        self._known(kernel_id)

    async def restart(self, kernel_id: str) -> None:
        """End running and queued executions, and reset the counter."""
        await asyncio.sleep(0)
        kernel = self._known(kernel_id)
        kernel.restarts += 1
        kernel.counts = itertools.count(1)

    async def restart_busy(self, path: str, random: Random) -> None:
        """Restart a notebook's kernel while it is busy, if it soon becomes busy."""
        for _ in range(random.randrange(2_000)):
            kernel_id = self._bound.get(path)
            if kernel_id and self._kernels[kernel_id].lock.locked() and random.random() < 0.2:
                await self.restart(kernel_id)
                return
            await asyncio.sleep(0)

    async def shutdown(self, kernel_id: str) -> None:
        """Shut down a kernel: running and queued executions end."""
        await asyncio.sleep(0)
        self._known(kernel_id).restarts += 1
        del self._kernels[kernel_id]

    def subscribe(self, listener: Callable[[KernelEvent], None]) -> Callable[[], None]:  # noqa: ARG002
        """Do nothing: there are no other clients."""
        return lambda: None

    async def close(self) -> None:
        """Do nothing."""

    def _known(self, kernel_id: str) -> _Kernel:
        if kernel_id not in self._kernels:
            raise KernelNotFound(f"No kernel `{kernel_id}` is running.")
        return self._kernels[kernel_id]

    # --- kernels.base.Executor

    async def execute(
        self, kernel_id: str, request: ExecutionRequest
    ) -> AsyncGenerator[ExecutionEvent]:
        """Print the tokens of a source, one line at a time."""
        kernel = self._known(kernel_id)
        restarts = kernel.restarts
        async with kernel.lock:
            if kernel.restarts != restarts:
                yield self._cut(kernel_id, (), None)
                return
            count = next(kernel.counts)
            yield Started(count)
            text = ""
            error: Json | None = None
            for token in tokens(request.code):
                await asyncio.sleep(0)
                if kernel.restarts != restarts:
                    break
                self._said.append(token)
                new = f"{token} {len(self._said)}\n"
                change: OutputChange = (
                    StreamEdit(0, len(text), new)
                    if text
                    else Append({"output_type": "stream", "name": "stdout", "text": new})
                )
                text += new
                yield OutputsChanged((change,))
            outputs: list[Json] = (
                [{"output_type": "stream", "name": "stdout", "text": text}] if text else []
            )
            if kernel.restarts != restarts:
                yield self._cut(kernel_id, tuple(outputs), count)
                return
            if ".fail(" in request.code:
                error = {
                    "output_type": "error",
                    "ename": "RuntimeError",
                    "evalue": "",
                    "traceback": [],
                }
                outputs.append(error)
                yield OutputsChanged((Append(error),))
            yield Execution(
                "error" if error else "ok", tuple(outputs), count, error, backend=self.name
            )

    def _cut(self, kernel_id: str, outputs: tuple[Json, ...], count: int | None) -> Execution:
        if kernel_id in self._kernels:
            status, message = "kernel_restarted", "The kernel was restarted."
        else:
            status, message = "kernel_died", "The kernel was shut down."
        return Execution(status, outputs, count, message=message, backend=self.name)

    # --- kernels.base.Sessions

    def lock(self, path: str) -> asyncio.Lock:
        """Return the lock of a notebook's kernel."""
        return self._locks.setdefault(path, asyncio.Lock())

    async def kernel_of(self, path: str) -> str | None:
        """Return the kernel of a notebook."""
        return self._bound.get(path)

    async def bind(self, path: str, kernel_id: str, *, replace: bool = False) -> str:
        """Bind a kernel to a notebook."""
        await asyncio.sleep(0)
        if replace or self._bound.get(path) not in self._kernels:
            self._bound[path] = kernel_id
        return self._bound[path]

    async def paths_of(self, kernel_id: str) -> list[str]:
        """Return the notebooks of a kernel."""
        return [path for path, bound in self._bound.items() if bound == kernel_id]

    async def renamed(self, old: str, new: str) -> None:
        """Update the path of a notebook."""
        if old in self._bound:
            self._bound[new] = self._bound.pop(old)

    async def deleted(self, path: str) -> None:
        """Do nothing: no notebook is deleted."""
