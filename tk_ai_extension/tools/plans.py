"""Plans: what a call will do, computed before it changes anything.

A tool with ``carry_out`` returns a plan. If the mode requires approval, a person is shown its
proposal (`Plan.proposal`); then the same plan is executed. A plan is bound to the sources that it
was made for, so it fails with a conflict instead of changing other sources.

A plan of your own needs one method:

>>> class Greet:
...     def proposal(self) -> Proposal:
...         return Proposal("Greet Ada", (ProposalStep("arguments", "Greet Ada"),))
>>> plan: Plan = Greet()
>>> plan.proposal().as_text()
'Greet Ada'
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Protocol

from tk_ai_extension.model.cells import Cell, CellContent, CellType, Snapshot, source_hash
from tk_ai_extension.model.diffs import DiffBudget
from tk_ai_extension.model.operations import (
    Change,
    Delete,
    Insert,
    Move,
    Operation,
    Replace,
    SetOutputs,
)
from tk_ai_extension.model.proposals import (
    CellReference,
    KernelReference,
    Proposal,
    ProposalStep,
    diff_lines,
    marked,
)
from tk_ai_extension.notebooks.base import NotebookDocument
from tk_ai_extension.notebooks.transactions import EditTransaction
from tk_ai_extension.workspace import editing


class Plan(Protocol):
    """What a call will do."""

    def proposal(self) -> Proposal:
        """Return everything that the call will do, for the person who approves it.

        `tools.permission_checks` adds the kernel of the notebook.
        """
        ...


@dataclass(frozen=True)
class Edit:
    """Operations on a notebook, and optionally a run of the changed code cells.

    Attributes:
        document: The notebook to change.
        snapshot: The notebook for which the operations were planned.
        operations: The operations, in order, applied all or none.
        run: Whether to run the inserted and replaced code cells afterwards.
        wait: Seconds to wait for the end of that run.
        timeout: Seconds after which a running cell is interrupted; None for no limit.
    """

    document: NotebookDocument
    snapshot: Snapshot
    operations: tuple[Operation, ...]
    run: bool = False
    wait: float = 30.0
    timeout: float | None = None

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """What each operation does to the snapshot, after those before it; without outputs.

        Raises:
            Conflict, CellNotFound, InvalidArguments, InvalidNotebook: An operation cannot be applied.
        """
        transaction = EditTransaction(self.snapshot, self._content)
        # Outputs are compared when the edit is applied: the snapshot has none.
        transaction.apply(
            [
                replace(each, replaces=None) if isinstance(each, SetOutputs) else each
                for each in self.operations
            ]
        )
        return transaction.changes()

    def _content(self, index: int) -> CellContent:
        cell = self.snapshot.cells[index]
        return CellContent(cell.type, cell.source, cell.id, cell.metadata)

    def proposal(self) -> Proposal:
        """Return a diff of each change; all lines of a cell that runs.

        A cell that several operations change runs once, as the last of them leaves it.
        """
        written = {id(change) for change in editing.last_writes(self.changes)}
        budget = DiffBudget()
        steps = tuple(
            _operation(self.snapshot, each, change, budget, run=self.run and id(change) in written)
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
        count = len(self.cells)
        title = (
            f"Create {self.path} with {count} cell"
            if count == 1
            else f"Create {self.path} with {count} cells"
        )
        if self.kernelspec:
            kernel = self.kernelspec["name"]
            title = (
                f"Create {self.path} for {kernel} with {count} cell"
                if count == 1
                else f"Create {self.path} for {kernel} with {count} cells"
            )
        cells = (
            ProposalStep(
                "insert",
                f"Insert a {kind} cell",
                to=index,
                lines=marked("+", source),
                cell_type=kind,
            )
            for index, (kind, source) in enumerate(self.cells)
        )
        return Proposal(title, (ProposalStep("create", title), *cells), notebook=self.path)


@dataclass(frozen=True)
class RunPlan:
    """Cells of a notebook, or scratch code, to run in the notebook's kernel.

    Attributes:
        document: The notebook whose kernel runs them.
        snapshot: The notebook as the cells were read; None for scratch code.
        cells: The cells, in order; empty for scratch code.
        code: The scratch code.
        restart: Whether to restart the kernel first.
        stop_on_error: Whether to skip the remaining cells after one fails.
        wait: Seconds to wait for the end.
        timeout: Seconds after which a cell is interrupted; None for no limit.
    """

    document: NotebookDocument
    snapshot: Snapshot | None = None
    cells: tuple[Cell, ...] = ()
    code: str = ""
    restart: bool = False
    stop_on_error: bool = True
    wait: float = 30.0
    timeout: float | None = None

    def proposal(self) -> Proposal:
        """Return all of the code."""
        steps = [RESTART] if self.restart else []
        path = self.document.path
        if self.snapshot is None:
            lines = marked(" ", self.code)
            code = ProposalStep("code", "Run code", runs=True, lines=lines)
            return Proposal("Run code in the notebook's kernel", (*steps, code), notebook=path)
        runs = [cell_step(self.snapshot, cell) for cell in self.cells]
        title = runs[0].title if len(runs) == 1 else f"Run {len(runs)} cells"
        return Proposal(title, (*steps, *runs), notebook=path)


def cell_step(snapshot: Snapshot, cell: Cell) -> ProposalStep:
    """Return the step that runs a cell, with all of its code."""
    return ProposalStep(
        "run",
        f"Run {_name(cell)}",
        cell=_reference(snapshot, cell),
        runs=True,
        lines=marked(" ", cell.source),
        identity=(),
    )


Verb = Literal["restart", "interrupt", "shut down"]
"""A change of a kernel's state."""


@dataclass(frozen=True)
class KernelChange:
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
        return Proposal(what, (step,), self.path, KernelReference(self.kernel_id))


RESTART = ProposalStep("kernel", "Restart the kernel first. Its variables are lost")
"""The step that restarts a notebook's kernel before code runs in it."""


def _operation(
    snapshot: Snapshot, operation: Operation, change: Change, budget: DiffBudget, *, run: bool
) -> ProposalStep:
    """Return an operation as a step that is bound to the source for which it was planned.

    Args:
        snapshot: The notebook before all operations.
        operation: The operation.
        change: What it does, after the operations before it.
        budget: The steps that the diffs of a proposal may take.
        run: Whether the cell runs as the operation leaves it, if it is a code cell.
    """
    before, after = change.before, change.after
    match operation:
        case Insert(content):
            runs = run and content.type == "code"
            position, identity = _position(snapshot, operation, change.index)
            return ProposalStep(
                "insert",
                f"Insert {'and run ' if runs else ''}a {content.type} cell {position}",
                to=change.index,
                runs=runs,
                lines=marked("+", content.source),
                identity=(content.type, *identity),
                cell_type=content.type,
            )
        case Replace(key, source, new_type, keep_outputs):
            assert before is not None
            assert after is not None
            cell = snapshot.by_key[key]
            runs = run and after.type == "code"
            how = f", now {after.type}" if after.type != before.type else ""
            if keep_outputs:
                how += ", outputs kept"
            if before.source == source:
                how += ": same source"
            return ProposalStep(
                "change",
                f"Change {'and run ' if runs else ''}{_name(cell)}{how}",
                cell=_reference(snapshot, cell),
                runs=runs,
                lines=diff_lines(before.source, source, whole=runs, budget=budget),
                identity=(source_hash(source), new_type, keep_outputs),
            )
        case Delete(key):
            assert before is not None
            cell = snapshot.by_key[key]
            return ProposalStep(
                "delete",
                f"Delete {_name(cell)}",
                cell=_reference(snapshot, cell),
                lines=marked("-", before.source),
                identity=(),
            )
        case Move(key, to):
            cell = snapshot.by_key[key]
            return ProposalStep(
                "move",
                f"Move {_name(cell)} to position {change.index + 1}",
                cell=_reference(snapshot, cell),
                to=change.index,
                identity=(to,),
            )
        case SetOutputs(key, outputs):
            cell = snapshot.by_key[key]
            title = f"Clear the outputs of {_name(cell)}"
            if outputs:
                title = (
                    f"Restore {len(outputs)} output of {_name(cell)}"
                    if len(outputs) == 1
                    else f"Restore {len(outputs)} outputs of {_name(cell)}"
                )
            return ProposalStep(
                "outputs",
                title,
                cell=_reference(snapshot, cell),
                identity=(source_hash(repr(outputs)),),
            )


def _reference(snapshot: Snapshot, cell: Cell) -> CellReference:
    return CellReference(cell.key, cell.index, cell.type, snapshot.address(cell), cell.hash)


def _name(cell: Cell) -> str:
    """Return a cell's name for a person, who counts cells from 1 and does not see ids."""
    return f"{cell.type} cell {cell.index + 1}"


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
    cell = snapshot.by_key.get(key)
    name = f"@{key}" if cell is None else f"cell {cell.index + 1}"
    return f"{side} {name}", (side, key)
