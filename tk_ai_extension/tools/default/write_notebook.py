"""The tool that writes an edited notebook text back."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tk_ai_extension.model import cell_marked_text
from tk_ai_extension.model.cells import Snapshot
from tk_ai_extension.model.errors import Conflict, InvalidArguments, InvalidNotebook
from tk_ai_extension.model.three_way_merge import merge
from tk_ai_extension.notebooks.computed_edit import anchored
from tk_ai_extension.tools.edit_plans import (
    CellsChanged,
    CreationPlan,
    EditPlan,
    apply_edit,
    cells_changed,
    plan_edit,
)
from tk_ai_extension.tools.parameter_types import Notebook
from tk_ai_extension.tools.registry import ToolContext, tool
from tk_ai_extension.workspace import editing


async def _write(context: ToolContext, plan: EditPlan | CreationPlan, tool: str) -> CellsChanged:
    """Apply the edit, or create the notebook."""
    if isinstance(plan, EditPlan):
        return await apply_edit(context, plan, tool)
    return cells_changed(
        await editing.create(context.workspace, context.caller, plan.path, plan.cells, tool=tool)
    )


@tool("WRITE", destructive=True, carry_out=_write, command="write text")
async def write_notebook(
    context: ToolContext,
    text: Annotated[str, Field(description="edited text of read_notebook")],
    notebook: Notebook = None,
    base: Annotated[str | None, Field(description="revision, if the text has no header")] = None,
) -> EditPlan | CreationPlan:
    """Write edited text back. Merges it by cell with others' changes since you read it. A missing
    marker deletes its cell; a marker without id adds one. Creates a missing notebook.
    """
    workspace = context.workspace
    parsed = cell_marked_text.parse(text)
    path = workspace.path(context.caller, notebook or parsed.path, tool="write_notebook")
    if not await workspace.store.exists(path):
        # Merge with an empty notebook first, so that markers with ids fail before it is created.
        empty = Snapshot(path, ())
        merge(_base(context, empty, base or parsed.revision, new=True), empty, parsed)
        return CreationPlan(path, tuple((cell.type, cell.source) for cell in parsed.cells))
    document = await workspace.store.open(path)
    current = await document.read()
    if current.nbformat[0] < 4:
        raise InvalidNotebook(
            f"{path} has nbformat {current.nbformat[0]}, which cannot be written.",
            hint="Convert it first: jupyter nbconvert --to notebook --nbformat 4 FILE.",
        )
    read = _base(context, current, base or parsed.revision, new=not current.cells)
    try:
        operations = merge(read, current, parsed)
    except Conflict as conflict:
        editing.mark_shown(workspace, context.caller, path, conflict)
        raise
    return plan_edit(context, document, current, *anchored(current, operations))


def _base(context: ToolContext, current: Snapshot, revision: str | None, *, new: bool) -> Snapshot:
    """Return the notebook as of the revision that was read.

    Raises:
        InvalidArguments: The revision is missing for a notebook that has cells, or is unknown.
    """
    if revision == current.revision or (revision is None and new):
        return current
    if revision is None:
        raise InvalidArguments(
            "The text has no revision.",
            hint="Keep the header line of read_notebook, or set `base`.",
        )
    base = context.workspace.by_path.at(current.path).revisions.get(revision)
    if base is None:
        raise InvalidArguments(
            f"Revision {revision} of {current.path} is no longer available.",
            hint="Read the notebook again and apply your changes to the new text.",
        )
    return base
