"""Outputs of a running cell, written into its shared document."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, cast

from pycrdt import Array, Map, Text

from tk_ai_extension.model.cells import Cell, Json
from tk_ai_extension.model.encoding import encodable
from tk_ai_extension.model.outputs import (
    Append,
    ClearOutputs,
    OutputChange,
    ReplaceOutput,
    StreamBuffer,
    StreamEdit,
    stream_text,
)
from tk_ai_extension.notebooks.rooms.collaboration import LiveRoom
from tk_ai_extension.notebooks.streaming import merged

FLUSH_INTERVAL = 0.05
"""Seconds between two transactions while outputs come."""

FLUSH_SHARE = 10
"""A transaction that takes long puts the next one off by so many times its duration.

Appending to a shared text takes time in proportion to the text: this keeps the sum of it in
proportion to the time that passes, whatever a cell prints.
"""


class RoomOutputWriter:
    """Writes the outputs of one running cell; see `OutputWriter`.

    The cell is told by its id in the document, so that it may be moved, and its outputs by their
    place. Where somebody cleared them meanwhile, what comes later starts anew.

    Args:
        room: The room, which is pinned.
        cell: The cell, as it was found in the room just now.
        origin: The origin of the transactions.
    """

    def __init__(self, room: LiveRoom, cell: Cell, origin: str) -> None:
        self.finished = False
        self.cell = cell
        self._begun = False
        self._room = room
        self.shared_id = room.notebook.shared_id(cell.index)
        self._origin = origin
        self._pending: list[OutputChange] = []
        self._timer: asyncio.TimerHandle | None = None
        self._earliest = 0.0
        # What the executor counts as output n is output places[n] of the document, if it is there.
        self._places: list[int | None] = []
        self._texts: dict[int, StreamBuffer] = {}
        self._names: dict[int, str] = {}
        self._expected = 0

    async def start(self) -> None:
        """See `OutputWriter.start`."""
        self._begun = True
        if (cell := self._cell()) is None:
            return
        with self._transaction():
            self._outputs(cell).clear()
            cell["execution_count"] = None
            cell["execution_state"] = "running"
            distrust(cell)
        self._room.save_soon()

    async def write(self, changes: Sequence[OutputChange]) -> None:
        """See `OutputWriter.write`."""
        self._pending += changes
        if self._timer is None and self._pending:
            loop = asyncio.get_running_loop()
            delay = max(self._earliest - time.monotonic(), 0.0)
            self._timer = loop.call_later(delay, self.flush)

    async def finish(self, execution_count: int | None, *, save: bool = True) -> None:  # noqa: ARG002
        """See `OutputWriter.finish`; the save begins within a second and is not waited for."""
        if self.finished:
            return
        self.finished = True
        if not self._begun:
            return
        self.flush()
        if (cell := self._cell()) is not None:
            with self._transaction():
                cell["execution_count"] = execution_count
                cell["execution_state"] = "idle"
        self._room.save_soon()

    def flush(self) -> None:
        """Writes what is pending, in one transaction."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        if (cell := self._cell()) is None:
            return
        started = time.monotonic()
        with self._transaction():
            outputs = self._outputs(cell)
            if len(outputs) != self._expected:
                self._places = [None] * len(self._places)
            for change in merged(pending):
                self._change(outputs, change)
            self._expected = len(outputs)
        now = time.monotonic()
        self._earliest = now + max(FLUSH_INTERVAL, FLUSH_SHARE * (now - started))
        self._room.save_soon()

    def _change(self, outputs: Any, change: OutputChange) -> None:
        match change:
            case Append(output):
                self._places.append(None)
                self._append(outputs, len(self._places) - 1, output)
            case StreamEdit(index, start, new):
                self._edit_stream(outputs, index, start, new)
            case ReplaceOutput(index, output):
                if (place := self._places[index]) is not None:
                    self._note(index, output)
                    outputs[place] = shared_output(output)
            case ClearOutputs():
                outputs.clear()
                self._places.clear()
                self._texts.clear()

    def _append(self, outputs: Any, index: int, output: Json) -> None:
        self._places[index] = len(outputs)
        self._note(index, output)
        outputs.append(shared_output(output))

    def _note(self, index: int, output: Json) -> None:
        self._texts.pop(index, None)
        if output.get("output_type") == "stream":
            self._texts[index] = StreamBuffer(cast("str", encodable(stream_text(output))))
            self._names[index] = str(output.get("name", "stdout"))

    def _edit_stream(self, outputs: Any, index: int, start: int, new: str) -> None:
        new = cast("str", encodable(new))
        gone = self._texts[index].edit(start, new)
        place = self._places[index]
        if place is None:
            # Somebody cleared the cell; what is printed from now on is a stream of its own.
            self._places[index] = len(outputs)
            stream = {"output_type": "stream", "name": self._names[index], "text": new}
            outputs.append(shared_output(stream))
            return
        text = outputs[place]["text"]
        if gone:
            end = len(text)
            del text[end - min(len(gone.encode("utf-8")), end) : end]
        text.insert(len(text), new)

    # --- the document

    def _cell(self) -> Any:
        room = self._room
        index = room.notebook.find(self.shared_id, room.path)
        cell = room.notebook.shared(index) if index is not None else None
        return cell if cell is not None and cell.get("cell_type") == "code" else None

    def _outputs(self, cell: Any) -> Any:
        if not isinstance(cell.get("outputs"), Array):
            cell["outputs"] = Array()
        return cell["outputs"]

    def _transaction(self) -> Any:
        return self._room.notebook.document.ydoc.transaction(origin=self._origin)


def distrust(cell: Any) -> None:
    """What an agent puts into a cell does not inherit the trust that a person gave to it.

    Open pages read this, too (`src/pictures/trust.ts`).
    """
    metadata: Any = cell.get("metadata")
    if isinstance(metadata, Map) and metadata.get("trusted"):
        metadata["trusted"] = False


def shared_output(output: Json) -> Map[Any]:
    """An output as JupyterLab has it in a shared document: the text of a stream can grow."""
    shared = cast("Json", encodable(output))
    if shared.get("output_type") == "stream":
        shared = {**shared, "text": Text(stream_text(shared))}
    return Map(shared)
