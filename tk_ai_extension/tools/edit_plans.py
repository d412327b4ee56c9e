"""Plans of edits and of kernel changes, and the execution and results of edits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from pydantic import BaseModel

from tk_ai_extension.model.cell_operations import (
    Change,
    Delete,
    Insert,
    Move,
    Operation,
    Replace,
    SetOutputs,
    expecting,
)
from tk_ai_extension.model.cells import Cell, CellData, CellType, Snapshot, counted, source_hash
from tk_ai_extension.model.diffs import line_diff
from tk_ai_extension.model.errors import CellNotFound, InvalidArguments
from tk_ai_extension.model.index_ranges import parse_index_range, parts_of
from tk_ai_extension.model.proposals import (
    Proposal,
    ProposalCell,
    ProposalKernel,
    ProposalStep,
    diff_lines,
    marked,
)
from tk_ai_extension.model.remote_references import remote_references
from tk_ai_extension.notebooks.computed_edit import ComputedEdit
from tk_ai_extension.notebooks.document import NotebookDocument
from tk_ai_extension.tools.parameter_types import CellKind
from tk_ai_extension.tools.registry import Result, ToolContext
from tk_ai_extension.workspace import editing


def select(snapshot: Snapshot, ranges: str) -> list[Cell]:
    """Return the cells that ``0-3,7,@318a,-1`` selects, in notebook order, without duplicates.

    Args:
        snapshot: The notebook.
        ranges: Cell addresses and spans of indices (`model.index_ranges`), separated by commas.

    Raises:
        InvalidArguments: A part is empty or ambiguous.
        CellNotFound: A part selects no cell.
        Conflict: The version of an address does not match the cell's source.
    """
    chosen: dict[int, Cell] = {}
    for part in parts_of(ranges):
        for cell in _part(snapshot, part):
            chosen[snapshot.index(cell)] = cell
    return [chosen[index] for index in sorted(chosen)]


def _part(snapshot: Snapshot, part: str) -> Sequence[Cell]:
    span = None if part in snapshot.places else parse_index_range(part)
    if span is None or span.is_single:
        return [snapshot.cell(part)]
    first, last = span.positions(len(snapshot.cells))
    if not 0 <= first <= last < len(snapshot.cells):
        raise CellNotFound(
            f"No cells `{part}` in {snapshot.path}, which has {len(snapshot.cells)}."
        )
    return snapshot.cells[first : last + 1]


def insertion(
    snapshot: Snapshot,
    content: CellData,
    *,
    index: int | None,
    after: str | int | None,
    before: str | int | None,
) -> Insert:
    """Return the operation that inserts a cell at one of three positions, or at the end.

    An index is kept as given: the commit resolves it in the current notebook.

    Raises:
        InvalidArguments: More than one position is given.
        CellNotFound: ``after`` or ``before`` names no cell.
        Conflict: The version of its address does not match the cell's source.
    """
    if sum(position is not None for position in (index, after, before)) > 1:
        raise InvalidArguments("Give only one of `index`, `after` and `before`.")
    if after is not None:
        return Insert(content, after=snapshot.cell(after).key)
    if before is not None:
        return Insert(content, before=snapshot.cell(before).key)
    return Insert(content, index=index)


@dataclass(frozen=True)
class EditPlan:
    """Operations on a notebook, and optionally a run of the changed code cells.

    Attributes:
        document: The notebook to change.
        snapshot: The notebook for which the operations were planned.
        operations: The operations, in order, applied all or none.
        run: Whether to run the inserted and replaced code cells afterwards.
        wait: Seconds to wait for the end of that run.
        timeout: Seconds after which a running cell is interrupted; None for no limit.
        given: The notebook as named in the call, if the result repeats that.
    """

    document: NotebookDocument
    snapshot: Snapshot
    operations: tuple[Operation, ...]
    run: bool = False
    wait: float = 30.0
    timeout: float | None = None
    given: str = ""

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """The change that each operation makes to the snapshot, after the preceding ones; without outputs.

        Raises:
            Conflict, CellNotFound, InvalidArguments, InvalidNotebook: An operation cannot be applied.
        """
        transaction = ComputedEdit(self.snapshot, self._content)
        # Outputs are compared when the edit is applied: the snapshot has none.
        transaction.apply(
            [
                replace(each, replaces=None) if isinstance(each, SetOutputs) else each
                for each in self.operations
            ]
        )
        return tuple(transaction.changes)

    def _content(self, index: int) -> CellData:
        cell = self.snapshot.cells[index]
        return CellData(cell.type, cell.source, cell.id, cell.metadata)

    def proposal(self) -> Proposal:
        """Return a diff of each change; all lines of a cell that runs.

        A cell that several operations change runs once, after the last of them.
        """
        written = {id(change) for change in editing.last_writes(self.changes)}
        steps = tuple(
            _operation(self.snapshot, each, change, run=self.run and id(change) in written)
            for each, change in zip(self.operations, self.changes, strict=True)
        )
        runs = any(step.runs for step in steps)
        title: str = "Nothing to change"
        if len(steps) == 1:
            title = steps[0].title
        elif steps:
            title = f"{len(steps)} changes{', and run the changed code' if runs else ''}"
        return Proposal(title, steps, notebook=self.snapshot.path)


@dataclass(frozen=True)
class CreationPlan:
    """A notebook to create.

    Attributes:
        path: The path of the new notebook.
        cells: Type and source of its cells, in order.
        kernelspec: Its kernelspec (name, display_name and language); None for none.
    """

    path: str
    cells: tuple[tuple[CellType, str], ...] = ()
    kernelspec: dict[str, str] | None = None

    def proposal(self) -> Proposal:
        """Return all cells."""
        kernel = f" for {self.kernelspec['name']}" if self.kernelspec else ""
        title = f"Create {self.path}{kernel} with {counted(len(self.cells))}"
        cells = (
            _loading(
                ProposalStep(
                    "insert",
                    f"Insert a {kind} cell",
                    to=index,
                    lines=marked("+", source),
                    cell_type=kind,
                ),
                None,
                CellData(kind, source),
            )
            for index, (kind, source) in enumerate(self.cells)
        )
        return Proposal(title, (ProposalStep("create", title), *cells), notebook=self.path)


def cell_step(snapshot: Snapshot, cell: Cell) -> ProposalStep:
    """Return the step that runs a cell, with all of its code."""
    return ProposalStep(
        "run",
        f"Run {_name(snapshot, cell)}",
        cell=_proposal_cell(snapshot, cell),
        runs=True,
        lines=marked(" ", cell.source),
        identity=(),
    )


Verb = Literal["restart", "interrupt", "shut down"]
"""A change of a kernel's state."""


@dataclass(frozen=True)
class KernelChangePlan:
    """A planned change of a running kernel's state.

    Attributes:
        verb: restart, interrupt or shut down.
        kernel_id: The kernel.
        path: The kernel's notebook; None for none or several.
        execution_id: The execution to interrupt; None for the one that runs.
    """

    verb: Verb
    kernel_id: str
    path: str | None = None
    execution_id: str | None = None

    def proposal(self) -> Proposal:
        """Return the kernel and the change."""
        # A notebook has one kernel. Without a notebook, only the id identifies the kernel.
        kernel = "the kernel"
        if not self.path:
            kernel = f"the kernel {self.kernel_id[:8]}"
        what = f"{self.verb.capitalize()} {kernel}. Its variables are lost"
        if self.verb == "interrupt":
            what = (
                f"Interrupt {kernel if self.execution_id is None else f'an execution in {kernel}'}"
            )
        step = ProposalStep("kernel", what, identity=(self.verb, self.kernel_id, self.execution_id))
        return Proposal(what, (step,), self.path, ProposalKernel(self.kernel_id))


RESTART = ProposalStep("kernel", "Restart the kernel first. Its variables are lost")
"""The step that restarts a notebook's kernel before code runs in it."""


def _operation(
    snapshot: Snapshot, operation: Operation, change: Change, *, run: bool
) -> ProposalStep:
    """Return an operation as a step that is bound to the source for which it was planned.

    Args:
        snapshot: The notebook before all operations.
        operation: The operation.
        change: Its change, after the preceding operations.
        run: Whether the cell runs after the operation, if it is a code cell.
    """
    before, after = change.before, change.after
    match operation:
        case Insert(content):
            runs = run and content.type == "code"
            position, identity = _position(snapshot, operation, change.index)
            step = ProposalStep(
                "insert",
                f"Insert {'and run ' if runs else ''}a {content.type} cell {position}",
                to=change.index,
                runs=runs,
                lines=marked("+", content.source),
                identity=(content.type, *identity),
                cell_type=content.type,
            )
            return _loading(step, None, content)
        case Replace(key, source, new_type, keep_outputs):
            assert before is not None
            assert after is not None
            cell = snapshot.cells[snapshot.places[key]]
            runs = run and after.type == "code"
            how = f", now {after.type}" if after.type != before.type else ""
            if keep_outputs:
                how += ", outputs kept"
            if before.source == source:
                how += ": same source"
            step = ProposalStep(
                "change",
                f"Change {'and run ' if runs else ''}{_name(snapshot, cell)}{how}",
                cell=_proposal_cell(snapshot, cell),
                runs=runs,
                lines=diff_lines(before.source, source, whole=runs),
                identity=(source_hash(source), new_type, keep_outputs),
            )
            return _loading(step, before, after)
        case Delete(key):
            assert before is not None
            cell = snapshot.cells[snapshot.places[key]]
            return ProposalStep(
                "delete",
                f"Delete {_name(snapshot, cell)}",
                cell=_proposal_cell(snapshot, cell),
                lines=marked("-", before.source),
                identity=(),
            )
        case Move(key, to):
            cell = snapshot.cells[snapshot.places[key]]
            return ProposalStep(
                "move",
                f"Move {_name(snapshot, cell)} to position {change.index + 1}",
                cell=_proposal_cell(snapshot, cell),
                to=change.index,
                identity=(to,),
            )
        case SetOutputs(key, outputs):
            cell = snapshot.cells[snapshot.places[key]]
            title = f"Clear the outputs of {_name(snapshot, cell)}"
            if outputs:
                title = (
                    f"Restore {len(outputs)} output of {_name(snapshot, cell)}"
                    if len(outputs) == 1
                    else f"Restore {len(outputs)} outputs of {_name(snapshot, cell)}"
                )
            return ProposalStep(
                "outputs",
                title,
                cell=_proposal_cell(snapshot, cell),
                identity=(source_hash(repr(outputs)),),
            )


def _loading(step: ProposalStep, before: CellData | None, after: CellData) -> ProposalStep:
    """Return the step with the addresses on other hosts that it adds in a Markdown cell."""
    loads = _references(after) - _references(before)
    if not loads:
        return step
    hosts = ", ".join(sorted({re.split(r"[\\/?#]", each)[0] for each in loads}))
    return replace(step, title=f"{step.title}, which loads from {hosts}", loads=loads)


def _references(content: CellData | None) -> frozenset[str]:
    if content is None or content.type != "markdown":
        return frozenset()
    return remote_references(content.source)


def _proposal_cell(snapshot: Snapshot, cell: Cell) -> ProposalCell:
    return ProposalCell(
        cell.key, snapshot.index(cell), cell.type, snapshot.address(cell), cell.hash
    )


def _name(snapshot: Snapshot, cell: Cell) -> str:
    """Return a cell's name for a person, who counts cells from 1 and does not see ids."""
    return f"{cell.type} cell {snapshot.index(cell) + 1}"


def _position(
    snapshot: Snapshot, insert: Insert, index: int
) -> tuple[str, tuple[str | int | None, ...]]:
    """Return where a cell is inserted, at this index: as text, and as the identity of the approval."""
    key = insert.after or insert.before
    if key is None:
        if insert.index in (None, -1):
            return "at the end", ("end",)
        return f"as cell {index + 1}", ("at", insert.index)
    side = "after" if insert.after is not None else "before"
    cell = snapshot.get(key)
    name = f"@{key}" if cell is None else f"cell {snapshot.index(cell) + 1}"
    return f"{side} {name}", (side, key)


class ChangedCell(BaseModel):
    """The change of one cell, read back after the write."""

    action: Literal["insert", "replace", "delete", "move", "outputs"]
    cell: str
    index: int
    address: str | None = None
    """Its versioned address now; None if it was deleted."""
    cell_type: CellKind | None = None
    diff: str | None = None
    removed_source: str | None = None


class CellsChanged(Result):
    """The changes that were made to a notebook."""

    notebook: str
    total_cells: int
    changes: list[ChangedCell]

    def as_text(self) -> str:
        """Return a line for each change."""
        lines = [_change_text(change) for change in self.changes] or ["Nothing to change."]
        return "\n".join([*lines, f"{self.notebook}: {counted(self.total_cells)}."])


def _change_text(change: ChangedCell) -> str:
    name = f"@{change.address or change.cell}"
    match change.action:
        case "insert":
            return f"Inserted {change.cell_type} cell {change.index} {name}."
        case "delete":
            return f"Deleted cell {change.index} @{change.cell}:\n{change.removed_source}"
        case "move":
            return f"Moved {name} to {change.index}."
        case "outputs":
            return f"Cleared the outputs of {name}."
        case "replace":
            return f"Changed cell {change.index} {name}:\n{change.diff or '(same source)'}"


def changed_cell(snapshot: Snapshot, change: Change) -> ChangedCell:
    """Return a change as it appears in a result."""
    cell = snapshot.get(change.cell) if change.action != "delete" else None
    return ChangedCell(
        action=change.action,
        cell=change.cell,
        index=change.index if cell is None else snapshot.index(cell),
        address=snapshot.address(cell) if cell else None,
        cell_type=cell.type if cell else None,
        diff=line_diff(change.before.source, change.after.source)
        if change.action == "replace" and change.before and change.after
        else None,
        removed_source=change.before.source
        if change.action == "delete" and change.before
        else None,
    )


def cells_changed(applied: editing.JournaledEdit) -> CellsChanged:
    """Return the result for applied operations."""
    snapshot = applied.snapshot
    return CellsChanged(
        notebook=snapshot.path,
        total_cells=len(snapshot.cells),
        changes=[changed_cell(snapshot, change) for change in applied.changes],
    )


def plan_edit(
    context: ToolContext,
    document: NotebookDocument,
    snapshot: Snapshot,
    *operations: Operation,
    run: bool = False,
    wait: float = 30.0,
    timeout: float | None = None,
) -> EditPlan:
    """Return a plan of operations on a notebook.

    Args:
        context: The context of the call.
        document: The notebook.
        snapshot: The notebook as it was read.
        *operations: The operations, in order.
        run: Whether to run the changed code cells afterwards.
        wait: Seconds to wait for the end of that run.
        timeout: Seconds after which a running cell is interrupted; None for no limit.

    Raises:
        InvalidArguments: A source is too long or has invalid characters.
        Conflict, CellNotFound, InvalidNotebook: With ``run``, an operation cannot be applied.
    """
    editing.check_sources(context.workspace, operations)
    edit = EditPlan(document, snapshot, tuple(expecting(snapshot, operations)), run, wait, timeout)
    if run:
        # Checked first: an edit that cannot be applied must not start a kernel.
        _ = edit.changes
    return edit


async def apply_edit(context: ToolContext, edit: EditPlan, tool: str) -> CellsChanged:
    """Apply an edit of cells and return its result."""
    return cells_changed(
        await editing.apply(
            context.workspace, context.caller, edit.document, edit.operations, tool=tool
        )
    )


def replaced(source: str, name: str, old: str, new: str, *, replace_all: bool) -> str:
    """Return a source with ``old`` replaced by ``new``.

    Args:
        source: The source.
        name: The cell in messages, such as ``Cell @318a``.
        old: The text to replace.
        new: Its replacement.
        replace_all: Whether it may occur more than once.

    Raises:
        InvalidArguments: ``old`` is empty, does not occur, or occurs more than once and
            ``replace_all`` is false.
    """
    count = source.count(old) if old else 0
    if not old:
        raise InvalidArguments(
            "`old` is empty.", hint="Give the text to replace, or use overwrite_cell."
        )
    if count == 0:
        raise InvalidArguments(
            f"{name} does not contain `old`.",
            hint="Read the cell. `old` must match its source exactly.",
        )
    if count > 1 and not replace_all:
        raise InvalidArguments(
            f"{name} contains `old` {count} times.",
            hint="Include more of the surrounding text in `old`, or set `replace_all`.",
        )
    return source.replace(old, new)
