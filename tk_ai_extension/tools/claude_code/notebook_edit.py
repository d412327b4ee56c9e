"""Replace, insert or delete one cell of a notebook by its id."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from tk_ai_extension.model.cell_operations import Delete, Insert, Operation, Replace
from tk_ai_extension.model.cells import CellData
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.tools.edit_plans import CellsChanged, EditPlan, cells_changed, plan_edit
from tk_ai_extension.tools.parameter_types import CellKind
from tk_ai_extension.tools.registry import ToolContext, tool
from tk_ai_extension.workspace import editing

EditMode = Literal["replace", "insert", "delete"]

_DELTA: dict[str, Literal[-1, 0, 1]] = {"replace": 0, "insert": 1, "delete": -1}


class CellEdited(CellsChanged):
    """The cell that was replaced, inserted or deleted, with the field names that agents know."""

    notebook_path: str
    """The path from the call."""
    edit_mode: EditMode
    """The action that was done. A replace one past the last cell is an insert."""
    cell_id: str
    """The cell's id; `cell-N` in a notebook without ids."""
    cell_type: CellKind
    language: str | None = None
    """The language of the notebook's code."""
    cells_delta: Literal[-1, 0, 1]


async def _carry_out(context: ToolContext, edit: EditPlan, tool: str) -> CellEdited:
    """Apply the edit and return its result."""
    applied = await editing.apply(
        context.workspace, context.caller, edit.document, edit.operations, tool=tool
    )
    (change,) = applied.changes
    content = change.after or change.before
    assert content is not None
    mode: Any = change.action
    return CellEdited(
        **dict(cells_changed(applied)),
        notebook_path=edit.given,
        edit_mode=mode,
        cell_id=change.cell,
        cell_type=content.type,
        language=applied.snapshot.language or None,
        cells_delta=_DELTA[change.action],
    )


@tool("WRITE", destructive=True, carry_out=_carry_out, notebook_argument="notebook_path")
async def NotebookEdit(  # noqa: N802 - the name that agents know
    context: ToolContext,
    notebook_path: Annotated[str, Field(description="absolute path of an .ipynb file")],
    cell_id: Annotated[
        str | None,
        Field(description="id or `cell-N`; insert: the cell above, none for the top"),
    ] = None,
    new_source: Annotated[str | None, Field(description="for replace and insert")] = None,
    cell_type: Annotated[
        Literal["code", "markdown"] | None, Field(description="required for insert")
    ] = None,
    edit_mode: EditMode = "replace",
) -> EditPlan:
    """Replace, insert or delete one cell of a notebook. Read the cell before you replace or delete it.
    A conflict returns its source, which counts as reading it.
    """
    if not notebook_path.startswith("/"):
        raise InvalidArguments(
            f"`notebook_path` {notebook_path!r} is not absolute.",
            hint="Use an absolute path, which begins with a slash.",
        )
    document = await context.workspace.store.open(context.workspace.contain(notebook_path))
    snapshot = await document.read()
    if edit_mode != "delete" and new_source is None:
        raise InvalidArguments(f"{edit_mode} needs `new_source`.")
    last = f"cell-{len(snapshot.cells)}"
    is_end = edit_mode == "replace" and cell_id == last and last not in snapshot.places
    operation: Operation
    if edit_mode == "insert" or is_end:
        if cell_type is None:
            why = f"; `{cell_id}` is one past the last cell" if is_end else ""
            raise InvalidArguments(f"An insert needs `cell_type`{why}.")
        content = CellData(cell_type, new_source or "")
        if is_end:
            operation = Insert(content)
        elif cell_id:
            operation = Insert(content, after=snapshot.cell(cell_id).key)
        else:
            operation = Insert(content, index=0)
    elif not cell_id:
        raise InvalidArguments(f"{edit_mode} needs `cell_id`.")
    else:
        cell, version = snapshot.find(cell_id)
        expect = editing.expected_hash(context.workspace, context.caller, snapshot, cell, version)
        if edit_mode == "delete":
            operation = Delete(cell.key, expect)
        else:
            operation = Replace(cell.key, new_source or "", cell_type, expect=expect)
    return replace(plan_edit(context, document, snapshot, operation), given=notebook_path)
