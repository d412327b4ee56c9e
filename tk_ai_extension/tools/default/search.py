"""The tool that searches cells."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.model.errors import NotebookNotFound, ToolError
from tk_ai_extension.notebooks.base import NotebookDocument
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.output_presentation import digested
from tk_ai_extension.tools.registry import tool
from tk_ai_extension.tools.results import Result
from tk_ai_extension.workspace import editing
from tk_ai_extension.workspace.files import Walk, some_of
from tk_ai_extension.workspace.patterns import Pattern

MAX_LINE = 200
"""Maximum characters of a line that are shown. A one-line cell that fits counts as read."""


class Match(BaseModel):
    """A matching line."""

    notebook: str
    cell: str
    index: int
    where: Literal["source", "outputs"]
    line: int
    """The line's number, from 1, in the source or in the text of the outputs."""
    text: str


class SearchResult(Result):
    """The matching lines."""

    matches: list[Match]
    truncated: bool = False

    def as_text(self) -> str:
        lines = [
            f"{m.notebook} {m.index} @{m.cell}{' output' if m.where == 'outputs' else ''}:{m.line}: {m.text}"
            for m in self.matches
        ]
        if self.truncated:
            lines.append("[more: use a narrower pattern or a larger limit]")
        return "\n".join(lines) or "No matches."


@tool("READ", command="search pattern")
async def search_cells(
    context: ToolContext,
    pattern: Annotated[str, Field(min_length=1, description="regex")],
    notebook: Annotated[
        str | None,
        Field(
            description="path or name, or a folder, searched recursively (default: the current one)"
        ),
    ] = None,
    where: Literal["source", "outputs"] = "source",
    limit: Annotated[int, Field(ge=1, le=1000)] = 50,
) -> SearchResult:
    """Search the sources or outputs of notebooks. Returns matching cells and lines."""
    wanted = Pattern(pattern)
    workspace, caller = context.workspace, context.caller
    matches: list[Match] = []
    paths, walk = await _searched(context, notebook)
    unread: list[str] = []
    for path in paths:
        try:
            document = await workspace.store.open(path, read_only=walk is not None)
            snapshot = await workspace.read(document)
        except ToolError as error:
            if walk is None:
                raise
            if not isinstance(error, NotebookNotFound):  # It was deleted meanwhile.
                unread.append(f"`{path}`")
            continue
        for cell in snapshot.cells:
            text = await _searched_text(document, cell, where)
            found = await asyncio.to_thread(_matches, snapshot, cell, text, wanted, where)
            if where == "source" and found and _is_shown_whole(cell):
                editing.mark_seen(workspace, caller, snapshot, [cell])
            matches += found
            if len(matches) > limit:
                break
        if len(matches) > limit:
            break
    notices = [] if walk is None else walk.left_out
    if unread:
        notices.append(f"Notebooks that cannot be read were left out: {some_of(unread)}.")
    return SearchResult(matches=matches[:limit], truncated=len(matches) > limit, notices=notices)


async def _searched_text(
    document: NotebookDocument, cell: Cell, where: Literal["source", "outputs"]
) -> str:
    if where == "source":
        return cell.source
    if not cell.outputs.count:
        return ""
    return (await digested(await document.outputs(cell.key))).text


def _is_shown_whole(cell: Cell) -> bool:
    return "\n" not in cell.source and len(cell.source) <= MAX_LINE


def _matches(
    snapshot: Snapshot,
    cell: Cell,
    text: str,
    wanted: Pattern,
    where: Literal["source", "outputs"],
) -> list[Match]:
    return [
        Match(
            notebook=snapshot.path,
            cell=snapshot.short_keys[cell.key],
            index=cell.index,
            where=where,
            line=number,
            text=line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}…",
        )
        for number, line in enumerate(text.split("\n"), 1)
        if wanted.found_in(line)
    ]


async def _searched(context: ToolContext, notebook: str | None) -> tuple[list[str], Walk | None]:
    """Return the paths of the notebooks to search, and the walk that found them in a folder."""
    workspace, caller = context.workspace, context.caller
    managed = workspace.notebooks.resolve(caller, notebook)
    if managed is not None or notebook is None or notebook.endswith(".ipynb"):
        return [workspace.path(caller, notebook, tool="search_cells")], None
    walk = Walk(workspace.files, notebook, recursive=True)
    return [entry.path async for entry in walk if entry.kind == "notebook"], walk
