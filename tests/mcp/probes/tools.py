"""Tools that say where they are, and wait until the test lets them go."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from tk_ai_extension.model.errors import KernelBusy
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.registry import tool
from tk_ai_extension.tools.results import Image, Result

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@dataclass
class Probe:
    """What a test sees of the tools, and how it lets them go; it hangs on the workspace."""

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


class Said(Result):
    """What a probe says."""

    said: str
    failed: bool = False

    def as_text(self) -> str:
        return f"It said: {self.said}"

    @property
    def is_error(self) -> bool:
        return self.failed


@tool("READ")
async def probe_say(context: ToolContext, said: str = "hello", failed: bool = False) -> Said:
    """Says it back.

    With a picture.
    """
    _probe(context)
    said_back = Said(said=said, failed=failed, notices=["mind the gap"])
    said_back.with_images((Image(PIXEL, "image/png"),))
    return said_back


@tool("WRITE", destructive=True)
async def probe_fail(context: ToolContext) -> Said:
    """Fails as tools fail."""
    _probe(context)
    raise KernelBusy("The probe is busy.", facts=[1, 2])


@tool("READ")
async def probe_break(context: ToolContext) -> Said:
    """Fails as no tool should."""
    _probe(context)
    raise ZeroDivisionError("a defect")


@tool("EXECUTE", idempotent=True)
async def probe_wait(context: ToolContext, reports: int = 0, notebook: str | None = None) -> Said:
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
    return Said(said=f"waited for {notebook}")
