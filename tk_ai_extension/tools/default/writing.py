"""Writing a notebook as text."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tk_ai_extension.model import celltext
from tk_ai_extension.model.cells import Snapshot
from tk_ai_extension.model.errors import InvalidArguments, UnsupportedFormat
from tk_ai_extension.model.merging import merge
from tk_ai_extension.notebooks.new import empty_notebook
from tk_ai_extension.tools.changes import CellsChanged, changed_cell
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.parameters import Notebook
from tk_ai_extension.tools.registry import tool
from tk_ai_extension.workspace import editing


@tool("WRITE", destructive=True)
async def write_notebook(
    context: ToolContext,
    text: Annotated[str, Field(description="as read_notebook gave it, edited")],
    notebook: Notebook = None,
    base: Annotated[str | None, Field(description="revision, where the text has no header")] = None,
) -> CellsChanged:
    """Writes the cell-marked text back, merged by cell with what others changed since. A missing
    marker deletes its cell; a marker without id makes a new one. A missing notebook is created.
    """
    workspace, caller = context.workspace, context.caller
    parsed = celltext.parse(text)
    path = workspace.path(caller, notebook or parsed.path, tool="write_notebook")
    if not await workspace.store.exists(path):
        await workspace.store.create(path, empty_notebook())
    document = await workspace.store.open(path)
    current = await document.read()
    if current.nbformat[0] < 4:
        raise UnsupportedFormat(
            f"{path} is of nbformat {current.nbformat[0]}, which is not written."
        )
    operations = merge(
        _base(context, current, base or parsed.revision, new=not current.cells), current, parsed
    )
    applied = await editing.apply(
        workspace,
        caller,
        document,
        operations,
        tool="write_notebook",
    )
    return CellsChanged(
        notebook=path,
        total_cells=len(applied.snapshot.cells),
        changes=[changed_cell(applied.snapshot, change) for change in applied.changes],
    )


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
