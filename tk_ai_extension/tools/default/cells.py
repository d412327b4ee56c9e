"""Tools that change cells."""

from __future__ import annotations

from tk_ai_extension.model.cell_operations import Delete, Move, Replace, SetOutputs
from tk_ai_extension.model.cells import Cell, CellData, Snapshot
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.notebooks.document import NotebookDocument
from tk_ai_extension.tools.edit_plans import (
    EditPlan,
    apply_edit,
    insertion,
    plan_edit,
    replaced,
    select,
)
from tk_ai_extension.tools.parameter_types import (
    Address,
    CellKind,
    MaybeAddress,
    MaybeRanges,
    Notebook,
)
from tk_ai_extension.tools.registry import ToolContext, tool
from tk_ai_extension.workspace import editing


async def _read_cell(
    context: ToolContext, document: NotebookDocument, address: str | int
) -> tuple[Snapshot, Cell, str]:
    """Return the snapshot, the cell, and the source hash that it must still have when it is changed.

    Raises:
        Conflict: The caller has not read the current source.
    """
    snapshot = await document.read()
    cell, version = snapshot.find(address)
    return (
        snapshot,
        cell,
        editing.expected_hash(context.workspace, context.caller, snapshot, cell, version),
    )


@tool("WRITE", carry_out=apply_edit, command="insert index source")
async def insert_cell(
    context: ToolContext,
    source: str,
    cell_type: CellKind = "code",
    index: int | None = None,
    after: MaybeAddress = None,
    before: MaybeAddress = None,
    notebook: Notebook = None,
) -> EditPlan:
    """Insert a cell at an index, before or after a cell, or at the end."""
    document = await context.workspace.open(context.caller, notebook, tool="insert_cell")
    content = CellData(cell_type, source)
    snapshot = await document.read()
    operation = insertion(snapshot, content, index=index, after=after, before=before)
    return plan_edit(context, document, snapshot, operation)


@tool(
    "WRITE",
    destructive=True,
    idempotent=True,
    carry_out=apply_edit,
    command="edit cell source",
)
async def overwrite_cell(
    context: ToolContext,
    cell: Address,
    source: str,
    cell_type: CellKind | None = None,
    keep_outputs: bool = False,
    notebook: Notebook = None,
) -> EditPlan:
    """Replace a cell's source and clear its outputs unless `keep_outputs`. Returns a diff. Read the
    cell first, or give its versioned address.
    """
    document = await context.workspace.open(context.caller, notebook, tool="overwrite_cell")
    snapshot, found, expect = await _read_cell(context, document, cell)
    operation = Replace(found.key, source, cell_type, keep_outputs, expect)
    return plan_edit(context, document, snapshot, operation)


@tool("WRITE", carry_out=apply_edit, command="replace cell old new")
async def edit_cell(
    context: ToolContext,
    cell: Address,
    old: str,
    new: str,
    replace_all: bool = False,
    notebook: Notebook = None,
) -> EditPlan:
    """Replace a string in a cell's source; `old` must occur once unless `replace_all`."""
    document = await context.workspace.open(context.caller, notebook, tool="edit_cell")
    snapshot, found, expect = await _read_cell(context, document, cell)
    source = replaced(found.source, f"Cell @{found.key}", old, new, replace_all=replace_all)
    operation = Replace(found.key, source, None, keep_outputs=False, expect=expect)
    return plan_edit(context, document, snapshot, operation)


@tool("WRITE", destructive=True, carry_out=apply_edit, command="rm cell")
async def delete_cell(context: ToolContext, cell: Address, notebook: Notebook = None) -> EditPlan:
    """Delete a cell. Returns its source. Read the cell first, or give its versioned address."""
    document = await context.workspace.open(context.caller, notebook, tool="delete_cell")
    snapshot, found, expect = await _read_cell(context, document, cell)
    return plan_edit(context, document, snapshot, Delete(found.key, expect))


@tool("WRITE", destructive=True, idempotent=True, carry_out=apply_edit, command="clear cells")
async def clear_outputs(
    context: ToolContext, cells: MaybeRanges = None, all: bool = False, notebook: Notebook = None
) -> EditPlan:
    """Clear outputs and execution counts of some cells or of all."""
    if (cells is None) != all:
        raise InvalidArguments("Give either `cells` or `all`.")
    document = await context.workspace.open(context.caller, notebook, tool="clear_outputs")
    snapshot = await document.read()
    chosen = list(snapshot.cells) if cells is None else select(snapshot, cells)
    operations = [
        SetOutputs(cell.key)
        for cell in chosen
        if cell.type == "code" and (cell.outputs.count or cell.execution_count is not None)
    ]
    return plan_edit(context, document, snapshot, *operations)


@tool("WRITE", idempotent=True, carry_out=apply_edit, command="mv cell to")
async def move_cell(
    context: ToolContext, cell: Address, to: int, notebook: Notebook = None
) -> EditPlan:
    """Move a cell; `to` is its new index."""
    document = await context.workspace.open(context.caller, notebook, tool="move_cell")
    snapshot = await document.read()
    operation = Move(snapshot.cell(cell).key, to)
    return plan_edit(context, document, snapshot, operation)
