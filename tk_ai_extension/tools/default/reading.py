"""Tools that read notebooks: a list of cells, one cell, or the whole notebook."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from tk_ai_extension.model import cell_marked_text
from tk_ai_extension.model.cells import Cell, OutputsSummary, Snapshot, counted
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.model.index_ranges import format_ranges
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.output_text import few_lines, shorten
from tk_ai_extension.notebooks.document import NotebookDocument
from tk_ai_extension.notebooks.notebook import CellState, states
from tk_ai_extension.tools.edit_plans import select
from tk_ai_extension.tools.parameter_types import Address, MaybeRanges, Notebook
from tk_ai_extension.tools.registry import Result, ToolContext, tool
from tk_ai_extension.tools.run_plans import digested, present
from tk_ai_extension.workspace import editing

LINE = 100
"""Maximum characters of a first line in a list."""
READ_BUDGET = 40_000
"""Default maximum characters of a notebook in one result."""
BESIDE = 20
"""Characters that a cell counts in addition to its text, for its marker."""
MAX_BUDGET = 1_000_000_000
"""More characters than any notebook has."""


def cell_states(
    context: ToolContext, snapshot: Snapshot, cells: Iterable[Cell] | None = None
) -> dict[str, CellState]:
    """Return the states of all code cells, or of the given ones, by key."""
    workspace = context.workspace
    notebook = workspace.by_path.at(snapshot.path)
    running = {
        step.cell
        for run in workspace.executions.active(notebook=notebook)
        for step in run.steps
        if step.cell and step.status in ("queued", "running")
    }
    return states(snapshot, notebook.last_runs.by_cell(), running, cells=cells)


class CellLine(BaseModel):
    """A cell in a list."""

    index: int
    cell: str
    cell_type: str
    execution_count: int | None = None
    state: CellState | None = None
    first_line: str
    lines: int
    address: str | None = None
    """Its versioned address, if the line shows the whole source."""
    outputs: int = 0
    output_size: int = 0
    output_types: list[str] = Field(default_factory=list)


class CellList(Result):
    """A notebook's cells, one line each."""

    notebook: str
    total_cells: int
    start: int
    cells: list[CellLine]
    warnings: list[str] = Field(default_factory=list)

    def as_text(self) -> str:
        lines = [f"{self.notebook}: {counted(self.total_cells)}"]
        lines += [f"Warning: {warning}" for warning in self.warnings]
        lines += [_line(cell) for cell in self.cells]
        end = self.start + len(self.cells)
        if end < self.total_cells:
            lines.append(f"[{self.total_cells - end} more: start={end}]")
        return "\n".join(lines)


def _line(cell: CellLine) -> str:
    count = f" [{cell.execution_count}]" if cell.execution_count is not None else ""
    state = f" {cell.state}" if cell.state else ""
    more = f" (+{cell.lines - 1} lines)" if cell.lines > 1 else ""
    outputs = (
        f" -> {cell.output_size:,} chars {'+'.join(cell.output_types)}" if cell.outputs else ""
    )
    name = f"{cell.index} @{cell.address or cell.cell} {cell.cell_type}"
    return f"{name}{count}{state}: {cell.first_line}{more}{outputs}"


@tool("READ", command="cells notebook")
async def list_cells(
    context: ToolContext,
    notebook: Notebook = None,
    start: Annotated[int, Field(ge=0)] = 0,
    limit: Annotated[int, Field(ge=1, le=2000)] = 200,
) -> CellList:
    """List cells, one line each: index, id, type, count, state, first line, outputs. States: fresh,
    edited since it ran, stale (a dependency changed), never run in this kernel, running, error.
    """
    workspace, caller = context.workspace, context.caller
    document = await workspace.open(caller, notebook, tool="list_cells")
    snapshot = await workspace.read(document)
    shown = snapshot.cells[start : start + limit]
    state = cell_states(context, snapshot, shown)
    short = snapshot.short_keys
    # These lines show the whole source, so the cells count as read.
    whole = {cell.key: cell for cell in shown if cell.source == cell.first_line[:LINE]}
    editing.mark_seen(workspace, caller, snapshot, whole.values())
    return CellList(
        notebook=document.path,
        total_cells=len(snapshot.cells),
        start=start,
        warnings=list(snapshot.warnings),
        cells=[
            CellLine(
                index=index,
                cell=short[cell.key],
                cell_type=cell.type,
                execution_count=cell.execution_count,
                state=state.get(cell.key),
                first_line=cell.first_line
                if len(cell.first_line) <= LINE
                else f"{cell.first_line[:LINE]}…",
                lines=cell.source.count("\n") + 1,
                address=f"{short[cell.key]}.{cell.version}" if cell.key in whole else None,
                outputs=cell.outputs.count,
                output_size=cell.outputs.size,
                output_types=_kinds(cell.outputs) if cell.outputs.count else [],
            )
            for index, cell in enumerate(shown, start)
        ],
    )


def _kinds(outputs: OutputsSummary) -> list[str]:
    names = {"stdout": "text", "stderr": "stderr", "text/plain": "text", "error": "error"}
    kinds = dict.fromkeys(names.get(mime, mime.rsplit("/", 1)[-1]) for mime in outputs.mimes)
    return (
        list(kinds) if len(kinds) == 1 else [kind for kind in kinds if kind != "text"] or ["text"]
    )


class CellRead(Result):
    """A cell with its source and outputs."""

    notebook: str
    cell: str
    index: int
    address: str
    cell_type: str
    source: str
    execution_count: int | None = None
    state: CellState | None = None
    output_count: int = 0
    output: str | None = None
    artifact: str | None = None
    data: list[Any] = Field(default_factory=list)
    """The values of its ``application/json`` outputs."""

    def as_text(self) -> str:
        count = f" [{self.execution_count}]" if self.execution_count is not None else ""
        state = f" {self.state}" if self.state else ""
        head = f"@{self.address} cell {self.index} {self.cell_type}{count}{state}"
        if self.output is None:
            return f"{head}\n{self.source}"
        return f"{head}\n{self.source}\n--- outputs: {self.output_count} ---\n{self.output}"


@tool("READ", command="cell cell")
async def read_cell(
    context: ToolContext, cell: Address, notebook: Notebook = None, outputs: bool = True
) -> CellRead:
    """Read a cell: its source, and its outputs, shortened if long."""
    workspace, caller = context.workspace, context.caller
    document = await workspace.open(caller, notebook, tool="read_cell")
    snapshot = await workspace.read(document)
    found, _ = snapshot.find(cell)
    result = CellRead(
        notebook=document.path,
        cell=found.key,
        index=snapshot.index(found),
        address=snapshot.address(found),
        cell_type=found.type,
        source=found.source,
        execution_count=found.execution_count,
        state=cell_states(context, snapshot, [found]).get(found.key),
        output_count=found.outputs.count,
    )
    if outputs and found.outputs.count:
        stored = await document.outputs(found.key)
        presented = await present(context, stored)
        result.output, result.artifact = presented.text, presented.artifact
        result.data = list(presented.data)
        result.with_images(presented.images)
    # A call that failed before this shows no source.
    editing.mark_seen(workspace, caller, snapshot, [found])
    return result


class NotebookRead(Result):
    """A notebook as text."""

    notebook: str
    revision: str
    view: str
    text: str
    total_cells: int
    cells: list[str]
    """The ids of the cells in the text."""
    next_range: str | None = None
    artifact: str | None = None
    """The whole text, if `text` is shortened within a cell and is not JSON."""
    warnings: list[str] = Field(default_factory=list)

    def as_text(self) -> str:
        warnings = "".join(f"{cell_marked_text.WARNING}{warning}\n" for warning in self.warnings)
        more = (
            f"\n{cell_marked_text.MORE_CELLS}cells={self.next_range!r}]" if self.next_range else ""
        )
        return f"{warnings}{self.text.removesuffix(chr(10)) if more else self.text}{more}"


@tool("READ", command="read notebook")
async def read_notebook(
    context: ToolContext,
    notebook: Notebook = None,
    view: Annotated[
        Literal["editable", "reading", "raw"],
        Field(description="sources, for write_notebook; sources and short outputs; JSON"),
    ] = "editable",
    cells: MaybeRanges = None,
    lines: Annotated[
        str | None, Field(description="of the text, such as `10-20,31`; not for writing back")
    ] = None,
    budget: Annotated[int, Field(ge=500, le=MAX_BUDGET, description="characters")] = READ_BUDGET,
) -> NotebookRead:
    """Read a notebook as text with cell markers (`# %% [code] @id`)."""
    workspace, caller = context.workspace, context.caller
    document = await workspace.open(caller, notebook, tool="read_notebook")
    snapshot = await workspace.read(document)
    chosen = list(snapshot.cells) if cells is None else select(snapshot, cells)
    if view == "raw":
        if lines is not None:
            raise InvalidArguments("`lines` cannot be used with the raw view.")
        return await _raw(context, document, snapshot, chosen, budget)
    if view == "editable":
        shown = _within(chosen, lambda cell: cell.source, budget)
        partial = len(shown) < len(snapshot.cells)
        content = cell_marked_text.render(
            snapshot, [*map(snapshot.index, shown)] if partial else None
        )
    else:
        texts = await _readings(document, chosen, budget)
        shown = chosen[: len(texts)]
        content = _reading_text(context, snapshot, shown, texts)
    if lines is None:
        editing.mark_seen(workspace, caller, snapshot, shown)
    else:
        # Parts of cells: they do not count as read, and cannot be written back.
        content, shown = cell_marked_text.select_lines(content, lines), []
    return NotebookRead(
        notebook=document.path,
        revision=snapshot.revision,
        view=view,
        text=content,
        total_cells=len(snapshot.cells),
        cells=[cell.key for cell in shown],
        next_range=_next_range(snapshot, chosen, shown) if lines is None else None,
        warnings=list(snapshot.warnings),
    )


def _within(chosen: list[Cell], text_of: Callable[[Cell], str], budget: int) -> list[Cell]:
    """Return the first cells with texts that fit the budget, at least one."""
    spent = 0
    for position, cell in enumerate(chosen):
        spent += len(text_of(cell)) + BESIDE
        if spent > budget and position > 0:
            return chosen[:position]
    return chosen


def _next_range(snapshot: Snapshot, chosen: list[Cell], shown: list[Cell]) -> str | None:
    """Return the range of the requested cells that are not shown; None if all are."""
    rest = [*map(snapshot.index, chosen[len(shown) :])]
    if rest and len(rest) == len(snapshot.cells) - rest[0]:
        return f"{rest[0]}-"
    return format_ranges(rest) or None


OUTPUT_MARK = "#> "


_SHORT = "_short_outputs"
"""The key under which a `Cell` caches the text of its outputs."""


async def _readings(document: NotebookDocument, cells: list[Cell], budget: int) -> list[str]:
    """Return the texts of the first cells in the reading view that fit the budget, at least one."""
    texts: list[str] = []
    spent = 0
    for cell in cells:
        text = cell.source
        if cell.outputs.count and (outputs := await _short_outputs(document, cell)):
            text = f"{text}\n{outputs}" if text else outputs
        spent += len(text) + BESIDE
        if spent > budget and texts:
            break
        texts.append(text)
    return texts


async def _short_outputs(document: NotebookDocument, cell: Cell) -> str:
    """Return a cell's outputs in a few lines.

    Documents create a new `Cell` when the stored cell or its outputs change, so the text can be
    cached on the cell.
    """
    known: str | None = vars(cell).get(_SHORT)
    if known is None:
        short = few_lines((await digested(await document.outputs(cell.key))).text)
        known = "\n".join(
            f"{OUTPUT_MARK}{line}".rstrip() for line in shorten(short, 1_200).text.split("\n")
        )
        vars(cell)[_SHORT] = known
    return known


def _reading_text(
    context: ToolContext,
    snapshot: Snapshot,
    shown: list[Cell],
    texts: list[str],
) -> str:
    state = cell_states(context, snapshot, shown)
    partial = len(shown) < len(snapshot.cells)
    span = f" cells:{format_ranges([*map(snapshot.index, shown)])}" if partial else ""
    parts = [
        f"# notebook {snapshot.path} rev:{snapshot.revision}{span}; outputs after {OUTPUT_MARK.strip()}"
    ]
    for cell, text in zip(shown, texts, strict=True):
        notes = cell.prompt
        if (known := state.get(cell.key, "never")) not in ("fresh", "never"):
            notes += f" {known}"
        parts += [f"{cell_marked_text.marker(snapshot, cell)}{notes}", text]
    return "\n".join(parts)


async def _raw(
    context: ToolContext,
    document: NotebookDocument,
    snapshot: Snapshot,
    chosen: list[Cell],
    budget: int,
) -> NotebookRead:
    notebook = await document.raw()
    stored: list[Json] | None = notebook.get("cells")
    shown = chosen
    if stored is not None:
        # Encode cell by cell, and only those that are shown.
        shown = await asyncio.to_thread(
            _within,
            chosen,
            lambda cell: _encoded({"cells": [stored[snapshot.index(cell)]]}),
            budget,
        )
        notebook = {**notebook, "cells": [stored[snapshot.index(cell)] for cell in shown]}
    content = await asyncio.to_thread(_encoded, notebook)
    whole: str | None = None
    if len(content) > budget + _BESIDE_CELLS:
        artifact = await context.workspace.artifacts.write(
            context.caller.user, content, mime="application/json"
        )
        content = shorten(content, budget, pointer=f"; read_output {artifact.id}").text
        whole = artifact.id
    return NotebookRead(
        notebook=document.path,
        revision=snapshot.revision,
        view="raw",
        text=content,
        total_cells=len(snapshot.cells),
        cells=[cell.key for cell in shown],
        next_range=_next_range(snapshot, chosen, shown),
        artifact=whole,
        warnings=list(snapshot.warnings),
    )


_BESIDE_CELLS = 2_000
"""Maximum characters of a notebook apart from its cells, before the result is shortened."""


def _encoded(value: Json) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)
