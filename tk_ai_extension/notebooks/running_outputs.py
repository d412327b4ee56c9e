"""The outputs of a running cell in memory, independent of its notebook's sink."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from threading import Lock

from tk_ai_extension.model.cells import Cell, Snapshot
from tk_ai_extension.model.encoding import encodable, encodable_text
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.outputs import (
    Append,
    ClearOutputs,
    OutputBuffer,
    OutputChange,
    ReplaceOutput,
    StreamEdit,
    summarise,
)
from tk_ai_extension.notebooks.transactions import EditTransaction

Mark = tuple[int, int, int]
"""Number of clears, number of outputs, and characters of the last output if it is a stream."""


class RunningOutputs:
    """The outputs of one running cell, as an executor reports them.

    Attributes:
        pending: Changes that are being pushed to the sink and are not applied to the outputs yet.
        ended: Whether the cell has ended; its outputs are not saved yet.
        execution_count: Its count once it has ended.
        is_late: Whether a save since its end has failed. Meanwhile another program may change the cell
            and run it: the outputs are only for the source that ran here.
    """

    def __init__(self, cell: Cell, count: int) -> None:
        self.pending: list[OutputChange] = []
        self.ended = False
        self.is_late = False
        self.execution_count: int | None = None
        self._version = 0
        self._shown: tuple[Cell, int, Cell] | None = None
        # Written on the event loop, read in the threads that save.
        self._lock = Lock()
        self._id: str | None = None
        self.relocate(cell, count)
        self._outputs = OutputBuffer()
        self._clears = 0
        self._hidden = 0
        self._hidden_text = 0

    def write(self, changes: Iterable[OutputChange]) -> None:
        """Apply changes; the cost is independent of the outputs so far."""
        with self._lock:
            self._version += 1
            for change in changes:
                self._outputs.apply(change)
                if isinstance(change, ClearOutputs):
                    self._clears += 1
                    self._hidden = self._hidden_text = 0

    def commit_pending(self) -> list[tuple[OutputChange, str]]:
        """Apply the pending changes.

        Returns:
            Each change, with the text that it removes from the end of a stream.
        """
        pending, self.pending = self.pending, []
        taken: list[tuple[OutputChange, str]] = []
        for change in pending:
            gone = ""
            if isinstance(change, StreamEdit) and (text := self._outputs.stream(change.index)):
                gone = text.since(change.start)
            taken.append((change, gone))
            self.write((change,))
        return taken

    def end(self, execution_count: int | None) -> None:
        """Note that the cell has ended."""
        self.ended, self.execution_count = True, execution_count
        self._version += 1

    def mark(self) -> Mark:
        """Return the current position in the outputs, for `hide`."""
        last = self._outputs.stream(len(self._outputs) - 1) if self._outputs else None
        return self._clears, len(self._outputs), 0 if last is None else len(last)

    def hide(self, until: Mark | None = None) -> None:
        """Hide the outputs so far, because someone cleared the running cell.

        They are kept, because the executor continues to count from the first output.

        Args:
            until: Hide outputs up to this mark, unless the cell itself has cleared them since.
        """
        with self._lock:
            clears, outputs, characters = until or self.mark()
            self.execution_count = None
            self._version += 1
            if clears == self._clears:
                self._hidden, self._hidden_text = outputs, characters

    @property
    def is_hidden(self) -> bool:
        """Whether some outputs are hidden."""
        return self._hidden > 0

    def outputs(self) -> tuple[Json, ...]:
        """Return the visible outputs so far."""
        return tuple(output for _, output in self.numbered())

    def numbered(self) -> list[tuple[int, Json]]:
        """Return the visible outputs so far, each with the executor's index."""
        with self._lock:
            shown: list[tuple[int, Json]] = []
            last = self._outputs.stream(self._hidden - 1) if self._hidden else None
            if last is not None and len(last) > self._hidden_text:
                at = self._hidden - 1
                shown.append((at, {**self._outputs[at], "text": last.since(self._hidden_text)}))
            shown += enumerate(self._outputs[self._hidden :], self._hidden)
            return shown

    def shown(self, cell: Cell) -> Cell:
        """Return a cell with these outputs."""
        known, version = self._shown, self._version
        if known is not None and known[0] is cell and known[1] == version:
            return known[2]
        outputs = summarise(self.outputs())
        new = replace(cell, execution_count=self.execution_count, outputs=outputs)
        self._shown = (cell, version, new)
        return new

    # --- which cell it is

    def is_same_cell(self, other: RunningOutputs) -> bool:
        """Return whether another run is of the same cell, as far as both were last located."""
        return self._identity() == other._identity()

    def _identity(self) -> tuple[str | None, int, str]:
        return (None, self._index, self._hash) if self._id is None else (self._id, 0, "")

    def find(self, snapshot: Snapshot) -> Cell | None:
        """Return the running cell in a notebook; None if it is gone or no longer a code cell.

        A cell that had a unique id is identified by it, whatever other cells have. Only one that never
        had one is identified by its source and position: others may have moved it.
        """
        found = self._by_source(snapshot) if self._id is None else self._by_id(self._id, snapshot)
        if found is None or found.type != "code" or (self.is_late and found.hash != self._hash):
            return None
        return found

    def _by_id(self, cell_id: str, snapshot: Snapshot) -> Cell | None:
        found = snapshot.by_key.get(cell_id)
        if found is not None and found.id == cell_id:
            return found
        # Others have duplicated the id or, if it is ``cell-N``, added a cell without a unique id.
        named = (cell for cell in snapshot.cells if cell.id == cell_id)
        return max(named, key=lambda cell: cell.hash == self._hash, default=None)

    def _by_source(self, snapshot: Snapshot) -> Cell | None:
        cells = snapshot.cells
        here = cells[self._index] if self._index < len(cells) else None
        if here is not None and here.hash == self._hash:
            return here
        alike = [cell for cell in cells if cell.hash == self._hash and cell.type == "code"]
        if len(alike) == 1:
            return alike[0]
        return here if len(cells) == self._cells else None

    def relocate(self, cell: Cell, count: int) -> None:
        """Note the cell's position and source, and its id if it is unique, after an edit."""
        if not cell.is_numbered:
            self._id = cell.id
        self._index, self._hash, self._cells = cell.index, cell.hash, count


def relocate_runs(
    edit: EditTransaction, running: Sequence[tuple[RunningOutputs, Cell]], after: Sequence[Cell]
) -> None:
    """Update running cells after an edit: their keys, and whether their outputs were cleared.

    Args:
        edit: The committed edit.
        running: The running cells' outputs, each with its cell before the edit.
        after: The cells afterwards.
    """
    cleared = {
        effect.slot
        for effect in edit.effects
        if effect.before and effect.after and effect.before.outputs and not effect.after.outputs
    }
    for outputs, cell in running:
        if cell.index in cleared:
            outputs.hide()
        # A save hook may have added or removed cells: then the run is found by its id or source.
        if cell.index in edit.order and len(after) == len(edit.order):
            outputs.relocate(after[edit.order.index(cell.index)], len(after))


def merged(changes: Sequence[OutputChange]) -> list[OutputChange]:
    """Return the changes as sinks take them: valid Unicode, consecutive stream edits coalesced."""
    done: list[OutputChange] = []
    parts: list[str] = []
    index = start = end = -1

    def close() -> None:
        if parts:
            done.append(StreamEdit(index, start, encodable_text("".join(parts))))
            parts.clear()

    for change in changes:
        match change:
            case StreamEdit(at, since, new):
                if not parts or (at, since) != (index, end):
                    close()
                    index, start = at, since
                parts.append(new)
                end = since + len(new)
            case Append(output):
                close()
                done.append(Append(encodable(output)))
            case ReplaceOutput(at, output):
                close()
                done.append(ReplaceOutput(at, encodable(output)))
            case ClearOutputs():
                close()
                done.append(change)
    close()
    return done
