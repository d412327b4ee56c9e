"""The outputs of a cell that runs, in memory, whatever place its notebook is in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from threading import Lock

from tk_ai_extension.model.cells import Cell, Json, Snapshot
from tk_ai_extension.model.encoding import encodable, encodable_text
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

_NUMBERED = re.compile(r"cell-\d+\Z")


Mark = tuple[int, int, int]
"""How often a cell cleared its outputs, how many there are, and the characters of the last, if a stream."""


class RunningOutputs:
    """The outputs of one running cell, as an executor reports them.

    Attributes:
        key: The cell's key now.
        pending: Changes that are being pushed to the notebook's place, and are not among the outputs yet.
        ended: Whether the cell has run; what is here is not saved yet.
        execution_count: Its count then.
    """

    def __init__(self, cell: Cell, count: int) -> None:
        self.key = cell.key
        self.pending: list[OutputChange] = []
        self.ended = False
        self.execution_count: int | None = None
        self._version = 0
        self._shown: tuple[Cell, int, Cell] | None = None
        # Written on the event loop, read in the threads that save.
        self._lock = Lock()
        self._hash = cell.hash
        self._cells = count
        self._outputs = OutputBuffer()
        self._clears = 0
        self._hidden = 0
        self._hidden_text = 0

    def write(self, changes: Iterable[OutputChange]) -> None:
        """Carry out changes; the cost does not depend on the outputs so far."""
        with self._lock:
            self._version += 1
            for change in changes:
                self._outputs.apply(change)
                if isinstance(change, ClearOutputs):
                    self._clears += 1
                    self._hidden = self._hidden_text = 0

    def commit_pending(self) -> list[tuple[OutputChange, str]]:
        """Count what is pending as written.

        Returns:
            Each change, with the text that it cuts off the end of a stream.
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

    def stream_name(self, index: int) -> str:
        """The name of the stream that output ``index`` is."""
        return (self._outputs.name(index) if index < len(self._outputs) else None) or "stdout"

    def end(self, execution_count: int | None) -> None:
        """The cell has run."""
        self.ended, self.execution_count = True, execution_count
        self._version += 1

    def mark(self) -> Mark:
        """How far the outputs have come."""
        last = self._outputs.stream(len(self._outputs) - 1) if self._outputs else None
        return self._clears, len(self._outputs), 0 if last is None else len(last)

    def hide(self, until: Mark | None = None) -> None:
        """Somebody cleared the cell while it runs: what came until now is not shown any more.

        The executor goes on to count from the first output, so it is kept.

        Args:
            until: How far they had come then; nothing is hidden where the cell itself cleared them since.
        """
        with self._lock:
            clears, outputs, characters = until or self.mark()
            self.execution_count = None
            self._version += 1
            if clears == self._clears:
                self._hidden, self._hidden_text = outputs, characters

    @property
    def is_hidden(self) -> bool:
        """Whether some of what came is not shown."""
        return self._hidden > 0

    def outputs(self) -> tuple[Json, ...]:
        """The outputs so far."""
        return tuple(output for _, output in self.numbered())

    def numbered(self) -> list[tuple[int, Json]]:
        """The outputs so far, each with its number as the executor counts."""
        with self._lock:
            shown: list[tuple[int, Json]] = []
            last = self._outputs.stream(self._hidden - 1) if self._hidden else None
            if last is not None and len(last) > self._hidden_text:
                at = self._hidden - 1
                shown.append((at, {**self._outputs[at], "text": last.since(self._hidden_text)}))
            shown += enumerate(self._outputs[self._hidden :], self._hidden)
            return shown

    def shown(self, cell: Cell) -> Cell:
        """The cell, as it was last read, with these outputs."""
        known, version = self._shown, self._version
        if known is not None and known[0] is cell and known[1] == version:
            return known[2]
        outputs = summarise(self.outputs())
        new = replace(cell, execution_count=self.execution_count, outputs=outputs)
        self._shown = (cell, version, new)
        return new

    # --- which cell it is

    @property
    def is_numbered(self) -> bool:
        """Whether the cell has no id, and so is another one's number where others move it."""
        return _NUMBERED.match(self.key) is not None

    def find(self, snapshot: Snapshot) -> Cell | None:
        """The running cell in the notebook; None where it is gone or is no code cell any more.

        A cell without an id is told by its source: others may have moved it.
        """
        cells, found = snapshot.cells, snapshot.by_key.get(self.key)
        if self.is_numbered and (found is None or found.hash != self._hash):
            alike = [cell for cell in cells if cell.hash == self._hash and cell.type == "code"]
            if len(alike) == 1:
                found = alike[0]
            elif len(cells) != self._cells:
                found = None
        return found if found is not None and found.type == "code" else None

    def relocate(self, cell: Cell, count: int) -> None:
        """Note the cell's key and source after an edit."""
        self.key, self._hash, self._cells = cell.key, cell.hash, count


def relocate_runs(
    edit: EditTransaction, running: Sequence[tuple[RunningOutputs, Cell]], after: Sequence[Cell]
) -> None:
    """Notify what runs where its cell is after an edit, and that its outputs were cleared.

    Args:
        edit: The edit, carried out.
        running: What runs, with its cell before the edit.
        after: The cells afterwards.
    """
    cleared = {
        step.slot
        for step in edit.steps
        if step.kind == "set" and step.after and step.before
        if step.before.outputs and not step.after.outputs
    }
    for outputs, cell in running:
        if cell.index in cleared:
            outputs.hide()
        if cell.index in edit.order:
            outputs.relocate(after[edit.order.index(cell.index)], len(after))


def merged(changes: Sequence[OutputChange]) -> list[OutputChange]:
    """The changes as places take them: Unicode, and what is printed in a row to one stream in one piece."""
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
