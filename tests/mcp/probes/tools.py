"""Tools that report their progress, and wait until the test releases them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from tk_ai_extension.model.errors import KernelBusy
from tk_ai_extension.tools.registry import Image, Result, ToolContext, tool

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@dataclass
class Probe:
    """A test's handle to observe and release the tools; it is on the workspace."""

    started: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    finished: asyncio.Event = field(default_factory=asyncio.Event)
    contexts: list[ToolContext] = field(default_factory=list)


def _probe(context: ToolContext) -> Probe:
    workspace: Any = context.workspace
    probe: Probe = workspace.probe
    probe.contexts.append(context)
    return probe


class ProbeResult(Result):
    """What a probe says."""

    greeting: str
    failed: bool = False

    def as_text(self) -> str:
        return f"It said: {self.greeting}"

    @property
    def is_error(self) -> bool:
        return self.failed


@tool("READ")
async def probe_say(
    context: ToolContext, greeting: str = "hello", failed: bool = False
) -> ProbeResult:
    """Says it back.

    With a picture.
    """
    _probe(context)
    result = ProbeResult(greeting=greeting, failed=failed, notices=["mind the gap"])
    result.with_images((Image(PIXEL, "image/png"),))
    return result


@tool("WRITE", destructive=True)
async def probe_fail(context: ToolContext) -> ProbeResult:
    """Fails with a typed error."""
    _probe(context)
    raise KernelBusy("The probe is busy.", facts=[1, 2])


@tool("READ")
async def probe_break(context: ToolContext) -> ProbeResult:
    """Fails with an unexpected exception."""
    _probe(context)
    raise ZeroDivisionError("a defect")


@tool("EXECUTE", idempotent=True)
async def probe_wait(
    context: ToolContext, reports: int = 0, notebook: str | None = None
) -> ProbeResult:
    """Reports progress, and waits until it is released."""
    probe = _probe(context)
    for number in range(reports):
        await context.progress(f"report {number}")
    probe.started.set()
    try:
        await probe.release.wait()
    except asyncio.CancelledError:
        probe.cancelled.set()
        raise
    probe.finished.set()
    return ProbeResult(greeting=f"waited for {notebook}")
