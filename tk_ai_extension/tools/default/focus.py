"""The focus of the person in JupyterLab, and cells that an agent shows them."""

from __future__ import annotations

from pydantic import BaseModel

from tk_ai_extension.model.cells import Snapshot
from tk_ai_extension.model.errors import NotebookNotOpen
from tk_ai_extension.model.index_ranges import format_ranges
from tk_ai_extension.model.output_text import shorten
from tk_ai_extension.notebooks.browser_pages import Tab
from tk_ai_extension.tools.parameter_types import Address, Notebook
from tk_ai_extension.tools.registry import Result, ToolContext, tool

MAX_NAMED = 20
"""Maximum number of selected cells that are named by their ids; more are ranges of indexes."""


class PersonFocus(BaseModel):
    """The notebook that a person looks at, its active cell, and the selection in it."""

    notebook: str
    cell: str | None = None
    index: int | None = None
    execution_count: int | None = None
    first_line: str = ""
    selected_cells: str | None = None
    """Several selected cells, in the form of the argument `cells`."""
    selected_text: str | None = None
    """The text that is selected in the cell."""
    lines: str | None = None
    """The lines of the cell that it is in."""

    def as_text(self) -> str:
        """Return it as compact text."""
        text = f"The person looks at {self.notebook}"
        if self.cell is not None:
            count = "" if self.execution_count is None else f" [{self.execution_count}]"
            text += f", cell {self.index} @{self.cell}{count}: {self.first_line}"
        if self.selected_cells is not None:
            text += f"\nSelected cells: {self.selected_cells}"
        if self.selected_text is not None:
            text += f"\nSelected text, line {self.lines} of the cell:\n{self.selected_text}"
        return text


def focus_in(context: ToolContext, tab: Tab, snapshot: Snapshot) -> PersonFocus:
    """Return the person's focus in a tab; cells that are gone are left out."""
    seen, focus = tab.selection, PersonFocus(notebook=tab.path)
    chosen = [cell for key in seen.selected if (cell := snapshot.get(key)) is not None]
    if len(chosen) > MAX_NAMED:
        focus.selected_cells = format_ranges(sorted(map(snapshot.index, chosen)))
    elif chosen:
        focus.selected_cells = ",".join(f"@{snapshot.short_key(cell)}" for cell in chosen)
    active = snapshot.get(seen.cell or "")
    if active is not None:
        focus.cell, focus.index = snapshot.short_key(active), snapshot.index(active)
        focus.execution_count = active.execution_count
        focus.first_line = active.first_line[:100]
        if seen.text:
            focus.selected_text = shorten(seen.text, context.workspace.limits.answer_budget).text
            first, last = seen.first_line, seen.last_line
            focus.lines = f"{first}" if first == last else f"{first}-{last}"
    return focus


async def person_focus(context: ToolContext) -> PersonFocus:
    """Return the focus of the caller's person.

    Raises:
        NotebookNotOpen: They have no notebook open.
        ToolError: The notebook cannot be read.
    """
    tab = context.workspace.active_tab(context.caller)
    return focus_in(context, tab, await (await context.workspace.store.open(tab.path)).read())


class CellShown(Result):
    """The cell that is marked for the person."""

    notebook: str
    cell: str
    index: int

    def as_text(self) -> str:
        return f"The person sees a mark at cell {self.index} @{self.cell} of {self.notebook}."


@tool("READ", command="show cell")
async def show_cell(context: ToolContext, cell: Address, notebook: Notebook = None) -> CellShown:
    """Point the person to a cell of an open notebook."""
    workspace, caller = context.workspace, context.caller
    document = await workspace.open(caller, notebook, tool="show_cell")
    snapshot = await document.read()
    found = snapshot.cell(cell)
    if all(tab.path != document.path for tab in workspace.store.pages.looked_at(caller.user)):
        raise NotebookNotOpen(
            f"The person does not have {document.path} open in JupyterLab.",
            hint="Ask them to open it, or name the cell in your answer.",
        )
    workspace.activity.publish(workspace.by_path.at(document.path), caller, "shown", [found.key])
    return CellShown(
        notebook=document.path, cell=snapshot.short_key(found), index=snapshot.index(found)
    )
