"""Apply several edits in one call, and optionally run the changed cells."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeVar

from pydantic import BaseModel, Field

from tk_ai_extension.model.cell_operations import Delete, Move, Operation, Replace
from tk_ai_extension.model.cells import Cell, CellData, Snapshot, source_hash
from tk_ai_extension.model.errors import CellNotFound, Conflict, InvalidArguments, ToolError
from tk_ai_extension.notebooks.computed_edit import anchored
from tk_ai_extension.tools.edit_plans import (
    CellsChanged,
    EditPlan,
    cells_changed,
    insertion,
    plan_edit,
    replaced,
)
from tk_ai_extension.tools.parameter_types import CellKind, MaybeAddress, Notebook, Wait
from tk_ai_extension.tools.registry import ToolContext, tool
from tk_ai_extension.tools.run_plans import (
    CellRun,
    code_of,
    follow,
    kernel_for,
    start_steps,
    steps_of,
)
from tk_ai_extension.workspace import editing
from tk_ai_extension.workspace.undo import inverse_operations, read_compared

T = TypeVar("T")


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


FIELDS: Final = {
    "insert": ("source", "cell_type", "index", "after", "before"),
    "overwrite": ("cell", "source", "cell_type"),
    "edit": ("cell", "old", "new", "cell_type"),
    "delete": ("cell",),
    "move": ("cell", "to"),
}
"""The fields of each action."""


class CellsEdited(CellsChanged):
    """The result of several operations and, on request, of running the changed cells."""

    execution_id: str | None = None
    status: str | None = None
    runs: list[CellRun] = Field(default_factory=list[CellRun])
    rolled_back: bool = False
    left: list[str] = Field(default_factory=list[str])
    """Why some changes could not be undone after an error."""

    @property
    def is_error(self) -> bool:
        return self.status not in (None, "ok", "queued", "running")

    def as_text(self) -> str:
        parts = [super().as_text()]
        parts += [
            f"Ran @{run.cell}: {run.status}" + (f"\n{run.output}" if run.output else "")
            for run in self.runs
        ]
        if self.rolled_back or self.left:
            parts.append(f"A cell failed. {_undone(self.left)}")
        elif self.status in ("queued", "running"):
            parts.append(
                f'Still {self.status}: follow it with wait_execution("{self.execution_id}"). '
                "A later failure does not undo the changes."
            )
        return "\n".join(parts)


def _edits_effect(arguments: BaseModel) -> Literal["WRITE", "EXECUTE"]:
    return "EXECUTE" if getattr(arguments, "run", False) else "WRITE"


async def _carry_out(context: ToolContext, edit: EditPlan, tool: str) -> CellsEdited:
    """Apply the edit and, on request, run the changed cells; undo the edit if one fails."""
    workspace, path = context.workspace, edit.document.path
    # Get the kernel first: if it does not start, nothing is changed.
    kernel_id = (await kernel_for(context, edit.document.path))[0] if edit.run else None
    applied = await editing.apply(
        workspace, context.caller, edit.document, edit.operations, tool=tool
    )
    result = CellsEdited(**dict(cells_changed(applied)))
    cells = code_of(applied)
    if kernel_id is None or not cells:
        return result
    try:
        steps = steps_of(applied.snapshot, cells)
        begun = start_steps(context, path, kernel_id, steps, tool=tool)
        execution = await follow(context, begun, edit.wait)
    except ToolError as error:
        # The run was not queued, or a cell was deleted while it waited in the queue.
        left = await _roll_back(context, path, applied)
        message = f"{error.message} {_undone(left)}"
        raise type(error)(message, hint=error.hint, **{**error.details, "left": left}) from error
    result.execution_id, result.status = execution.execution_id, execution.status
    result.runs, result.notices = execution.runs, execution.notices
    result.with_images(execution.images)
    if result.is_error:
        result.left = await _roll_back(context, path, applied)
        result.rolled_back = not result.left
        with suppress(ToolError):  # `left` has the reason.
            result.total_cells = len((await (await workspace.store.open(path)).read()).cells)
    return result


@tool(
    "WRITE",
    destructive=True,
    effect_of=_edits_effect,
    carry_out=_carry_out,
    command="apply operations",
)
async def edit_cells(
    context: ToolContext,
    operations: Annotated[list[CellOperation], Field(min_length=1, max_length=200)],
    run: Annotated[
        bool, Field(description="run changed cells; undo all edits if one fails")
    ] = False,
    notebook: Notebook = None,
    wait: Wait = 30,
) -> EditPlan:
    """Apply several operations in order, all or none. Use the addresses from before the call; each
    operation sees the sources that those before it leave.
    """
    document = await context.workspace.open(context.caller, notebook, tool="edit_cells")
    snapshot = await document.read()
    batch = _Batch(context, snapshot)
    planned = [batch.plan(operation, number) for number, operation in enumerate(operations)]
    return plan_edit(context, document, snapshot, *planned, run=run, wait=wait)


def _undone(left: Sequence[str]) -> str:
    if not left:
        return "All changes were undone."
    return f"Some changes could not be undone. {' '.join(left)}"


async def _roll_back(context: ToolContext, path: str, applied: editing.JournaledEdit) -> list[str]:
    """Undo the changes, even if others edit the notebook concurrently; return the reasons if some stay."""
    why = ""
    # A cell that is edited between plan and commit keeps its change in the next plan.
    for _ in range(len(applied.changes) + 1):
        try:
            return await _try_roll_back(context, path, applied)
        except (Conflict, CellNotFound, InvalidArguments) as error:
            why = error.message
        except ToolError as error:
            return [f"The undo failed: {error.message}"]
    return [f"The undo failed: {why}"]


async def _try_roll_back(
    context: ToolContext, path: str, applied: editing.JournaledEdit
) -> list[str]:
    """Undo the changes of cells that were not edited since; return the reasons why others stay.

    Raises:
        Conflict, CellNotFound, InvalidArguments: The notebook changed during the undo; nothing was undone.
        ToolError: Any other error of the notebook.
    """
    workspace = context.workspace
    document = await workspace.store.open(path)
    snapshot = await document.read()
    outputs = await read_compared(document, applied.changes, snapshot)
    operations, left, undone = inverse_operations(applied.changes, snapshot, outputs)
    await editing.undo(
        workspace,
        context.caller,
        document,
        anchored(snapshot, operations),
        {applied.entry: undone} if undone else {},
        tool="edit_cells",
        summary="rolled back after an error",
        shown=False,
    )
    return left


@dataclass(frozen=True, slots=True)
class _Touched:
    """A cell that an operation of the batch changes or deletes.

    Attributes:
        by: The operation, for messages.
        source: The source after it; None if it deletes the cell.
    """

    by: str
    source: str | None


class _Batch:
    """Plans operations in order: each one sees the sources after the preceding ones.

    Args:
        context: The context of the call.
        snapshot: The notebook before the call, in which all addresses are resolved.
    """

    def __init__(self, context: ToolContext, snapshot: Snapshot) -> None:
        self._context, self._snapshot = context, snapshot
        self._touched: dict[str, _Touched] = {}

    def plan(self, operation: CellOperation, number: int) -> Operation:
        """Return the planned operation.

        Raises:
            InvalidArguments: It lacks a field, has a foreign one, or contradicts an earlier operation.
            CellNotFound, Conflict: See `Snapshot.find` and `editing.expected_hash`.
        """
        name, snapshot = f"{number} ({operation.action})", self._snapshot
        _check_fields(operation, name)
        if operation.action == "insert":
            return self._insert(operation, name)
        if operation.action == "move":
            cell = snapshot.cell(_given(operation.cell, "cell", name))
            self._earlier(cell, name)
            return Move(cell.key, _given(operation.to, "to", name))
        return self._write(operation, name)

    def _insert(self, operation: CellOperation, name: str) -> Operation:
        for address in (operation.after, operation.before):
            if address is not None:
                self._earlier(self._snapshot.cell(address), name)
        content = CellData(operation.cell_type or "code", _given(operation.source, "source", name))
        return insertion(
            self._snapshot,
            content,
            index=operation.index,
            after=operation.after,
            before=operation.before,
        )

    def _write(self, operation: CellOperation, name: str) -> Operation:
        """Return the replacement or deletion of a cell, after the preceding operations."""
        cell, version = self._snapshot.find(_given(operation.cell, "cell", name))
        expect = editing.expected_hash(
            self._context.workspace, self._context.caller, self._snapshot, cell, version
        )
        earlier = self._earlier(cell, name)
        before, where = cell.source, f"Operation {name}: cell @{cell.key}"
        if earlier is not None and earlier.source is not None:
            before, expect = earlier.source, source_hash(earlier.source)
            where += f", as operation {earlier.by} leaves it,"
        if operation.action == "delete":
            self._touched[cell.key] = _Touched(name, None)
            return Delete(cell.key, expect)
        if operation.action == "edit":
            old, new = _given(operation.old, "old", name), _given(operation.new, "new", name)
            source = replaced(before, where, old, new, replace_all=False)
        elif earlier is None:
            source = _given(operation.source, "source", name)
        else:
            raise InvalidArguments(
                f"Operation {name} would discard operation {earlier.by} of the same cell.",
                hint="Give the cell's final source in one operation, or use `edit`.",
            )
        self._touched[cell.key] = _Touched(name, source)
        return Replace(cell.key, source, operation.cell_type, expect=expect)

    def _earlier(self, cell: Cell, name: str) -> _Touched | None:
        """Return the effect of the preceding operations on a cell.

        Raises:
            InvalidArguments: One of them deletes it.
        """
        touched = self._touched.get(cell.key)
        if touched is not None and touched.source is None:
            raise InvalidArguments(
                f"Operation {name} names cell @{cell.key}, which operation {touched.by} deletes.",
                hint="Remove one of them, or change their order.",
            )
        return touched


def _check_fields(operation: CellOperation, name: str) -> None:
    fields = FIELDS[operation.action]
    if foreign := operation.model_dump(exclude_none=True).keys() - {"action", *fields}:
        raise InvalidArguments(
            f"Operation {name} does not take "
            f"{', '.join(f'`{field}`' for field in sorted(foreign))}.",
            hint=f"It takes {', '.join(f'`{field}`' for field in fields)}.",
        )


def _given(value: T | None, field: str, name: str) -> T:
    if value is None:
        raise InvalidArguments(f"Operation {name} needs `{field}`.")
    return value
