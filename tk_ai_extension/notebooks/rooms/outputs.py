"""Outputs of a running cell, written into its shared document."""

from __future__ import annotations

from contextlib import AsyncExitStack
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
from tk_ai_extension.notebooks.output_writer import OutputPlace
from tk_ai_extension.notebooks.rooms.collaboration import LiveRoom
from tk_ai_extension.notebooks.running_outputs import RunningOutputs

FLUSH_SHARE = 10
"""A transaction that takes long puts the next one off by so many times its duration.

Appending to a shared text takes time in proportion to the text: this keeps the sum of it in
proportion to the time that passes, whatever a cell prints.
"""


class RoomPlace(OutputPlace):
    """The outputs of one running cell in its shared document; see `OutputPlace`.

    The cell is told by its id in the document, so that it may be moved, and its outputs by their
    place. Where somebody cleared them meanwhile, what comes later starts anew.

    Args:
        room: The room.
        cell: The cell, as it was found in the room just now; None where it is gone from it.
        origin: The origin of the transactions.
        pinned: Keeps the room open until it is closed.
    """

    share = FLUSH_SHARE

    def __init__(
        self, room: LiveRoom, cell: Cell | None, origin: str, pinned: AsyncExitStack
    ) -> None:
        self.room = room
        self._shared_id = None if cell is None else room.notebook.shared_id(cell.index)
        self._origin = origin
        self._pinned = pinned
        # What the executor counts as output n is output places[n] of the document, if it is there.
        self._places: list[int | None] = []
        self._texts: dict[int, StreamBuffer] = {}
        self._names: dict[int, str] = {}
        self._expected = 0
        if self._shared_id is not None:
            room.writing.append(self._shared_id)

    async def begin(self, run: RunningOutputs) -> None:
        """See `OutputPlace.begin`."""
        if (cell := self._cell()) is None:
            return
        with self._transaction():
            outputs = self._outputs(cell)
            outputs.clear()
            cell["execution_count"] = None
            cell["execution_state"] = "running"
            distrust(cell)
            # What came before the notebook was in this room.
            for index, output in run.numbered():
                self._places += [None] * (index + 1 - len(self._places))
                self._append(outputs, index, output)
            self._expected = len(outputs)
        self.room.save_soon()

    async def push_outputs(self, run: RunningOutputs) -> None:
        """See `OutputPlace.push_outputs`: all in one transaction."""
        pending = run.pending
        run.take()
        if not pending or (cell := self._cell()) is None:
            return
        with self._transaction():
            outputs = self._outputs(cell)
            if len(outputs) != self._expected:
                self._places = [None] * len(self._places)
            for change in pending:
                self._change(outputs, change)
            self._expected = len(outputs)
        self.room.save_soon()

    async def end(self, run: RunningOutputs, *, save: bool) -> None:  # noqa: ARG002
        """See `OutputPlace.end`; the save begins within a second and is not waited for."""
        if (cell := self._cell()) is not None:
            with self._transaction():
                cell["execution_count"] = run.execution_count
                cell["execution_state"] = "idle"
        self.room.save_soon()

    async def release(self, run: RunningOutputs, *, done: bool) -> None:  # noqa: ARG002
        """See `OutputPlace.release`."""
        if self._shared_id is not None:
            self.room.writing.remove(self._shared_id)
        await self._pinned.aclose()

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
        if self._shared_id is None:
            return None
        room = self.room
        index = room.notebook.find(self._shared_id, room.path)
        cell = room.notebook.shared(index) if index is not None else None
        return cell if cell is not None and cell.get("cell_type") == "code" else None

    def _outputs(self, cell: Any) -> Any:
        if not isinstance(cell.get("outputs"), Array):
            cell["outputs"] = Array()
        return cell["outputs"]

    def _transaction(self) -> Any:
        return self.room.notebook.document.ydoc.transaction(origin=self._origin)


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
