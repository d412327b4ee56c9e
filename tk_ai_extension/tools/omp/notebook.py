"""Edit, insert or delete cells by index, without running them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tk_ai_extension.model.cells import VERSION, CellContent
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.model.operations import Delete, Insert, Operation, Replace
from tk_ai_extension.tools.parameters import CellKind
from tk_ai_extension.tools.plans import Edit, changed_cell, plan_edit
from tk_ai_extension.tools.registry import Result, ToolContext, tool
from tk_ai_extension.workspace import editing

Action = Literal["edit", "insert", "delete"]

_DONE = {"edit": "Replaced", "insert": "Inserted", "delete": "Deleted"}


class NotebookChanged(Result):
    """The cell that was edited, inserted or deleted, with the field names that clients expect."""

    action: Action
    path: str
    cellIndex: int  # noqa: N815 - the name that clients expect
    """The cell's position, from 0; of a deleted cell, its last one."""
    cellType: CellKind  # noqa: N815
    """The cell's type."""
    totalCells: int  # noqa: N815
    """The number of cells that the notebook has now."""
    cellSource: str  # noqa: N815
    """The cell's source; of a deleted cell, its last one."""
    address: str | None = None
    """The cell's versioned address now; None if it was deleted."""

    def as_text(self) -> str:
        name = f" @{self.address}" if self.address else ""
        line = f"{_DONE[self.action]} cell {self.cellIndex}{name} ({self.cellType}) of {self.path}"
        return f"{line}, which has {self.totalCells} cells.\n{self.cellSource}"


async def _carry_out(context: ToolContext, edit: Edit, tool: str) -> NotebookChanged:
    """Apply the edit and return its result."""
    applied = await editing.apply(
        context.workspace, context.caller, edit.document, edit.operations, tool=tool
    )
    (change,) = applied.changes
    done = changed_cell(applied.snapshot, change)
    content = change.after or change.before
    actions: dict[str, Action] = {"replace": "edit", "delete": "delete"}
    return NotebookChanged(
        action=actions.get(change.action, "insert"),
        path=applied.snapshot.path,
        cellIndex=done.index,
        cellType=content.type if content else "code",
        totalCells=len(applied.snapshot.cells),
        cellSource=content.source if content else "",
        address=done.address,
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
) -> Edit:
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
        operation = Insert(CellContent(cell_type, content or ""), index=cell_index)
    else:
        cell = snapshot.cells[cell_index]
        expect = editing.expected_hash(workspace, context.caller, snapshot, cell, version)
        operation = (
            Delete(cell.key, expect)
            if action == "delete"
            else Replace(cell.key, content or "", expect=expect)
        )
    return plan_edit(context, document, snapshot, operation)
