"""What a call is about to do, worked out before anything is done.

A plan is what a person is shown where the mode asks (`Plan.proposal`), and what is then carried
out: the same value, which names the sources that it was made for. It goes stale rather than do
something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
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
from tk_ai_extension.model.sentences import Sentence
from tk_ai_extension.notebooks.base import NotebookDocument


class Plan(Protocol):
    """What a call would do."""

    def proposal(self) -> Proposal:
        """All that it would do, for a person who decides whether it may.

        The kernel of a notebook's own is filled in by `tools.permitting`.
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
        title: str = Sentence("nothing_to_change")
        if len(steps) == 1:
            title = steps[0].title
        elif steps:
            title = Sentence("changes_and_run" if runs else "changes", count=len(steps))
        return Proposal(title, steps, notebook=self.snapshot.path)


@dataclass(frozen=True)
class Creation:
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
        count = len(self.cells)
        title = Sentence("create", path=self.path, count=count)
        if self.kernelspec:
            kernel = self.kernelspec["name"]
            title = Sentence("create_for_kernel", path=self.path, kernel=kernel, count=count)
        cells = (
            ProposalStep(
                "insert", Sentence("insert_new", type=kind), to=index, lines=marked("+", source)
            )
            for index, (kind, source) in enumerate(self.cells)
        )
        return Proposal(title, (ProposalStep("create", title), *cells), notebook=self.path)


@dataclass(frozen=True)
class Running:
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
            lines = marked(" ", self.code)
            code = ProposalStep("code", Sentence("run_code"), runs=True, lines=lines)
            return Proposal(Sentence("run_code_in_kernel"), (*steps, code), notebook=path)
        runs = [
            ProposalStep(
                "run",
                Sentence("run_cell", cell=_name(cell)),
                cell=_reference(self.snapshot, cell),
                runs=True,
                lines=marked(" ", cell.source),
                identity=(),
            )
            for cell in self.cells
        ]
        title = runs[0].title if len(runs) == 1 else Sentence("run_cells", count=len(runs))
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
        kernel = Sentence("kernel_of_notebook")
        if not self.path:
            kernel = Sentence("kernel_of_id", id=self.kernel_id[:8])
        codes = {
            "restart": "restart_kernel",
            "interrupt": "interrupt_kernel",
            "shut down": "shut_down_kernel",
        }
        code = codes[self.verb] if self.execution_id is None else "interrupt_run"
        what = Sentence(code, kernel=kernel)
        step = ProposalStep("kernel", what, identity=(self.verb, self.kernel_id, self.execution_id))
        return Proposal(what, (step,), self.path, KernelReference(self.kernel_id))


RESTART = ProposalStep("kernel", Sentence("restart_first"))
"""The step that restarts a notebook's kernel before code runs in it."""


def _operation(snapshot: Snapshot, operation: Operation, run: bool) -> ProposalStep:
    """An operation as a step, bound to the source that it was planned for."""
    match operation:
        case Insert(content):
            runs = run and content.type == "code"
            place, to, identity = _place(snapshot, operation)
            return ProposalStep(
                "insert",
                Sentence("insert_and_run" if runs else "insert", type=content.type, place=place),
                to=to,
                runs=runs,
                lines=marked("+", content.source),
                identity=(content.type, *identity),
            )
        case Replace(key, source, new_type, keep_outputs):
            cell = snapshot.by_key[key]
            runs = run and (new_type or cell.type) == "code"
            how: list[Sentence] = []
            if new_type not in (None, cell.type):
                how.append(Sentence("change_type", type=new_type))
            if keep_outputs:
                how.append(Sentence("change_outputs_kept"))
            if cell.source == source:
                how.append(Sentence("change_same_source"))
            return ProposalStep(
                "change",
                Sentence(
                    "change_and_run" if runs else "change", cell=_name(cell), how=_joined(how)
                ),
                cell=_reference(snapshot, cell),
                runs=runs,
                lines=diff_lines(cell.source, source, whole=runs),
                identity=(source_hash(source), new_type, keep_outputs),
            )
        case Delete(key):
            cell = snapshot.by_key[key]
            return ProposalStep(
                "delete",
                Sentence("delete", cell=_name(cell)),
                cell=_reference(snapshot, cell),
                lines=marked("-", cell.source),
                identity=(),
            )
        case Move(key, to):
            cell = snapshot.by_key[key]
            return ProposalStep(
                "move",
                Sentence("move", cell=_name(cell), position=to + 1),
                cell=_reference(snapshot, cell),
                to=to,
                identity=(to,),
            )
        case SetOutputs(key, outputs):
            cell = snapshot.by_key[key]
            title = Sentence("clear_outputs", cell=_name(cell))
            if outputs:
                title = Sentence("restore_outputs", count=len(outputs), cell=_name(cell))
            return ProposalStep(
                "outputs",
                title,
                cell=_reference(snapshot, cell),
                identity=(source_hash(repr(outputs)),),
            )


def _reference(snapshot: Snapshot, cell: Cell) -> CellReference:
    return CellReference(cell.key, cell.index, cell.type, snapshot.address(cell), cell.hash)


def _name(cell: Cell) -> Sentence:
    """A cell as a person finds it: the first is cell 1, and its id says nothing to them."""
    return Sentence("cell", type=cell.type, position=cell.index + 1)


def _joined(parts: Sequence[Sentence]) -> str:
    """Parts of a sentence as one."""
    return reduce(lambda first, more: Sentence("change_two", first=first, second=more), parts, "")


def _place(
    snapshot: Snapshot, insert: Insert
) -> tuple[str, int | None, tuple[str | int | None, ...]]:
    """Where a cell is inserted: in words, as an index, and as an approval is bound to it."""
    if insert.index is not None:
        return Sentence("place_at", position=insert.index + 1), insert.index, ("at", insert.index)
    key = insert.after or insert.before
    if key is None:
        return Sentence("place_end"), len(snapshot.cells), ("end",)
    side = "after" if insert.after is not None else "before"
    cell = snapshot.by_key.get(key)
    name, to = f"@{key}", None
    if cell is not None:
        name = Sentence("cell_position", position=cell.index + 1)
        to = cell.index + (side == "after")
    return Sentence(f"place_{side}", cell=name), to, (side, key)
