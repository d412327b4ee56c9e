# ruff: noqa: ARG002 - the signatures are those of the protocols
"""Kernels in memory, whose every call lets others go first: searches of the order of calls are cheap."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from itertools import count
from random import Random
from typing import Any

from tk_ai_extension.kernels.base import KernelEvent, KernelInfo, Kernelspec
from tk_ai_extension.model.errors import KernelNotFound, KernelStartFailed
from tk_ai_extension.model.executions import Execution, ExecutionEvent, ExecutionRequest, Started

STUCK = "stuck"
"""Code that contains this runs until its kernel ends or is restarted."""


class Life:
    """A kernel from a start to its end or restart."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.status: Any = ""
        self.who = ""
        """The variable WHO that the last request without a count has set."""

    def end(self, status: str) -> None:
        """End it; what runs ends with this status."""
        self.status = status
        self.ended.set()


class ScriptedKernels:
    """Kernels, and the notebooks that they are bound to (`Kernels` and `Sessions`).

    Attributes:
        ran: The code that ran, with the value of WHO that it found.
        harmed: The kernels of notebooks that were stopped or restarted by the tested code.
        bound: Kernels by notebook.
        ever_bound: All kernels that were ever bound.
    """

    name = "scripted"

    def __init__(self, random: Random, *, failures: float = 0.0) -> None:
        self.random = random
        self.failures = failures
        self.lives: dict[str, Life] = {}
        self.shells: dict[str, asyncio.Lock] = {}
        self.bound: dict[str, str] = {}
        self.ever_bound: set[str] = set()
        self.ran: list[tuple[str, str]] = []
        self.harmed: list[str] = []
        self.listeners: list[Callable[[KernelEvent], None]] = []
        self._numbers = count(1)

    async def pause(self, most: int = 4) -> None:
        """Let others go first."""
        for _ in range(self.random.randrange(most)):
            await asyncio.sleep(0)

    # -- a person

    def bind(self, path: str, kernel_id: str) -> None:
        """Bind a notebook to a kernel."""
        self.bound[path] = kernel_id
        self.ever_bound.add(kernel_id)

    def end(self, kernel_id: str) -> None:
        """Shut a kernel down."""
        self.lives.pop(kernel_id).end("kernel_died")
        self._emit("shutdown", kernel_id)

    def crash(self, kernel_id: str) -> None:
        """End a kernel's process; it is restarted."""
        self._replace(kernel_id, "kernel_died")
        self._emit("died", kernel_id)

    def harm(self, kernel_id: str, path: str) -> None:
        """Bind a kernel to a notebook, crash it, or shut it down if it is no notebook's."""
        match self.random.randrange(4):
            case 0:
                self.crash(kernel_id)
            case 1 if kernel_id not in self.ever_bound:
                self.end(kernel_id)
            case _:
                self.bind(path, kernel_id)

    def _replace(self, kernel_id: str, status: str) -> None:
        self.lives[kernel_id].end(status)
        self.lives[kernel_id] = Life()

    def _emit(self, kind: Any, kernel_id: str) -> None:
        for listener in self.listeners:
            listener(KernelEvent(kernel_id, kind))

    # -- `Kernels`

    async def kernelspecs(self) -> list[Kernelspec]:
        return [Kernelspec("python3", "Python 3", "python", default=True)]

    async def start(self, kernel_name: str | None = None, *, path: str | None = None) -> str:
        await self.pause()
        if self.random.random() < self.failures:
            raise KernelStartFailed("It did not start.")
        kernel_id = f"kernel-{next(self._numbers)}"
        self.lives[kernel_id], self.shells[kernel_id] = Life(), asyncio.Lock()
        return kernel_id

    async def wait_ready(self, kernel_id: str) -> None:
        await self.pause()
        self._check(kernel_id)

    def ids(self) -> list[str]:
        return list(self.lives)

    async def info(self, kernel_id: str) -> KernelInfo:
        await self.pause()
        self._check(kernel_id)
        return KernelInfo(kernel_id, "python3", "python", "idle", sandboxed=True)

    async def interrupt(self, kernel_id: str, *, only: ExecutionRequest | None = None) -> None:
        await self.pause()

    async def restart(self, kernel_id: str) -> None:
        self._harm(kernel_id)
        await self.pause()
        self._check(kernel_id)
        self._replace(kernel_id, "kernel_restarted")
        self._emit("restarted", kernel_id)
        await self.pause()

    async def shutdown(self, kernel_id: str) -> None:
        self._harm(kernel_id)
        await self.pause()
        self._check(kernel_id)
        self.end(kernel_id)

    def subscribe(self, listener: Callable[[KernelEvent], None]) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    async def close(self) -> None:
        pass

    def _check(self, kernel_id: str) -> None:
        if kernel_id not in self.lives:
            raise KernelNotFound(f"No kernel {kernel_id}.")

    def _harm(self, kernel_id: str) -> None:
        if kernel_id in self.bound.values():
            self.harmed.append(kernel_id)

    # -- `Sessions`

    async def paths_of(self, kernel_id: str) -> list[str]:
        await self.pause()
        return [path for path, bound in self.bound.items() if bound == kernel_id]

    async def execute(
        self, kernel_id: str, request: ExecutionRequest
    ) -> AsyncGenerator[ExecutionEvent]:
        await self.pause()
        self._check(kernel_id)
        life = self.lives[kernel_id]
        async with self.shells[kernel_id]:
            life = self.lives.get(kernel_id, life)
            if request.silent:
                found = re.search(r'"WHO": "([^"]+)"', request.user_expressions["_"])
                life.who = found[1] if found else ""
                yield Execution("ok", user_expressions={"_": {"status": "ok"}})
                return
            if not life.ended.is_set():
                self.ran.append((request.code, life.who))
                yield Started(1)
                await (life.ended.wait() if STUCK in request.code else self.pause())
        yield Execution(life.status or "ok", execution_count=1)
