"""Run a notebook from the top in a kernel of its own, and compare its outputs."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

from tk_ai_extension.kernels.base import NO_NOTEBOOK, Kernels
from tk_ai_extension.model.cells import Cell, Json, Snapshot
from tk_ai_extension.model.digest import short_traceback
from tk_ai_extension.model.errors import KernelNotFound, ToolError
from tk_ai_extension.model.executions import INTERRUPT_IGNORED, Execution, ExecutionRequest
from tk_ai_extension.verification.comparing import compare_outputs, error_line, is_error
from tk_ai_extension.verification.hidden_state import hidden_state
from tk_ai_extension.verification.report import CellReport, NotebookReport
from tk_ai_extension.verification.rules import Rules

_MARKER = re.compile(r"^\s*#\s*(NBVAL_[A-Z_]+|PYTEST_VALIDATE_IGNORE_OUTPUT)\s*$", re.MULTILINE)
_BY_COMMENT: Mapping[str, str] = {
    "NBVAL_IGNORE_OUTPUT": "nbval-ignore-output",
    "PYTEST_VALIDATE_IGNORE_OUTPUT": "nbval-ignore-output",
    "NBVAL_CHECK_OUTPUT": "nbval-check-output",
    "NBVAL_RAISES_EXCEPTION": "raises-exception",
    "NBVAL_SKIP": "nbval-skip",
}


def tags_of(cell: Cell) -> frozenset[str]:
    """Return a cell's tags, and those that nbval's comments in its source stand for."""
    stored = cell.metadata.get("tags")
    tags = {str(tag) for tag in stored} if isinstance(stored, list) else set[str]()  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    tags |= {_BY_COMMENT[name] for name in _MARKER.findall(cell.source) if name in _BY_COMMENT}
    if "nbval-raises-exception" in tags:
        tags.add("raises-exception")
    if "skip-execution" in tags:
        tags.add("nbval-skip")
    return frozenset(tags)


@asynccontextmanager
async def fresh_kernel(kernels: Kernels, name: str | None, path: str) -> AsyncGenerator[str]:
    """Start a kernel in the folder of a notebook; it is shut down at the end of the block.

    Args:
        kernels: Starts it, in a sandbox if the notebook's project has one.
        name: The kernelspec; None for the default one.
        path: The notebook's path. The kernel does not become the notebook's.

    Raises:
        KernelspecNotFound, KernelStartFailed.
    """
    folder = path.rpartition("/")[0]
    place = f"{folder}/{NO_NOTEBOOK}{secrets.token_hex(6)}".lstrip("/")
    kernel_id = await kernels.start(name, path=place)
    try:
        yield kernel_id
    finally:
        await asyncio.shield(shut_down(kernels, kernel_id))


async def shut_down(kernels: Kernels, kernel_id: str) -> None:
    """Interrupt a kernel, so that it hears the request, and shut it down."""
    with suppress(ToolError):
        if kernel_id in kernels.ids() and (await kernels.info(kernel_id)).state == "busy":
            await kernels.interrupt(kernel_id)
    with suppress(KernelNotFound):
        if kernel_id in kernels.ids():
            await kernels.shutdown(kernel_id)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is.

    Attributes:
        index: The index of the cell that begins or ended.
        number: Its number among the code cells, from 1.
        total: The number of code cells.
        seconds: Seconds since the run began.
        ended: The cell's report; None while it runs.
    """

    index: int
    number: int
    total: int
    seconds: float
    ended: CellReport | None = None


OnProgress = Callable[[Progress], Awaitable[None]]


async def _no_progress(_progress: Progress) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Verified:
    """A report, and the new outputs by the keys of the cells that ran."""

    report: NotebookReport
    outputs: Mapping[str, tuple[Json, ...]]
    counts: Mapping[str, int | None]


async def verify_notebook(
    kernels: Kernels,
    snapshot: Snapshot,
    stored: Mapping[str, Sequence[Json]],
    rules: Rules,
    *,
    kernel_name: str | None = None,
    timeout: float | None = None,
    on_progress: OnProgress = _no_progress,
) -> Verified:
    """Run all code cells in a fresh kernel and compare their outputs. Nothing is written.

    Args:
        kernels: Starts the kernel.
        snapshot: The notebook.
        stored: The stored outputs by the keys of code cells.
        rules: What is ignored.
        kernel_name: The kernelspec; None for the notebook's.
        timeout: Seconds after which a cell is interrupted; None for no limit.
        on_progress: Called when a cell begins and when it has ended.

    Raises:
        KernelspecNotFound, KernelStartFailed.
        InvalidArguments: A sanitizer took too long.
    """
    began = time.monotonic()
    cells = [cell for cell in snapshot.cells if cell.type == "code" and cell.source.strip()]
    has_outputs = any(cell.execution_count is not None or stored.get(cell.key) for cell in cells)
    reports: list[CellReport] = []
    outputs: dict[str, tuple[Json, ...]] = {}
    counts: dict[str, int | None] = {}
    name = kernel_name or snapshot.kernel_name
    stopped = ""
    async with fresh_kernel(kernels, name, snapshot.path) as kernel_id:
        used = (await kernels.info(kernel_id)).name
        for number, cell in enumerate(cells, 1):
            tags = tags_of(cell)
            if stopped or "nbval-skip" in tags:
                reports.append(
                    CellReport(
                        cell.key,
                        cell.index,
                        "not_run" if stopped else "skipped",
                        cell.first_line,
                        message=stopped or "its tags say so",
                    )
                )
                continue
            at = time.monotonic() - began
            await on_progress(Progress(cell.index, number, len(cells), at))
            execution = await _execute(kernels, kernel_id, cell.source, timeout)
            outputs[cell.key] = execution.outputs
            counts[cell.key] = execution.execution_count
            before = stored.get(cell.key, ())
            report = await asyncio.to_thread(
                cell_report, cell, before, execution, rules, tags, has_outputs=has_outputs
            )
            reports.append(report)
            stopped = _reason_to_stop(execution)
            at = time.monotonic() - began
            await on_progress(Progress(cell.index, number, len(cells), at, report))
    findings = await asyncio.to_thread(hidden_state, snapshot)
    whole = NotebookReport(
        notebook=snapshot.path,
        revision=snapshot.revision,
        cells=tuple(reports),
        findings=findings,
        kernel=used,
        seconds=time.monotonic() - began,
        has_outputs=has_outputs,
    )
    return Verified(whole, outputs, counts)


async def _execute(
    kernels: Kernels, kernel_id: str, source: str, timeout: float | None
) -> Execution:
    """Run code and return how it ended."""
    request = ExecutionRequest(source, timeout=timeout)
    try:
        async with aclosing(kernels.executor(kernel_id).execute(kernel_id, request)) as events:
            async for event in events:
                if isinstance(event, Execution):
                    return event
    except ToolError as error:
        return Execution("kernel_died", message=error.message)
    raise ToolError("The executor ended without a result.")


def _reason_to_stop(execution: Execution) -> str:
    """Return why no further cell can run; an empty string if one can."""
    if execution.status in ("ok", "error", "interrupted"):
        return ""
    if execution.status == "timed_out" and INTERRUPT_IGNORED not in execution.message:
        return ""
    return execution.message or execution.status


def cell_report(
    cell: Cell,
    stored: Sequence[Json],
    execution: Execution,
    rules: Rules,
    tags: frozenset[str],
    *,
    has_outputs: bool = True,
) -> CellReport:
    """Return the report of a cell that has run.

    Args:
        cell: The cell.
        stored: Its stored outputs.
        execution: How the new run ended.
        rules: What is ignored.
        tags: Its tags (`tags_of`).
        has_outputs: Whether the notebook has stored outputs at all.
    """
    report = partial(
        CellReport,
        cell.key,
        cell.index,
        first_line=cell.first_line,
        seconds=execution.duration,
    )
    if execution.status not in ("ok", "error"):
        message = execution.message.partition(INTERRUPT_IGNORED)[0].strip() or execution.status
        return report("failed", message=message)
    error = next((each for each in reversed(execution.outputs) if is_error(each)), None)
    is_expected = "raises-exception" in tags or any(map(is_error, stored))
    if execution.status == "error" and not is_expected:
        shown = error or {"ename": "error", **(execution.error or {})}
        return report("failed", message=error_line(shown), traceback=short_traceback(shown))
    compares = has_outputs and "nbval-ignore-output" not in tags
    if rules.lax:
        compares = has_outputs and "nbval-check-output" in tags
    if not compares:
        return report("ignored" if has_outputs else "same")
    differences = compare_outputs(stored, execution.outputs, rules)
    return report("differs" if differences else "same", differences=differences)
