"""Changing cells."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from tk_ai_extension.model.cells import Cell, CellContent, Snapshot
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.model.operations import (
    Delete,
    Insert,
    Move,
    Operation,
    Replace,
    SetOutputs,
)
from tk_ai_extension.notebooks.base import NotebookDocument
from tk_ai_extension.tools.addressing import insertion, select
from tk_ai_extension.tools.changes import CellsChanged, changed_cell
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.following import CellRun, follow
from tk_ai_extension.tools.parameters import Address, CellKind, MaybeAddress, MaybeRanges, Notebook
from tk_ai_extension.tools.registry import tool
from tk_ai_extension.workspace import editing
from tk_ai_extension.workspace.executions import Step
from tk_ai_extension.workspace.undo import inverse


async def _apply(
    context: ToolContext, document: NotebookDocument, operations: list[Operation], tool: str
) -> CellsChanged:
    applied = await editing.apply(
        context.workspace, context.caller, document, operations, tool=tool
    )
    return CellsChanged(
        notebook=document.path,
        total_cells=len(applied.snapshot.cells),
        changes=[changed_cell(applied.snapshot, change) for change in applied.changes],
    )


async def _seen(
    context: ToolContext, document: NotebookDocument, address: str | int
) -> tuple[Snapshot, Cell, str]:
    """The cell, and the source hash that it must still have; the caller must have seen it."""
    snapshot = await document.read()
    cell, version = snapshot.find(address)
    return (
        snapshot,
        cell,
        editing.expected(context.workspace, context.caller, snapshot, cell, version),
    )


@tool("WRITE")
async def insert_cell(
    context: ToolContext,
    source: str,
    cell_type: CellKind = "code",
    index: int | None = None,
    after: MaybeAddress = None,
    before: MaybeAddress = None,
    notebook: Notebook = None,
) -> CellsChanged:
    """Inserts a cell at an index, after or before a cell, else at the end."""
    document = await context.workspace.open(context.caller, notebook, tool="insert_cell")
    content = CellContent(cell_type, source)
    operation = insertion(await document.read(), content, index=index, after=after, before=before)
    return await _apply(context, document, [operation], "insert_cell")


@tool("WRITE", destructive=True, idempotent=True)
async def overwrite_cell(
    context: ToolContext,
    cell: Address,
    source: str,
    cell_type: CellKind | None = None,
    keep_outputs: bool = False,
    notebook: Notebook = None,
) -> CellsChanged:
    """Replaces a cell's source; a code cell's outputs are cleared unless kept. Answers with a diff.
    You must have read the cell, or give its versioned address.
    """
    document = await context.workspace.open(context.caller, notebook, tool="overwrite_cell")
    _, found, expect = await _seen(context, document, cell)
    operation = Replace(found.key, source, cell_type, keep_outputs, expect)
    return await _apply(context, document, [operation], "overwrite_cell")


@tool("WRITE")
async def edit_cell(
    context: ToolContext,
    cell: Address,
    old: str,
    new: str,
    replace_all: bool = False,
    notebook: Notebook = None,
) -> CellsChanged:
    """Replaces a string in a cell's source; `old` must occur once unless replace_all."""
    document = await context.workspace.open(context.caller, notebook, tool="edit_cell")
    _, found, expect = await _seen(context, document, cell)
    source = replaced(found, old, new, replace_all=replace_all)
    operation = Replace(found.key, source, None, keep_outputs=False, expect=expect)
    return await _apply(context, document, [operation], "edit_cell")


def replaced(cell: Cell, old: str, new: str, *, replace_all: bool) -> str:
    """The cell's source with ``old`` replaced.

    Raises:
        InvalidArguments: ``old`` is empty, not there, or there more than once.
    """
    count = cell.source.count(old) if old else 0
    if not old:
        raise InvalidArguments(
            "`old` is empty.", hint="Give the text to replace, or use overwrite_cell."
        )
    if count == 0:
        raise InvalidArguments(
            f"`old` is not in cell @{cell.key}.", hint="Read the cell: the text must match exactly."
        )
    if count > 1 and not replace_all:
        raise InvalidArguments(
            f"`old` occurs {count} times in cell @{cell.key}.",
            hint="Give more of the text around it, or replace_all.",
        )
    return cell.source.replace(old, new)


@tool("WRITE", destructive=True)
async def delete_cell(
    context: ToolContext, cell: Address, notebook: Notebook = None
) -> CellsChanged:
    """Deletes a cell; answers with its source. You must have read it, or give its versioned address."""
    document = await context.workspace.open(context.caller, notebook, tool="delete_cell")
    _, found, expect = await _seen(context, document, cell)
    return await _apply(context, document, [Delete(found.key, expect)], "delete_cell")


@tool("WRITE", destructive=True, idempotent=True)
async def clear_outputs(
    context: ToolContext, cells: MaybeRanges = None, all: bool = False, notebook: Notebook = None
) -> CellsChanged:
    """Clears outputs and counts of cells, or of all."""
    if (cells is None) != all:
        raise InvalidArguments("Give either `cells` or `all`.")
    document = await context.workspace.open(context.caller, notebook, tool="clear_outputs")
    snapshot = await document.read()
    chosen = list(snapshot.cells) if cells is None else select(snapshot, cells)
    operations: list[Operation] = [
        SetOutputs(cell.key)
        for cell in chosen
        if cell.type == "code" and (cell.outputs.count or cell.execution_count is not None)
    ]
    return await _apply(context, document, operations, "clear_outputs")


@tool("WRITE", idempotent=True)
async def move_cell(
    context: ToolContext, cell: Address, to: int, notebook: Notebook = None
) -> CellsChanged:
    """Moves a cell; `to` is the index it has afterwards."""
    document = await context.workspace.open(context.caller, notebook, tool="move_cell")
    snapshot = await document.read()
    found, _ = snapshot.find(cell)
    operation = Move(found.key, _position(snapshot, to))
    return await _apply(context, document, [operation], "move_cell")


def _position(snapshot: Snapshot, to: int) -> int:
    count = len(snapshot.cells)
    position = to + count if to < 0 else to
    if not 0 <= position < count:
        raise InvalidArguments(f"`to` {to} is out of range: {snapshot.path} has {count} cells.")
    return position


class CellOperation(BaseModel, extra="forbid"):
    """One operation of `edit_cells`."""

    action: Literal["insert", "overwrite", "edit", "delete", "move"]
    cell: MaybeAddress = None
    source: str | None = None
    cell_type: CellKind | None = None
    index: int | None = None
    after: MaybeAddress = None
    before: MaybeAddress = None
    old: str | None = None
    new: str | None = None
    to: int | None = None


class CellsEdited(CellsChanged):
    """Several operations, and the runs if they were asked for."""

    execution_id: str | None = None
    status: str | None = None
    runs: list[CellRun] = Field(default_factory=list[CellRun])
    rolled_back: bool = False
    left: list[str] = Field(default_factory=list[str])
    """What could not be taken back after an error, and why."""

    @property
    def is_error(self) -> bool:
        return self.status not in (None, "ok", "queued", "running")

    def as_text(self) -> str:
        parts = [super().as_text()]
        parts += [
            f"Ran @{run.cell}: {run.status}" + (f"\n{run.output}" if run.output else "")
            for run in self.runs
        ]
        if self.rolled_back:
            parts.append("A cell failed: all changes were taken back.")
        elif self.left:
            parts.append(
                f"A cell failed: changes were taken back, but not all. {' '.join(self.left)}"
            )
        elif self.status in ("queued", "running"):
            parts.append(
                f'Still {self.status}: wait_execution("{self.execution_id}"); nothing is rolled back later.'
            )
        return "\n".join(parts)


def _edits_effect(arguments: BaseModel) -> Literal["WRITE", "EXECUTE"]:
    return "EXECUTE" if getattr(arguments, "run", False) else "WRITE"


@tool("WRITE", destructive=True, effect_of=_edits_effect)
async def edit_cells(
    context: ToolContext,
    operations: Annotated[list[CellOperation], Field(min_length=1, max_length=200)],
    run: Annotated[
        bool, Field(description="run changed cells; take all back if one fails")
    ] = False,
    notebook: Notebook = None,
) -> CellsEdited:
    """Applies several operations in order, all or none. Addresses are those before the call."""
    workspace, caller = context.workspace, context.caller
    document = await workspace.open(caller, notebook, tool="edit_cells")
    snapshot = await document.read()
    planned = [
        _plan(context, snapshot, operation, position)
        for position, operation in enumerate(operations)
    ]
    if run:
        # Before anything is changed: a kernel that does not start would leave the edit behind.
        await workspace.kernel_for(document)
    applied = await editing.apply(workspace, caller, document, planned, tool="edit_cells")
    result = CellsEdited(
        notebook=document.path,
        total_cells=len(applied.snapshot.cells),
        changes=[changed_cell(applied.snapshot, change) for change in applied.changes],
    )
    touched = {change.cell for change in applied.changes if change.action in ("insert", "replace")}
    cells = [cell for cell in applied.snapshot.cells if cell.key in touched and cell.type == "code"]
    if not run or not cells:
        return result
    kernel_id, _ = await workspace.kernel_for(document)
    path = document.path
    started = workspace.executions.start(
        caller,
        kernel_id,
        [Step(cell.key, cell.index, cell.source) for cell in cells],
        open_document=workspace.store.open,
        path=path,
        tool="edit_cells",
    )
    execution = await follow(context, started, 30)
    result.execution_id, result.status, result.runs = (
        execution.execution_id,
        execution.status,
        execution.runs,
    )
    result.with_images(execution.images)
    if result.is_error:
        result.left = await _roll_back(context, path, applied)
        result.rolled_back = not result.left
        result.total_cells = len((await (await workspace.store.open(path)).read()).cells)
    return result


async def _roll_back(context: ToolContext, path: str, applied: editing.Journalled) -> list[str]:
    """Takes the changes back; returns what stays, since somebody has worked on it, and why."""
    workspace = context.workspace
    document = await workspace.store.open(path)
    operations, left = inverse(applied.changes, await document.read())
    back = await editing.apply(
        workspace,
        context.caller,
        document,
        operations,
        tool="edit_cells",
        summary="rolled back after an error",
        kind="undo",
    )
    if not left:
        await workspace.journal.undone([applied.entry], by=back.entry)
    return left


def _plan(
    context: ToolContext, snapshot: Snapshot, operation: CellOperation, position: int
) -> Operation:
    def need(name: str) -> str:
        value = getattr(operation, name)
        if value is None:
            raise InvalidArguments(f"Operation {position} ({operation.action}) needs `{name}`.")
        return value

    if operation.action == "insert":
        content = CellContent(operation.cell_type or "code", need("source"))
        planned: Insert = insertion(
            snapshot, content, index=operation.index, after=operation.after, before=operation.before
        )
        return planned
    cell, version = snapshot.find(need("cell"))
    if operation.action == "move":
        if operation.to is None:
            raise InvalidArguments(f"Operation {position} (move) needs `to`.")
        return Move(cell.key, _position(snapshot, operation.to))
    expect = editing.expected(context.workspace, context.caller, snapshot, cell, version)
    match operation.action:
        case "overwrite":
            return Replace(cell.key, need("source"), operation.cell_type, expect=expect)
        case "edit":
            source = replaced(cell, need("old"), need("new"), replace_all=False)
            return Replace(cell.key, source, operation.cell_type, expect=expect)
        case "delete":
            return Delete(cell.key, expect)
