"""Bench of the executors' conformance suite: its input, and how it runs code."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tk_ai_extension.kernels.kernel_info import KernelEvent
from tk_ai_extension.kernels.kernel_service import KernelService
from tk_ai_extension.model.executions import (
    Execution,
    ExecutionEvent,
    ExecutionRequest,
    OutputsChanged,
)
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.output_changes import OutputBuffer, stream_text

DEADLINE = 30.0
"""Timeout of each execution of the suite, in seconds."""


@dataclass
class ExecutorBench:
    """Everything that the suite needs.

    Attributes:
        kernels: The service; the suite tests its ``executor(kernel_id)``.
        manager: The multi-kernel manager behind it, for a person's own clients.
        backend: Expected `Execution.backend`.
        kernel_id: A running Python kernel that tests share and do not harm.
        harmed: Starts a Python kernel for a test that harms it.
        request: Sends a request to Jupyter's REST API, as a browser does: method and path.
    """

    kernels: KernelService
    manager: Any
    backend: str
    kernel_id: str
    harmed: Callable[[], Awaitable[str]]
    request: Callable[[str, str], Awaitable[None]]


@dataclass
class Outcome:
    """An execution with the events before its end."""

    execution: Execution
    events: list[ExecutionEvent]

    @property
    def status(self) -> str:
        """The final status."""
        return self.execution.status

    @property
    def outputs(self) -> tuple[Json, ...]:
        """All outputs."""
        return self.execution.outputs

    def text(self, name: str = "stdout") -> str:
        """Return the text of one stream."""
        return "".join(stream_text(each) for each in self.outputs if each.get("name") == name)


class Submitted:
    """An execution that runs in the background."""

    def __init__(self, bench: ExecutorBench, kernel_id: str, request: ExecutionRequest) -> None:
        self.events: list[ExecutionEvent] = []
        self._received = asyncio.Event()
        self.task = asyncio.create_task(self._follow(bench.kernels.execute(kernel_id, request)))

    async def _follow(self, events: AsyncGenerator[ExecutionEvent]) -> Outcome:
        async with aclosing(events) as stream:
            async for event in stream:
                self.events.append(event)
                self._received.set()
        *before, last = self.events
        assert isinstance(last, Execution), "the last event is the Execution"
        assert not any(isinstance(event, Execution) for event in before)
        assert rebuilt(before) == list(last.outputs), "the changes give the outputs"
        return Outcome(last, before)

    async def printed(self) -> None:
        """Wait for the first output."""
        async with asyncio.timeout(DEADLINE):
            while not any(isinstance(event, OutputsChanged) for event in self.events):
                self._received.clear()
                await self._received.wait()

    async def outcome(self, deadline: float = DEADLINE) -> Outcome:
        """Wait for the end."""
        async with asyncio.timeout(deadline):
            return await self.task


def rebuilt(events: list[ExecutionEvent]) -> list[Json]:
    """Return the outputs after applying the changes in order."""
    outputs = OutputBuffer()
    for event in events:
        if isinstance(event, OutputsChanged):
            for change in event.changes:
                outputs.apply(change)
    return list(outputs)


def submit(bench: ExecutorBench, code: str, kernel_id: str = "", **options: Any) -> Submitted:
    """Start executing code."""
    return Submitted(bench, kernel_id or bench.kernel_id, ExecutionRequest(code, **options))


async def run(bench: ExecutorBench, code: str, kernel_id: str = "", **options: Any) -> Outcome:
    """Execute code to its end."""
    return await submit(bench, code, kernel_id, **options).outcome()


@asynccontextmanager
async def kernel_events(bench: ExecutorBench) -> AsyncGenerator[asyncio.Queue[KernelEvent]]:
    """Collect the events of the kernels in the block."""
    queue: asyncio.Queue[KernelEvent] = asyncio.Queue()
    unsubscribe = bench.kernels.subscribe(queue.put_nowait)
    try:
        yield queue
    finally:
        unsubscribe()
        unsubscribe()  # Idempotent.


async def happens(events: asyncio.Queue[KernelEvent], kind: str, **fields: Any) -> KernelEvent:
    """Wait for an event of a kind, with these fields."""
    async with asyncio.timeout(DEADLINE):
        while True:
            event = await events.get()
            if event.kind == kind and all(
                getattr(event, name) == value for name, value in fields.items()
            ):
                return event
