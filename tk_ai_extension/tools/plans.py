"""What a call is about to do, worked out before anything is done.

A plan is what a person is shown where the mode asks, and what is then carried out: the same value,
which names the sources that it was made for. It goes stale rather than do something else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from tk_ai_extension.model.cells import Cell, CellType, Snapshot
from tk_ai_extension.model.operations import Delete, Insert, Move, Operation, Replace, SetOutputs
from tk_ai_extension.notebooks.base import NotebookDocument
from tk_ai_extension.workspace.editing import line_diff


class Plan(Protocol):
    """What a call would do."""

    def preview(self) -> str:
        """All that it would do, for a person who decides whether it may."""
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

    def preview(self) -> str:
        """A diff of each cell; whole sources where they are run."""
        parts = [_operation(self.snapshot, operation, self.run) for operation in self.operations]
        if self.run and (sources := [*_replaced_to_run(self.snapshot, self.operations)]):
            parts += ["Then run:", *sources]
        return "\n".join(parts) or "Nothing to change."


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

    def preview(self) -> str:
        """The cells, whole."""
        kernel = f" for {self.kernelspec['name']}" if self.kernelspec else ""
        parts = [f"Create {self.path}{kernel} with {len(self.cells)} cells."]
        parts += [f"A {kind} cell:\n{_marked('+', source)}" for kind, source in self.cells]
        return "\n".join(parts)


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

    def preview(self) -> str:
        """The code, whole."""
        parts = ["Restart the kernel first: its variables go."] if self.restart else []
        if self.snapshot is None:
            return "\n".join([*parts, "Run code:", self.code])
        for cell in self.cells:
            parts += [f"Run cell {cell.index} @{self.snapshot.address(cell)}:", cell.source]
        return "\n".join(parts)


def _operation(snapshot: Snapshot, operation: Operation, run: bool) -> str:
    """An operation as a person reads it; with the version of the source that it was planned for."""
    match operation:
        case Insert(content):
            verb = "Insert and run" if run and content.type == "code" else "Insert"
            source = _marked("+", content.source)
            return f"{verb} a {content.type} cell {_place(operation)}:\n{source}"
        case Replace(key, source, new_type, keep_outputs):
            cell = snapshot.by_key[key]
            become = "" if new_type in (None, cell.type) else f", now {new_type}"
            outputs = ", outputs kept" if keep_outputs else ""
            diff = line_diff(cell.source, source) or "(same source)"
            return f"Change {_name(snapshot, cell)}{become}{outputs}:\n{diff}"
        case Delete(key):
            cell = snapshot.by_key[key]
            return f"Delete {_name(snapshot, cell)}:\n{_marked('-', cell.source)}"
        case Move(key, to):
            return f"Move {_name(snapshot, snapshot.by_key[key])} to {to}."
        case SetOutputs(key, outputs):
            what = f"Give {len(outputs)} outputs back to" if outputs else "Clear the outputs of"
            return f"{what} {_name(snapshot, snapshot.by_key[key])}."


def _name(snapshot: Snapshot, cell: Cell) -> str:
    return f"{cell.type} cell {cell.index} @{snapshot.address(cell)}"


def _place(insert: Insert) -> str:
    if insert.index is not None:
        return f"at {insert.index}"
    if insert.after is not None:
        return f"after @{insert.after}"
    return "at the end" if insert.before is None else f"before @{insert.before}"


def _marked(mark: str, source: str) -> str:
    return "\n".join(f"{mark}{line}" for line in source.split("\n"))


def _replaced_to_run(snapshot: Snapshot, operations: Sequence[Operation]) -> Iterator[str]:
    """The code of which a diff does not show all; what is inserted is shown whole."""
    for each in operations:
        if isinstance(each, Replace) and (each.type or snapshot.by_key[each.cell].type) == "code":
            yield each.source
