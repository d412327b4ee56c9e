"""Tools that list and read files, and read outputs that were too long to show."""

from __future__ import annotations

import asyncio
import fnmatch
from typing import Annotated

from pydantic import BaseModel, Field

from tk_ai_extension.tools.registry import Result, ToolContext, tool
from tk_ai_extension.workspace.artifacts import ArtifactPage, page_of
from tk_ai_extension.workspace.files import FolderWalk, read_as_text
from tk_ai_extension.workspace.timed_patterns import TimedPattern

PAGE_LINES = 200


class FileItem(BaseModel):
    """A file, notebook or folder."""

    path: str
    kind: str
    size: int | None = None


class FileList(Result):
    """The files in a folder."""

    files: list[FileItem]
    more: int = 0

    def as_text(self) -> str:
        lines = [
            f"{item.path}/" if item.kind == "directory" else f"{item.path}  {item.size or 0:,} B"
            for item in self.files
        ]
        if self.more:
            lines.append(f"[{self.more} more: use a larger limit, a pattern or a narrower path]")
        return "\n".join(lines) or "No files."


@tool("READ", command="files path")
async def list_files(
    context: ToolContext,
    path: str = "",
    pattern: Annotated[
        str | None, Field(description="such as `*.csv`; searches subfolders too")
    ] = None,
    limit: Annotated[int, Field(ge=1, le=5000)] = 200,
) -> FileList:
    """List files and folders."""
    walk = FolderWalk(context.workspace.files, path, recursive=pattern is not None)
    found = [
        entry
        async for entry in walk
        if pattern is None
        or fnmatch.fnmatch(entry.path, pattern)
        or fnmatch.fnmatch(entry.path.rsplit("/", 1)[-1], pattern)
    ]
    items = [FileItem(path=e.path, kind=e.kind, size=e.size) for e in found[:limit]]
    return FileList(files=items, more=max(len(found) - limit, 0), notices=walk.left_out)


class TextPage(Result):
    """A page of lines of a text."""

    source: str
    """The path, or the artifact's id."""
    content: str
    offset: int
    """The number of the first line, from 0."""
    next_offset: int | None = None
    total_lines: int

    def as_text(self) -> str:
        if self.next_offset is None:
            return self.content
        more = f"[next: offset={self.next_offset}, of {self.total_lines:,} lines]"
        return f"{self.content}\n{more}"


Offset = Annotated[int, Field(ge=0, description="first line, from 0")]
Limit = Annotated[int, Field(ge=1, le=5000)]
Grep = Annotated[str | None, Field(description="only lines that match this regex, numbered")]


@tool("READ", command="cat path")
async def read_file(
    context: ToolContext,
    path: str,
    offset: Offset = 0,
    limit: Limit = PAGE_LINES,
    grep: Grep = None,
) -> TextPage:
    """Read a text file in pages."""
    text = await read_as_text(context.workspace.files, path)
    pattern = None if grep is None else TimedPattern(grep)
    page = await asyncio.to_thread(page_of, text, offset=offset, limit=limit, pattern=pattern)
    return _page(path, page)


@tool("READ", command="output artifact")
async def read_output(
    context: ToolContext,
    artifact: str,
    offset: Offset = 0,
    limit: Limit = PAGE_LINES,
    grep: Grep = None,
) -> TextPage:
    """Read the whole of a shortened output in pages."""
    page = await context.workspace.artifacts.read(
        context.caller.user, artifact, offset=offset, limit=limit, grep=grep
    )
    return _page(artifact, page)


def _page(source: str, page: ArtifactPage) -> TextPage:
    return TextPage(
        source=source,
        content=page.text,
        offset=page.offset,
        next_offset=page.next_offset,
        total_lines=page.total_lines,
    )
