"""Edit, insert or delete cells by index, without running them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tk_ai_extension.model.cell_operations import Delete, Insert, Operation, Replace
from tk_ai_extension.model.cells import VERSION, CellData
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.tools.edit_plans import CellsChanged, EditPlan, cells_changed, plan_edit
from tk_ai_extension.tools.parameter_types import CellKind
from tk_ai_extension.tools.registry import ToolContext, tool
from tk_ai_extension.workspace import editing

Action = Literal["edit", "insert", "delete"]

_ACTIONS: dict[str, Action] = {"replace": "edit", "insert": "insert", "delete": "delete"}


class NotebookToolResult(CellsChanged):
    """The cell that was edited, inserted or deleted, with the field names that clients expect."""

    action: Action
    cellIndex: int  # noqa: N815 - the name that clients expect
    """The cell's position, from 0; of a deleted cell, its last one."""
    cellType: CellKind  # noqa: N815
    """The cell's type."""
    totalCells: int  # noqa: N815
    """The number of cells that the notebook has now."""
    cellSource: str  # noqa: N815
    """The cell's source; of a deleted cell, its last one."""


async def _carry_out(context: ToolContext, edit: EditPlan, tool: str) -> NotebookToolResult:
    """Apply the edit and return its result."""
    applied = await editing.apply(
        context.workspace, context.caller, edit.document, edit.operations, tool=tool
    )
    changed, (change,) = cells_changed(applied), applied.changes
    content = change.after or change.before
    assert content is not None
    return NotebookToolResult(
        **dict(changed),
        action=_ACTIONS[change.action],
        cellIndex=changed.changes[0].index,
        cellType=content.type,
        totalCells=changed.total_cells,
        cellSource=content.source,
    )


@tool("WRITE", destructive=True, carry_out=_carry_out, notebook_argument="path")
async def notebook(
    context: ToolContext,
    action: Action,
    path: Annotated[str, Field(description="relative to the session's folder, or absolute")],
    cell_index: Annotated[int, Field(description="from 0; insert also takes the number of cells")],
    content: Annotated[str | None, Field(description="for edit and insert")] = None,
    cell_type: Annotated[CellKind, Field(description="for insert")] = "code",
    version: Annotated[
        str | None,
        Field(
            pattern=f"^({VERSION})?$",
            description="part of the address after the dot, if you did not read it",
        ),
    ] = None,
) -> EditPlan:
    """Edit, insert or delete a cell of a notebook by index; runs nothing (see `python`). Read the cell
    before you edit or delete it. A conflict returns its source, which counts as reading it.
    """
    workspace = context.workspace
    document = await workspace.store.open(workspace.contain(path))
    snapshot = await document.read()
    last = len(snapshot.cells) - (action != "insert")
    if not 0 <= cell_index <= last:
        allowed = f"Use 0 to {last}." if last >= 0 else "It has no cells."
        raise InvalidArguments(
            f"`cell_index` {cell_index} is out of range for {action} in {snapshot.path}. {allowed}"
        )
    if content is None and action != "delete":
        raise InvalidArguments(f"{action} needs `content`.")
    operation: Operation
    if action == "insert":
        operation = Insert(CellData(cell_type, content or ""), index=cell_index)
    else:
        cell = snapshot.cells[cell_index]
        expect = editing.expected_hash(workspace, context.caller, snapshot, cell, version)
        operation = (
            Delete(cell.key, expect)
            if action == "delete"
            else Replace(cell.key, content or "", expect=expect)
        )
    return plan_edit(context, document, snapshot, operation)
