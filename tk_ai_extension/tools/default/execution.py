"""Running cells and code, and following what runs."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from tk_ai_extension.model.cells import Cell, CellContent, Json, Snapshot
from tk_ai_extension.model.errors import InvalidArguments, NotebookRequired
from tk_ai_extension.model.operations import Insert
from tk_ai_extension.model.outputs import stream_text
from tk_ai_extension.notebooks.base import NotebookDocument
from tk_ai_extension.tools.addressing import select
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.parameters import (
    Address,
    MaybeAddress,
    MaybeRanges,
    Notebook,
    Timeout,
    Wait,
)
from tk_ai_extension.tools.presenting import present
from tk_ai_extension.tools.registry import tool
from tk_ai_extension.tools.results import Image, Result
from tk_ai_extension.workspace import editing
from tk_ai_extension.workspace.executions import Run, Step
from tk_ai_extension.workspace.staleness import states

PROGRESS_EVERY = 10.0
"""Seconds after which progress is reported though nothing new came."""
PROGRESS_AT_MOST = 0.5
"""Seconds between two reports of new output."""


class CellRun(BaseModel):
    """What one cell (or the scratch code) did."""

    cell: str | None = None
    index: int | None = None
    status: str
    execution_count: int | None = None
    duration: float | None = None
    output: str = ""
    artifact: str | None = None
    error: str | None = None
    """The exception's name and value."""
    message: str | None = None
    events: list[Json] = Field(default_factory=list[Json])


class ExecutionResult(Result):
    """An execution: how it ended, or how far it is."""

    execution_id: str
    notebook: str | None = None
    status: str
    runs: list[CellRun]
    skipped: int = 0
    total_cells: int | None = None
    prompt: str | None = None
    """What `input()` asked; it was not answered."""

    @property
    def is_error(self) -> bool:
        return self.status not in ("ok", "queued", "running")

    def as_text(self) -> str:
        parts = [_run_text(run, quiet=len(self.runs) > 1) for run in self.runs]
        if self.prompt is not None:
            parts.append(
                f"input_requested: {self.prompt!r} — nobody can answer here: pass the value in code instead."
            )
        if self.skipped:
            parts.append(f"[{self.skipped} more cells were not run]")
        if self.status in ("queued", "running"):
            parts.append(f'Still {self.status}: wait_execution("{self.execution_id}") follows it.')
        return "\n".join(parts)


def _run_text(run: CellRun, *, quiet: bool) -> str:
    name = f"@{run.cell} " if run.cell else ""
    count = f"[{run.execution_count}] " if run.execution_count is not None else ""
    duration = f" {run.duration:.2f} s" if run.duration is not None else ""
    line = f"{name}{count}{run.status}{duration}"
    if run.message:
        line += f" — {run.message}"
    if quiet and run.status == "ok" and not run.output:
        return line
    return f"{line}\n{run.output}" if run.output else f"{line}\n(no output)" if not quiet else line


@tool("EXECUTE")
async def execute_cell(
    context: ToolContext,
    cell: Address,
    notebook: Notebook = None,
    wait: Wait = 30,
    timeout: Timeout = None,
) -> ExecutionResult:
    """Runs a cell; its outputs go into the notebook and into the answer."""
    document = await _document(context, notebook, "execute_cell")
    snapshot = await document.read()
    found, _ = snapshot.find(cell)
    if found.type != "code":
        raise InvalidArguments(f"Cell @{found.key} is {found.type}; only code cells run.")
    return await _run_cells(
        context, document, snapshot, [found], wait=wait, timeout=timeout, tool="execute_cell"
    )


@tool("EXECUTE")
async def insert_and_execute_cell(
    context: ToolContext,
    source: str,
    index: int | None = None,
    after: MaybeAddress = None,
    before: MaybeAddress = None,
    notebook: Notebook = None,
    wait: Wait = 30,
    timeout: Timeout = None,
) -> ExecutionResult:
    """Inserts a code cell (at the end unless placed) and runs it."""
    document = await _document(context, notebook, "insert_and_execute_cell")
    snapshot = await document.read()
    operation = insertion(
        snapshot, CellContent("code", source), index=index, after=after, before=before
    )
    # The kernel is started first: a notebook without one would be changed in vain.
    await context.workspace.kernel_for(document)
    applied = await editing.apply(
        context.workspace,
        context.caller,
        document,
        [operation],
        tool="insert_and_execute_cell",
        summary="inserted a cell and ran it",
    )
    new = applied.snapshot.by_key[applied.changes[0].cell]
    return await _run_cells(
        context,
        document,
        applied.snapshot,
        [new],
        wait=wait,
        timeout=timeout,
        tool="insert_and_execute_cell",
    )


def insertion(
    snapshot: Snapshot,
    content: CellContent,
    *,
    index: int | None,
    after: str | int | None,
    before: str | int | None,
) -> Insert:
    """The operation that inserts at one of the three places, or at the end.

    Raises:
        InvalidArguments: more than one place, or an index out of range (0 to the number of cells).
        CellNotFound.
    """
    if sum(place is not None for place in (index, after, before)) > 1:
        raise InvalidArguments("Give one of `index`, `after` and `before`.")
    if index is not None:
        count = len(snapshot.cells)
        at = index + count + 1 if index < 0 else index
        if not 0 <= at <= count:
            raise InvalidArguments(
                f"`index` {index} is out of range: {snapshot.path} takes 0 to {count}."
            )
        return Insert(content, index=at)
    if after is not None:
        return Insert(content, after=snapshot.find(after)[0].key)
    if before is not None:
        return Insert(content, before=snapshot.find(before)[0].key)
    return Insert(content)


@tool("EXECUTE")
async def execute_cells(
    context: ToolContext,
    cells: MaybeRanges = None,
    which: Annotated[
        Literal["all", "stale"] | None, Field(description="instead of `cells`; `stale`: not fresh")
    ] = None,
    stop_on_error: bool = True,
    restart: Annotated[bool, Field(description="restart the kernel first")] = False,
    notebook: Notebook = None,
    wait: Wait = 30,
    timeout: Annotated[float | None, Field(gt=0, description="for each cell")] = None,
) -> ExecutionResult:
    """Runs several cells in order."""
    if (cells is None) == (which is None):
        raise InvalidArguments("Give either `cells` or `which`.")
    workspace = context.workspace
    document = await _document(context, notebook, "execute_cells")
    snapshot = await document.read()
    kernel_id, started = await workspace.kernel_for(document)
    if restart and not started:
        await workspace.kernels.restart(kernel_id)
        workspace.runs.forget_kernel(kernel_id)
    if cells is not None:
        chosen = select(snapshot, cells)
    elif which == "all":
        chosen = list(snapshot.cells)
    else:
        state = states(snapshot, workspace.runs.of(document.path))
        chosen = [
            cell for cell in snapshot.cells if cell.type == "code" and state[cell.key] != "fresh"
        ]
    chosen = [cell for cell in chosen if cell.type == "code" and cell.source.strip()]
    if not chosen:
        raise InvalidArguments(
            "None of these is a code cell to run.", hint="list_cells shows types and states."
        )
    return await _run_cells(
        context,
        document,
        snapshot,
        chosen,
        wait=wait,
        timeout=timeout,
        stop_on_error=stop_on_error,
        tool="execute_cells",
    )


@tool("EXECUTE")
async def execute_ipython(
    context: ToolContext,
    code: str,
    notebook: Notebook = None,
    wait: Wait = 30,
    timeout: Timeout = None,
) -> ExecutionResult:
    """Runs code in the notebook's kernel and leaves the notebook alone."""
    if not code.strip():
        raise InvalidArguments("There is no code to run.")
    if "\0" in code:
        raise InvalidArguments("The code has a NUL character.")
    document = await _document(context, notebook, "execute_ipython")
    kernel_id, _ = await context.workspace.kernel_for(document)
    run = context.workspace.executions.start(
        context.caller,
        kernel_id,
        [Step(code=code)],
        path=document.path,
        timeout=timeout,
        tool="execute_ipython",
    )
    return await follow(context, run, wait)


@tool("READ")
async def wait_execution(
    context: ToolContext, execution_id: str, wait: Wait = 30
) -> ExecutionResult:
    """Waits for an execution; answers with the output since it was last seen, and how it ended."""
    return await follow(
        context, context.workspace.executions.get(context.caller, execution_id), wait, watch=True
    )


async def _document(context: ToolContext, notebook: str | None, tool: str) -> NotebookDocument:
    """The notebook to run in; unless one is named, the current one.

    Raises:
        NotebookRequired: "No notebook connected. Use use_notebook first".
    """
    if notebook is None and context.workspace.notebooks.current(context.caller) is None:
        raise NotebookRequired(
            f"No notebook connected. Use use_notebook first, or give `notebook` to {tool}."
        )
    return await context.workspace.open(context.caller, notebook, tool=tool)


async def _run_cells(
    context: ToolContext,
    document: NotebookDocument,
    snapshot: Snapshot,
    cells: list[Cell],
    *,
    wait: float,
    timeout: float | None,
    tool: str,
    stop_on_error: bool = True,
) -> ExecutionResult:
    workspace = context.workspace
    kernel_id, _ = await workspace.kernel_for(document)
    path = document.path
    run = workspace.executions.start(
        context.caller,
        kernel_id,
        [Step(cell.key, cell.index, cell.source) for cell in cells],
        open_document=workspace.store.open,
        path=path,
        timeout=timeout,
        stop_on_error=stop_on_error,
        tool=tool,
    )
    return await follow(context, run, wait, total_cells=len(snapshot.cells))


async def follow(
    context: ToolContext,
    run: Run,
    wait: float,
    *,
    total_cells: int | None = None,
    watch: bool = False,
) -> ExecutionResult:
    """Waits for a run with progress, and answers with what is new for this caller.

    A call that is cancelled takes its run with it, unless it only watched.
    """
    try:
        await _wait(context, run, min(wait, context.workspace.limits.max_wait))
    except asyncio.CancelledError:
        if not watch:
            await asyncio.shield(context.workspace.executions.cancel(run))
        raise
    if run.error is not None:
        raise run.error
    return await _answer(context, run, total_cells)


async def _wait(context: ToolContext, run: Run, wait: float) -> None:
    began = time.monotonic()
    if await run.wait(min(wait, PROGRESS_AT_MOST)):
        return
    while (remaining := wait - (time.monotonic() - began)) > 0 and not run.done:
        version = run.version
        await context.progress(_progress(run, time.monotonic() - began))
        if await run.changed(version, min(remaining, PROGRESS_EVERY)):
            await run.wait(min(PROGRESS_AT_MOST, remaining))


def _progress(run: Run, elapsed: float) -> str:
    step = run.current
    position = f" {run.steps.index(step) + 1}/{len(run.steps)}" if len(run.steps) > 1 else ""
    name = f"cell @{step.cell}" if step.cell else "code"
    last = next((line for line in reversed(_last_lines(step.outputs)) if line.strip()), "")
    return f"{name}{position} {step.status}, {elapsed:.0f} s{': ' + last[:200] if last else ''}"


def _last_lines(outputs: list[Json]) -> list[str]:
    if not outputs or outputs[-1].get("output_type") != "stream":
        return []
    return stream_text(outputs[-1])[-500:].splitlines()


async def _answer(context: ToolContext, run: Run, total_cells: int | None) -> ExecutionResult:
    identity = context.caller.identity
    first, skip, characters = run.cursors.get(identity, (0, 0, 0))
    budget = context.workspace.limits.answer_budget
    runs: list[CellRun] = []
    images: list[Image] = []
    prompt: str | None = None
    shown = [step for step in run.steps if step.status not in ("queued", "skipped")] or run.steps[
        :1
    ]
    for position, step in enumerate(run.steps):
        if position < first or step not in shown:
            continue
        outputs = _since(step.outputs, skip, characters) if position == first else step.outputs
        presented = await present(context, outputs, budget=max(budget // max(len(shown), 1), 500))
        images += presented.images
        execution = step.execution
        prompt = execution.prompt if execution and execution.prompt is not None else prompt
        messages = [m for m in (execution.message if execution else None, step.warning) if m]
        runs.append(
            CellRun(
                cell=step.cell,
                index=step.index,
                status=step.status,
                execution_count=execution.execution_count if execution else None,
                duration=round(execution.duration, 3) if execution else None,
                output=presented.text,
                artifact=presented.artifact,
                error=_error(execution.error) if execution and execution.error else None,
                message="; ".join(messages) or None,
                events=[{"mime": event.mime, "data": event.data} for event in step.statuses],
            )
        )
    current = run.steps.index(run.current)
    if not context.gone.is_set():
        run.cursors[identity] = _cursor(current, run.steps[current].outputs)
    result = ExecutionResult(
        execution_id=run.id,
        notebook=run.path,
        status=run.status,
        runs=runs,
        skipped=sum(step.status == "skipped" for step in run.steps),
        total_cells=total_cells,
        prompt=prompt,
    )
    result.with_images(tuple(images))
    return result


def _since(outputs: list[Json], skip: int, characters: int) -> list[Json]:
    """The outputs after a cursor; all of them where they were cleared meanwhile."""
    if skip > len(outputs):
        return outputs
    rest = outputs[max(skip - 1, 0) :] if characters else outputs[skip:]
    if characters and rest and rest[0].get("output_type") == "stream":
        text = stream_text(rest[0])
        rest = (
            [{**rest[0], "text": text[characters:]}, *rest[1:]] if len(text) >= characters else rest
        )
    return rest


def _cursor(step: int, outputs: list[Json]) -> tuple[int, int, int]:
    if outputs and outputs[-1].get("output_type") == "stream":
        return step, len(outputs), len(stream_text(outputs[-1]))
    return step, len(outputs), 0


def _error(error: Json) -> str:
    return f"{error.get('ename')}: {error.get('evalue')}"
