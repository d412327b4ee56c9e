"""Running cells and code, and following what runs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tk_ai_extension.model.cells import Cell, CellContent, Snapshot
from tk_ai_extension.model.errors import InvalidArguments, NotebookRequired
from tk_ai_extension.notebooks.base import NotebookDocument
from tk_ai_extension.tools.addressing import insertion, select
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.following import ExecutionResult, follow
from tk_ai_extension.tools.parameters import (
    Address,
    MaybeAddress,
    MaybeRanges,
    Notebook,
    Timeout,
    Wait,
)
from tk_ai_extension.tools.registry import tool
from tk_ai_extension.workspace import editing
from tk_ai_extension.workspace.executions import Step
from tk_ai_extension.workspace.staleness import states


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
    kernel_id, _ = await context.workspace.kernel_for(document)
    return await _run_cells(
        context,
        document,
        snapshot,
        [found],
        kernel_id,
        wait=wait,
        timeout=timeout,
        tool="execute_cell",
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
    if not source.strip():
        raise InvalidArguments("There is no code to run.", hint="insert_cell makes an empty cell.")
    document = await _document(context, notebook, "insert_and_execute_cell")
    snapshot = await document.read()
    operation = insertion(
        snapshot, CellContent("code", source), index=index, after=after, before=before
    )
    # The kernel is started first: a notebook without one would be changed in vain.
    kernel_id, _ = await context.workspace.kernel_for(document)
    applied = await editing.apply(
        context.workspace,
        context.caller,
        document,
        [operation],
        tool="insert_and_execute_cell",
    )
    new = applied.snapshot.by_key[applied.changes[0].cell]
    return await _run_cells(
        context,
        document,
        applied.snapshot,
        [new],
        kernel_id,
        wait=wait,
        timeout=timeout,
        tool="insert_and_execute_cell",
    )


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
    if cells is not None:
        chosen = select(snapshot, cells)
    elif which == "all":
        chosen = list(snapshot.cells)
    else:
        # After a restart nothing is fresh.
        state = states(snapshot, {} if restart else workspace.runs.of(document.path))
        chosen = [
            cell for cell in snapshot.cells if cell.type == "code" and state[cell.key] != "fresh"
        ]
    chosen = [cell for cell in chosen if cell.type == "code" and cell.source.strip()]
    if not chosen:
        raise InvalidArguments(
            "None of these is a code cell to run.", hint="list_cells shows types and states."
        )
    kernel_id, started = await workspace.kernel_for(document)
    if restart and not started:
        await workspace.kernels.restart(kernel_id)
        workspace.runs.forget_kernel(kernel_id)
    return await _run_cells(
        context,
        document,
        snapshot,
        chosen,
        kernel_id,
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
    kernel_id: str,
    *,
    wait: float,
    timeout: float | None,
    tool: str,
    stop_on_error: bool = True,
) -> ExecutionResult:
    workspace = context.workspace
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
