"""Tools that run cells and code, and wait for executions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tk_ai_extension.model.cell_tags import runnable
from tk_ai_extension.model.cells import CellData
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.notebooks.notebook import states
from tk_ai_extension.tools.edit_plans import EditPlan, insertion, plan_edit, select
from tk_ai_extension.tools.parameter_types import (
    Address,
    MaybeAddress,
    MaybeRanges,
    Notebook,
    Timeout,
    Wait,
)
from tk_ai_extension.tools.registry import ToolContext, tool
from tk_ai_extension.tools.run_plans import ExecutionResult, RunPlan, edit_and_run, follow, run


@tool("EXECUTE", carry_out=run, command="exec cell")
async def execute_cell(
    context: ToolContext,
    cell: Address,
    notebook: Notebook = None,
    wait: Wait = 30,
    timeout: Timeout = None,
) -> RunPlan:
    """Run a cell. Saves its outputs in the notebook and returns them."""
    document = await context.workspace.open(context.caller, notebook, tool="execute_cell")
    snapshot = await document.read()
    found = snapshot.cell(cell)
    if found.type != "code":
        raise InvalidArguments(f"Cell @{found.key} is {found.type}; only code cells run.")
    return RunPlan(document.path, snapshot, (found,), wait=wait, timeout=timeout)


@tool("EXECUTE", carry_out=edit_and_run, command="add source")
async def insert_and_execute_cell(
    context: ToolContext,
    source: str,
    index: int | None = None,
    after: MaybeAddress = None,
    before: MaybeAddress = None,
    notebook: Notebook = None,
    wait: Wait = 30,
    timeout: Timeout = None,
) -> EditPlan:
    """Insert a code cell and run it (default: at the end)."""
    if not source.strip():
        raise InvalidArguments("`source` is empty.", hint="Use insert_cell for an empty cell.")
    document = await context.workspace.open(
        context.caller, notebook, tool="insert_and_execute_cell"
    )
    snapshot = await document.read()
    operation = insertion(
        snapshot, CellData("code", source), index=index, after=after, before=before
    )
    return plan_edit(context, document, snapshot, operation, run=True, wait=wait, timeout=timeout)


@tool("EXECUTE", carry_out=run, command="exec cells")
async def execute_cells(
    context: ToolContext,
    cells: MaybeRanges = None,
    which: Annotated[
        Literal["all", "stale"] | None,
        Field(description="instead of `cells`: all, or those not fresh"),
    ] = None,
    stop_on_error: bool = True,
    restart: Annotated[bool, Field(description="restart the kernel first")] = False,
    notebook: Notebook = None,
    wait: Wait = 30,
    timeout: Annotated[float | None, Field(gt=0, description="seconds per cell")] = None,
) -> RunPlan:
    """Run several cells in order, except those with the tag skip-execution."""
    if (cells is None) == (which is None):
        raise InvalidArguments("Give either `cells` or `which`.")
    workspace = context.workspace
    document = await workspace.open(context.caller, notebook, tool="execute_cells")
    snapshot = await document.read()
    if cells is not None:
        chosen = select(snapshot, cells)
    elif which == "all":
        chosen = list(snapshot.cells)
    else:
        # After a restart nothing is fresh.
        state = states(
            snapshot, {} if restart else workspace.by_path.at(document.path).last_runs.by_cell()
        )
        chosen = [
            cell for cell in snapshot.cells if cell.type == "code" and state[cell.key] != "fresh"
        ]
    chosen = runnable(chosen)
    if not chosen:
        raise InvalidArguments(
            "None of these cells has code to run.", hint="list_cells shows types and states."
        )
    return RunPlan(
        document.path,
        snapshot,
        tuple(chosen),
        restart=restart,
        stop_on_error=stop_on_error,
        wait=wait,
        timeout=timeout,
    )


@tool("EXECUTE", carry_out=run, command="run code")
async def execute_ipython(
    context: ToolContext,
    code: str,
    notebook: Notebook = None,
    wait: Wait = 30,
    timeout: Timeout = None,
) -> RunPlan:
    """Run code in the notebook's kernel; the notebook does not change."""
    if not code.strip():
        raise InvalidArguments("`code` is empty.")
    if "\0" in code:
        raise InvalidArguments("`code` contains a NUL character.", hint="Remove it.")
    path = context.workspace.path(context.caller, notebook, tool="execute_ipython")
    return RunPlan(context.workspace.contain(path), code=code, wait=wait, timeout=timeout)


@tool("READ", command="watch execution_id")
async def wait_execution(
    context: ToolContext,
    execution_id: str,
    wait: Wait = 30,
    since: Annotated[str | None, Field(description="leave out what you have: `next`")] = None,
) -> ExecutionResult:
    """Wait for an execution. Returns its output and how it ended."""
    run = context.workspace.executions.get(context.caller, execution_id)
    return await follow(context, run, wait, watch=True, since=since)
