"""Writing a notebook as text."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from tk_ai_extension.model import celltext
from tk_ai_extension.model.cells import Snapshot
from tk_ai_extension.model.errors import Conflict, InvalidArguments, UnsupportedFormat
from tk_ai_extension.model.merging import merge
from tk_ai_extension.notebooks.transactions import anchored
from tk_ai_extension.tools.cell_changes import CellsChanged, apply_edit, cells_changed, plan_edit
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.parameters import Notebook
from tk_ai_extension.tools.plans import CreationPlan, Edit
from tk_ai_extension.tools.registry import tool
from tk_ai_extension.workspace import editing


async def _write(context: ToolContext, plan: Edit | CreationPlan, tool: str) -> CellsChanged:
    """Makes the edit, or the whole notebook at once."""
    if isinstance(plan, Edit):
        return await apply_edit(context, plan, tool)
    return cells_changed(
        await editing.create(context.workspace, context.caller, plan.path, plan.cells, tool=tool)
    )


async def _concerns(context: ToolContext, arguments: BaseModel) -> str | None:
    """The notebook that is named, else the one in the text's header."""
    notebook: str | None = getattr(arguments, "notebook", None)
    text: str = getattr(arguments, "text", "")
    return context.current_path(notebook or celltext.parse(text).path)


@tool("WRITE", destructive=True, carry_out=_write, concerns=_concerns, command="write text")
async def write_notebook(
    context: ToolContext,
    text: Annotated[str, Field(description="as read_notebook gave it, edited")],
    notebook: Notebook = None,
    base: Annotated[str | None, Field(description="revision, where the text has no header")] = None,
) -> Edit | CreationPlan:
    """Writes the cell-marked text back, merged by cell with what others changed since. A missing
    marker deletes its cell; a marker without id makes a new one. A missing notebook is created.
    """
    workspace = context.workspace
    parsed = celltext.parse(text)
    path = workspace.path(context.caller, notebook or parsed.path, tool="write_notebook")
    if not await workspace.store.exists(path):
        # Merged with nothing: a marker that names a cell is refused before there is a notebook.
        nothing = Snapshot(path, ())
        merge(_base(context, nothing, base or parsed.revision, new=True), nothing, parsed)
        return CreationPlan(path, tuple((cell.type, cell.source) for cell in parsed.cells))
    document = await workspace.store.open(path)
    current = await document.read()
    if current.nbformat[0] < 4:
        raise UnsupportedFormat(
            f"{path} is of nbformat {current.nbformat[0]}, which is not written."
        )
    read = _base(context, current, base or parsed.revision, new=not current.cells)
    try:
        operations = merge(read, current, parsed)
    except Conflict as conflict:
        editing.mark_shown(workspace, context.caller, path, conflict)
        raise
    return plan_edit(context, document, current, *anchored(current, operations))


def _base(context: ToolContext, current: Snapshot, revision: str | None, *, new: bool) -> Snapshot:
    """The notebook as it was at the revision that was read.

    Raises:
        InvalidArguments: no revision is named for a notebook that has cells, or it is not known.
    """
    if revision == current.revision or (revision is None and new):
        return current
    if revision is None:
        raise InvalidArguments(
            "The text names no revision.",
            hint="Keep the header line of read_notebook, or give `base`.",
        )
    base = context.workspace.revisions.get(current.path, revision)
    if base is None:
        raise InvalidArguments(
            f"Revision {revision} of {current.path} is not known any more.",
            hint="Read the notebook again, and make the changes in the new text.",
        )
    return base
