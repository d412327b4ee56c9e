"""The bench of the executors' conformance suite: what it is given, and how it runs code."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tk_ai_extension.kernels.base import KernelEvent, Kernels
from tk_ai_extension.model.cells import Json
from tk_ai_extension.model.executions import (
    Execution,
    ExecutionEvent,
    ExecutionRequest,
    OutputsChanged,
)
from tk_ai_extension.model.outputs import OutputBuffer, stream_text
from tk_ai_extension.testing import faults

DEADLINE = 30.0
"""Seconds in which each execution of the suite ends."""


@dataclass
class ExecutorBench:
    """What the suite works with.

    Attributes:
        kernels: The service whose ``executor(kernel_id)`` is tested.
        manager: The multi-kernel manager behind it, for a person's own clients.
        backend: What `Execution.backend` says.
        kernel_id: A running Python kernel, which tests may share; none of them harms it.
        harmed: Starts a Python kernel for a test that harms it.
        request: A request to Jupyter's REST API, as a person's browser makes it: method and path.
        tells_exit: Whether it can be known how a kernel's process has ended.
    """

    kernels: Kernels
    manager: Any
    backend: str
    kernel_id: str
    harmed: Callable[[], Awaitable[str]]
    request: Callable[[str, str], Awaitable[None]]
    tells_exit: bool = True

    async def pid(self, kernel_id: str) -> int:
        """The process of a kernel on this machine, also where the service does not know it."""
        known = (await self.kernels.info(kernel_id)).pid
        if known is not None:
            return known
        (found,) = faults.processes_with(f"kernel-{kernel_id}.json")  # its connection file
        return found


@dataclass
class Outcome:
    """An execution with the events before its end."""

    execution: Execution
    events: list[ExecutionEvent]

    @property
    def status(self) -> str:
        """How it ended."""
        return self.execution.status

    @property
    def outputs(self) -> tuple[Json, ...]:
        """All outputs."""
        return self.execution.outputs

    def text(self, name: str = "stdout") -> str:
        """All that was printed to one stream."""
        return "".join(stream_text(each) for each in self.outputs if each.get("name") == name)


class Submitted:
    """An execution that runs in the background."""

    def __init__(self, bench: ExecutorBench, kernel_id: str, request: ExecutionRequest) -> None:
        self.events: list[ExecutionEvent] = []
        self._heard = asyncio.Event()
        executor = bench.kernels.executor(kernel_id)
        self.task = asyncio.create_task(self._follow(executor.execute(kernel_id, request)))

    async def _follow(self, events: AsyncGenerator[ExecutionEvent]) -> Outcome:
        async with aclosing(events) as stream:
            async for event in stream:
                self.events.append(event)
                self._heard.set()
        *before, last = self.events
        assert isinstance(last, Execution), "the last event is the Execution"
        assert not any(isinstance(event, Execution) for event in before)
        assert rebuilt(before) == list(last.outputs), "the changes give the outputs"
        return Outcome(last, before)

    async def printed(self) -> None:
        """Wait until it has printed something."""
        async with asyncio.timeout(DEADLINE):
            while not any(isinstance(event, OutputsChanged) for event in self.events):
                self._heard.clear()
                await self._heard.wait()

    async def outcome(self, deadline: float = DEADLINE) -> Outcome:
        """Wait until it has ended."""
        async with asyncio.timeout(deadline):
            return await self.task


def rebuilt(events: list[ExecutionEvent]) -> list[Json]:
    """The outputs that the changes give, applied in order."""
    outputs = OutputBuffer()
    for event in events:
        if isinstance(event, OutputsChanged):
            for change in event.changes:
                outputs.apply(change)
    return list(outputs)


def submit(bench: ExecutorBench, code: str, kernel_id: str = "", **options: Any) -> Submitted:
    """Start to execute code."""
    return Submitted(bench, kernel_id or bench.kernel_id, ExecutionRequest(code, **options))


async def run(bench: ExecutorBench, code: str, kernel_id: str = "", **options: Any) -> Outcome:
    """Execute code to its end."""
    return await submit(bench, code, kernel_id, **options).outcome()


@asynccontextmanager
async def kernel_events(bench: ExecutorBench) -> AsyncGenerator[asyncio.Queue[KernelEvent]]:
    """What happens to the kernels meanwhile."""
    queue: asyncio.Queue[KernelEvent] = asyncio.Queue()
    unsubscribe = bench.kernels.subscribe(queue.put_nowait)
    try:
        yield queue
    finally:
        unsubscribe()
        unsubscribe()  # Once more is no error.


async def happens(events: asyncio.Queue[KernelEvent], kind: str, **fields: Any) -> KernelEvent:
    """Wait for an event of a kind, with these fields."""
    async with asyncio.timeout(DEADLINE):
        while True:
            event = await events.get()
            if event.kind == kind and all(
                getattr(event, name) == value for name, value in fields.items()
            ):
                return event
