"""A kernel of its own for one run of a notebook, and a verification in it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager, suppress

from tk_ai_extension.kernels.base import NO_NOTEBOOK
from tk_ai_extension.kernels.service import Kernels
from tk_ai_extension.model.cells import Cell
from tk_ai_extension.model.errors import KernelNotFound, ToolError
from tk_ai_extension.model.executions import Execution, ExecutionRequest, StatusEvent
from tk_ai_extension.verification.report import CellReport, NotebookReport
from tk_ai_extension.verification.verifying import Verification


async def start_fresh(kernels: Kernels, name: str | None, path: str) -> str:
    """Start a kernel in the folder of a notebook, without making it the notebook's; return its id.

    It is started in a sandbox if the notebook's project has one. `shut_down` ends it.

    Args:
        kernels: Starts it.
        name: The kernelspec; None for the default one.
        path: The notebook's path.

    Raises:
        InvalidArguments, KernelStartFailed, KernelUnsupported.
    """
    folder = path.rpartition("/")[0]
    place = f"{folder}/{NO_NOTEBOOK}{secrets.token_hex(6)}".lstrip("/")
    return await kernels.start(name, path=place)


async def shut_down(kernels: Kernels, kernel_id: str) -> None:
    """Shut a kernel down; interrupt it first if it is busy, so that it ends by itself."""
    with suppress(ToolError):
        if kernel_id in kernels.ids() and (await kernels.info(kernel_id)).state == "busy":
            await kernels.interrupt(kernel_id)
    with suppress(KernelNotFound):
        if kernel_id in kernels.ids():
            await kernels.shutdown(kernel_id)


@asynccontextmanager
async def _fresh_kernel(kernels: Kernels, name: str | None, path: str) -> AsyncGenerator[str]:
    kernel_id = await start_fresh(kernels, name, path)
    try:
        yield kernel_id
    finally:
        await asyncio.shield(shut_down(kernels, kernel_id))


def _nothing(_report: CellReport) -> None:
    return None


async def verify_alone(
    kernels: Kernels,
    verification: Verification,
    *,
    kernel_name: str | None = None,
    timeout: float | None = None,
    on_cell: Callable[[CellReport], None] = _nothing,
) -> NotebookReport:
    """Run a verification in a fresh kernel, without a server's services.

    Args:
        kernels: Starts the kernel.
        verification: The verification.
        kernel_name: The kernelspec; None for the notebook's.
        timeout: Seconds after which a cell is interrupted; None for no limit.
        on_cell: Called with the report of each cell.

    Raises:
        InvalidArguments, KernelStartFailed.
        InvalidArguments: A sanitizer took too long.
    """
    snapshot = verification.snapshot
    name = kernel_name or snapshot.kernel_name
    async with _fresh_kernel(kernels, name, snapshot.path) as kernel_id:
        used = (await kernels.info(kernel_id)).name
        for cell in verification.cells:
            execution = await _execute(kernels, kernel_id, cell, timeout, verification.observe)
            on_cell(verification.record(cell, execution))
            if verification.stopped:
                break
    verification.end()
    return verification.report(used)


async def _execute(
    kernels: Kernels,
    kernel_id: str,
    cell: Cell,
    timeout: float | None,
    on_status: Callable[[StatusEvent], None],
) -> Execution:
    """Run a cell; return how it ended."""
    request = ExecutionRequest(cell.source, timeout=timeout)
    async with aclosing(kernels.execute(kernel_id, request)) as events:
        async for event in events:
            if isinstance(event, StatusEvent):
                on_status(event)
            elif isinstance(event, Execution):
                return event
    raise ToolError("The executor ended without a result.")
