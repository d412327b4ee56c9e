"""The tool that searches cells."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.model.errors import NotebookNotFound, ToolError
from tk_ai_extension.notebooks.document import NotebookDocument
from tk_ai_extension.tools.registry import Result, ToolContext, tool
from tk_ai_extension.tools.run_plans import digested
from tk_ai_extension.workspace import editing
from tk_ai_extension.workspace.files import FolderWalk, some_of
from tk_ai_extension.workspace.timed_patterns import TimedPattern

MAX_LINE = 200
"""Maximum characters of a line that are shown. A one-line cell that is shown in full counts as read."""


class SearchMatch(BaseModel):
    """A matching line."""

    notebook: str
    cell: str
    index: int
    where: Literal["source", "outputs"]
    line: int
    """The line's number, from 1, in the source or in the text of the outputs."""
    text: str


@dataclass(frozen=True, slots=True)
class _Found:
    """A match and its cell."""

    match: SearchMatch
    snapshot: Snapshot
    cell: Cell

    @property
    def is_whole(self) -> bool:
        """Whether the match shows the whole source, so that the cell counts as read."""
        return self.match.where == "source" and self.match.text == self.cell.source


class SearchResult(Result):
    """The matching lines."""

    matches: list[SearchMatch]
    truncated: bool = False

    def as_text(self) -> str:
        lines = [
            f"{m.notebook} {m.index} @{m.cell}{' output' if m.where == 'outputs' else ''}:{m.line}: {m.text}"
            for m in self.matches
        ]
        if self.truncated:
            lines.append("[more: use a narrower pattern or a larger limit]")
        return "\n".join(lines) or "No matches."


def _is_folder(context: ToolContext, notebook: str | None) -> bool:
    """Whether an argument names a folder: neither a connected notebook nor the path of one."""
    if notebook is None or notebook.endswith(".ipynb"):
        return False
    return context.workspace.notebooks.resolve(context.caller, notebook) is None


@tool("READ", command="search pattern")
async def search_cells(
    context: ToolContext,
    pattern: Annotated[str, Field(min_length=1, description="regex")],
    notebook: Annotated[
        str | None,
        Field(description="or a folder, searched recursively (default: the current one)"),
    ] = None,
    where: Literal["source", "outputs"] = "source",
    limit: Annotated[int, Field(ge=1, le=1000)] = 50,
) -> SearchResult:
    """Search the sources or outputs of notebooks. Returns matching cells and lines."""
    wanted = TimedPattern(pattern)
    workspace = context.workspace
    found: list[_Found] = []
    paths, walk = await _searched(context, notebook)
    unread: list[str] = []
    for path in paths:
        try:
            document = await workspace.store.open(path)
            snapshot = await workspace.read(document)
        except ToolError as error:
            if walk is None:
                raise
            if not isinstance(error, NotebookNotFound):  # It has since been deleted.
                unread.append(f"`{path}`")
            continue
        for cell in snapshot.cells:
            text = await _searched_text(document, cell, where)
            found += await asyncio.to_thread(_matches, snapshot, cell, text, wanted, where)
            if len(found) > limit:
                break
        if len(found) > limit:
            break
    notices = [] if walk is None else walk.left_out
    if unread:
        notices.append(f"Notebooks that cannot be read were left out: {some_of(unread)}.")
    return _shown(context, found, limit, notices)


def _shown(
    context: ToolContext, found: list[_Found], limit: int, notices: list[str]
) -> SearchResult:
    """Return the result with the first matches. Cells that are shown in full count as read."""
    shown = found[:limit]
    for each in shown:
        if each.is_whole:
            editing.mark_seen(context.workspace, context.caller, each.snapshot, [each.cell])
    return SearchResult(
        matches=[each.match for each in shown], truncated=len(found) > limit, notices=notices
    )


async def _searched_text(
    document: NotebookDocument, cell: Cell, where: Literal["source", "outputs"]
) -> str:
    if where == "source":
        return cell.source
    if not cell.outputs.count:
        return ""
    return (await digested(await document.outputs(cell.key))).text


def _matches(
    snapshot: Snapshot,
    cell: Cell,
    text: str,
    wanted: TimedPattern,
    where: Literal["source", "outputs"],
) -> list[_Found]:
    return [
        _Found(
            SearchMatch(
                notebook=snapshot.path,
                cell=snapshot.short_keys[cell.key],
                index=snapshot.index(cell),
                where=where,
                line=number,
                text=line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}…",
            ),
            snapshot,
            cell,
        )
        for number, line in enumerate(text.split("\n"), 1)
        if wanted.found_in(line)
    ]


async def _searched(
    context: ToolContext, notebook: str | None
) -> tuple[list[str], FolderWalk | None]:
    """Return the paths of the notebooks to search, and the walk that found them in a folder."""
    workspace = context.workspace
    if notebook is None or not _is_folder(context, notebook):
        return [workspace.path(context.caller, notebook, tool="search_cells")], None
    walk = FolderWalk(workspace.files, notebook, recursive=True)
    return [entry.path async for entry in walk if entry.kind == "notebook"], walk
