"""What a call is about to do, worked out before anything is done.

A plan is what a person is shown where the mode asks (`Plan.proposal`), and what is then carried
out: the same value, which names the sources that it was made for. It goes stale rather than do
something else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from tk_ai_extension.model.cells import Cell, CellType, Snapshot, source_hash
from tk_ai_extension.model.operations import Delete, Insert, Move, Operation, Replace, SetOutputs
from tk_ai_extension.model.proposals import (
    CellReference,
    KernelReference,
    Proposal,
    ProposalStep,
    diff_lines,
    marked,
)
from tk_ai_extension.notebooks.base import NotebookDocument


class Plan(Protocol):
    """What a call would do."""

    def proposal(self) -> Proposal:
        """All that it would do, for a person who decides whether it may.

        The kernel of a notebook's own is filled in by `tools.permission_checks`.
        """
        ...


@dataclass(frozen=True)
class Edit:
    """Operations on a notebook, and whether the cells that they touch are run afterwards.

    Attributes:
        document: What is changed.
        snapshot: The notebook that the operations were planned for.
        operations: In order, all or none.
        run: Whether the code cells among those inserted and replaced are run then.
        wait: Seconds to wait for the end of that.
        timeout: Seconds after which a cell that runs is interrupted.
    """

    document: NotebookDocument
    snapshot: Snapshot
    operations: tuple[Operation, ...]
    run: bool = False
    wait: float = 30.0
    timeout: float | None = None

    def proposal(self) -> Proposal:
        """A diff of each cell; all of its lines where it is run."""
        steps = tuple(_operation(self.snapshot, each, self.run) for each in self.operations)
        runs = any(step.runs for step in steps)
        title = "Nothing to change"
        if len(steps) == 1:
            title = steps[0].title
        elif steps:
            title = (
                f"{len(steps)} changes, and run the changed code"
                if runs
                else f"{len(steps)} changes"
            )
        return Proposal(title, steps, notebook=self.snapshot.path)


@dataclass(frozen=True)
class CreationPlan:
    """A notebook that is to be made.

    Attributes:
        path: Where; nothing is there yet.
        cells: In order, by type and source.
        kernelspec: What it runs on: name, display_name and language; None to leave it open.
    """

    path: str
    cells: tuple[tuple[CellType, str], ...] = ()
    kernelspec: dict[str, str] | None = None

    def proposal(self) -> Proposal:
        """The cells, whole."""
        kernel = f" for {self.kernelspec['name']}" if self.kernelspec else ""
        title = f"Create {self.path}{kernel} with {len(self.cells)} cells"
        cells = (
            ProposalStep("insert", f"Insert a {kind} cell", to=index, lines=marked("+", source))
            for index, (kind, source) in enumerate(self.cells)
        )
        return Proposal(title, (ProposalStep("create", title), *cells), notebook=self.path)


@dataclass(frozen=True)
class RunPlan:
    """Cells of a notebook, or scratch code, that a kernel is about to run.

    Attributes:
        document: Whose kernel runs them.
        snapshot: The notebook that the cells are from.
        cells: In order; none for scratch code.
        code: The scratch code.
        restart: Whether the kernel is restarted first.
        stop_on_error: Whether a cell that fails ends it.
        wait: Seconds to wait for the end.
        timeout: Seconds after which a cell is interrupted.
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
        """The code, whole."""
        steps = [RESTART] if self.restart else []
        path = self.document.path
        if self.snapshot is None:
            code = ProposalStep("code", "Run code", runs=True, lines=marked(" ", self.code))
            return Proposal("Run code in the notebook's kernel", (*steps, code), notebook=path)
        runs = [
            ProposalStep(
                "run",
                f"Run {_name(cell)}",
                cell=_reference(self.snapshot, cell),
                runs=True,
                lines=marked(" ", cell.source),
                identity=(),
            )
            for cell in self.cells
        ]
        title = runs[0].title if len(runs) == 1 else f"Run {len(runs)} cells"
        return Proposal(title, (*steps, *runs), notebook=path)


Verb = Literal["restart", "interrupt", "shut down"]
"""What is done to a kernel."""


@dataclass(frozen=True)
class KernelChange:
    """Something that is about to be done to a running kernel.

    Attributes:
        verb: restart, interrupt or shut down.
        kernel_id: Which kernel.
        path: The notebook that it is of; None for none or several.
        execution_id: The run that is interrupted, where it is just that one.
    """

    verb: Verb
    kernel_id: str
    path: str | None = None
    execution_id: str | None = None

    def proposal(self) -> Proposal:
        """The kernel, and what is done to it."""
        # A notebook has one kernel; which one it is else, only its id says.
        kernel = "the kernel" if self.path else f"the kernel {self.kernel_id[:8]}"
        what = f"{self.verb.capitalize()} {kernel}"
        if self.execution_id is not None:
            what = f"Interrupt what runs in {kernel}"
        elif self.verb != "interrupt":
            what += ". Its variables are lost"
        step = ProposalStep("kernel", what, identity=(self.verb, self.kernel_id, self.execution_id))
        return Proposal(what, (step,), self.path, KernelReference(self.kernel_id))


RESTART = ProposalStep("kernel", "Restart the kernel first. Its variables are lost")
"""The step that restarts a notebook's kernel before code runs in it."""


def _operation(snapshot: Snapshot, operation: Operation, run: bool) -> ProposalStep:
    """An operation as a step, bound to the source that it was planned for."""
    match operation:
        case Insert(content):
            runs = run and content.type == "code"
            place, to, identity = _place(snapshot, operation)
            return ProposalStep(
                "insert",
                f"{'Insert and run' if runs else 'Insert'} a {content.type} cell {place}",
                to=to,
                runs=runs,
                lines=marked("+", content.source),
                identity=(content.type, *identity),
            )
        case Replace(key, source, new_type, keep_outputs):
            cell = snapshot.by_key[key]
            runs = run and (new_type or cell.type) == "code"
            become = "" if new_type in (None, cell.type) else f", now {new_type}"
            outputs = ", outputs kept" if keep_outputs else ""
            same = ": same source" if cell.source == source else ""
            verb = "Change and run" if runs else "Change"
            return ProposalStep(
                "change",
                f"{verb} {_name(cell)}{become}{outputs}{same}",
                cell=_reference(snapshot, cell),
                runs=runs,
                lines=diff_lines(cell.source, source, whole=runs),
                identity=(source_hash(source), new_type, keep_outputs),
            )
        case Delete(key):
            cell = snapshot.by_key[key]
            return ProposalStep(
                "delete",
                f"Delete {_name(cell)}",
                cell=_reference(snapshot, cell),
                lines=marked("-", cell.source),
                identity=(),
            )
        case Move(key, to):
            cell = snapshot.by_key[key]
            return ProposalStep(
                "move",
                f"Move {_name(cell)} to position {to + 1}",
                cell=_reference(snapshot, cell),
                to=to,
                identity=(to,),
            )
        case SetOutputs(key, outputs):
            cell = snapshot.by_key[key]
            what = f"Restore {len(outputs)} outputs of" if outputs else "Clear the outputs of"
            return ProposalStep(
                "outputs",
                f"{what} {_name(cell)}",
                cell=_reference(snapshot, cell),
                identity=(source_hash(repr(outputs)),),
            )


def _reference(snapshot: Snapshot, cell: Cell) -> CellReference:
    return CellReference(cell.key, cell.index, cell.type, snapshot.address(cell), cell.hash)


def _name(cell: Cell) -> str:
    """A cell as a person finds it: the first is cell 1, and its id says nothing to them."""
    return f"{cell.type} cell {cell.index + 1}"


def _place(
    snapshot: Snapshot, insert: Insert
) -> tuple[str, int | None, tuple[str | int | None, ...]]:
    """Where a cell is inserted: in words, as an index, and as an approval is bound to it."""
    if insert.index is not None:
        return f"as cell {insert.index + 1}", insert.index, ("at", insert.index)
    key = insert.after or insert.before
    if key is None:
        return "at the end", len(snapshot.cells), ("end",)
    side = "after" if insert.after is not None else "before"
    cell = snapshot.by_key.get(key)
    name, to = f"@{key}", None
    if cell is not None:
        name = f"cell {cell.index + 1}"
        to = cell.index + (side == "after")
    return f"{side} {name}", to, (side, key)
