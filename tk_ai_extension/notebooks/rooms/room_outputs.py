"""The outputs of a running cell in a room's shared document."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pycrdt import Array, Map, Text

from tk_ai_extension.model.cells import Cell
from tk_ai_extension.model.encoding import (
    UNSAFE,
    UNSHAREABLE,
    encodable,
    encodable_text,
    shareable,
)
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.outputs import (
    Append,
    ClearOutputs,
    OutputChange,
    ReplaceOutput,
    StreamEdit,
    stream_text,
)
from tk_ai_extension.notebooks.output_writer import OutputSink
from tk_ai_extension.notebooks.rooms.live import whole
from tk_ai_extension.notebooks.running_outputs import RunningOutputs

if TYPE_CHECKING:
    from tk_ai_extension.notebooks.rooms.room import LiveRoom

FLUSH_SHARE = 10
"""A slow transaction delays the next one by this multiple of its duration.

Appending to a shared text takes time in proportion to its length. The delay bounds the share of time
that it takes, however much a cell prints.
"""


@dataclass(slots=True)
class _Placed:
    """An output of the run in the document.

    Attributes:
        place: Its index among the cell's outputs.
        item: Identifies the very output that the run has made.
        size: Bytes of a stream's text after the last write.
        own: How many of them are the run's, at the end.
    """

    place: int
    item: bytes
    size: int = 0
    own: int = 0


class PlacedOutputs:
    """Which outputs of a shared cell are those of a run.

    Only an output that the run itself has made, and that nobody has replaced, is changed: others may
    have put as many outputs of the same form in its place.
    """

    def __init__(self) -> None:
        # By the executor's index; None for an output that is not in the document.
        self._placed: list[_Placed | None] = []
        self._cell = b""
        self._count: int = 0

    def clear(self, cell: bytes) -> None:
        """Forget all outputs; the cell is this item of the document."""
        self._placed, self._cell, self._count = [], cell, 0

    def check(self, run: RunningOutputs, cell: bytes, outputs: Array[Any]) -> bool:
        """Find the run's outputs again; return False if there were some and all of them are gone.

        Args:
            run: The run, as of the last write.
            cell: The item of the document that the cell is now.
            outputs: Its outputs.
        """
        mine = self._mine()
        count = len(outputs)
        if cell == self._cell and count == self._count and (not mine or _is_at(outputs, mine[-1])):
            return True
        if cell == self._cell:
            places = {_item(outputs, place): place for place in range(count)}
            for index, placed in enumerate(self._placed):
                if placed is not None:
                    placed.place = places.get(placed.item, -1)
                    self._placed[index] = placed if placed.place >= 0 else None
        elif count == self._count and self._is_copy(run, outputs):
            # JupyterLab moves a cell by inserting a copy of it.
            for placed in mine:
                placed.item = _item(outputs, placed.place)
        else:
            self._placed = [None] * len(self._placed)
        self._cell, self._count = cell, count
        return not mine or bool(self._mine())

    def is_intact(self, cell: bytes, outputs: Array[Any]) -> bool:
        """Return whether the cell has exactly the outputs that the last write left."""
        newest = self._newest().values()
        return (
            cell == self._cell
            and len(outputs) == self._count == len(newest)
            and all(_is_at(outputs, each) for each in newest)
            and all(_size(outputs, each.place) == each.size for each in newest)
        )

    def _is_copy(self, run: RunningOutputs, outputs: Array[Any]) -> bool:
        """Return whether a new cell has the content that the last write left."""
        shown = dict(run.numbered())
        for index, placed in self._newest().items():
            there, output = outputs[placed.place], shown.get(index)
            if output is None or _kind(there) != _kind(output):
                return False
            if output["output_type"] != "stream":
                if whole(_plain(there)) != whole(as_shared(output, UNSAFE)):
                    return False
                continue
            own = encodable_text(stream_text(output)).encode("utf-8")[-placed.own :]
            text = str(_field(there, "text")).encode("utf-8", "surrogatepass")
            if len(text) != placed.size or (placed.own and not text.endswith(own)):
                return False
        return True

    def _mine(self) -> list[_Placed]:
        return [placed for placed in self._placed if placed is not None]

    def _newest(self) -> dict[int, _Placed]:
        """Return by the executor's index what was written last at each place.

        Neighbours that are streams of one name are joined in one place.
        """
        newest: dict[int, tuple[int, _Placed]] = {}
        for index, placed in enumerate(self._placed):
            if placed is not None:
                known = newest.get(placed.place)
                if known is None or known[1].size <= placed.size:
                    newest[placed.place] = index, placed
        return dict(newest.values())

    def write_all(self, run: RunningOutputs, outputs: Array[Any]) -> None:
        """Append the visible outputs of a run to an empty cell."""
        for index, output in run.numbered():
            self._skip_to(index)
            self._append(outputs, output)
        self._skip_to(run.mark()[1])
        self._count = len(outputs)

    def change(
        self, run: RunningOutputs, outputs: Array[Any], change: OutputChange, gone: str
    ) -> None:
        """Apply a change that the run has made; ``gone`` is the text that it removes from a stream."""
        match change:
            case Append(output):
                self._append(outputs, output)
            case StreamEdit(index, _, new):
                self._edit_stream(run, outputs, index, new, gone)
            case ReplaceOutput(index, output):
                if (placed := self._find(outputs, index)) is not None:
                    self._replace(outputs, placed.place, output)
            case ClearOutputs():
                outputs.clear()
                self._placed.clear()
        self._count = len(outputs)

    def _skip_to(self, index: int) -> None:
        self._placed += [None] * (index - len(self._placed))

    def _find(self, outputs: Array[Any], index: int) -> _Placed | None:
        placed = self._placed[index]
        return placed if placed is not None and _is_at(outputs, placed) else None

    def _append(self, outputs: Array[Any], output: Json) -> None:
        self._placed.append(_append(outputs, output))

    def _edit_stream(
        self, run: RunningOutputs, outputs: Array[Any], index: int, new: str, gone: str
    ) -> None:
        placed = self._find(outputs, index)
        if placed is None or _size(outputs, placed.place) != placed.size:
            # Someone cleared the cell, or wrote into its stream: later output is a new stream.
            stream = {"output_type": "stream", "name": run.stream_name(index), "text": new}
            self._placed[index] = _append(outputs, stream)
            return
        text: Text = outputs[placed.place]["text"]
        cut = min(len(gone.encode("utf-8")), placed.own)
        if cut:
            del text[placed.size - cut : placed.size]
        text.insert(len(text), new)
        placed.own += len(text) - placed.size
        placed.size = len(text)

    def _replace(self, outputs: Array[Any], place: int, output: Json) -> None:
        """Replace an output; JupyterLab shows an inserted one as the last: insert the later ones again."""
        later = [whole(_plain(outputs[each])) for each in range(place + 1, len(outputs))]
        mine = [each for each in self._placed if each and _is_at(outputs, each)]
        del outputs[place:]
        outputs.extend([shared_output(output, UNSAFE), *map(shared_output, later)])
        for each in mine:
            if each.place >= place:
                each.item = _item(outputs, each.place)


def _item(items: Array[Any], index: int) -> bytes:
    """Return what identifies an item of a shared array, wherever it is; a copy is another item."""
    return items.sticky_index(index).encode()


def _field(output: Any, name: str) -> Any:
    """Return a field of an output: others may have put anything into the document."""
    return cast("Any", output).get(name) if isinstance(output, (Map, dict)) else None


def _kind(output: Any) -> tuple[Any, Any]:
    return _field(output, "output_type"), _field(output, "name")


def _is_at(outputs: Array[Any], placed: _Placed) -> bool:
    return placed.place < len(outputs) and _item(outputs, placed.place) == placed.item


def _size(outputs: Array[Any], place: int) -> int:
    """Return the bytes of an output's shared text; 0 if it has none."""
    text = _field(outputs[place], "text")
    return len(text) if isinstance(text, Text) else 0


def _plain(output: Any) -> Json:
    """Return an output as JSON: jupyter-ydoc puts some into the document without a shared type."""
    return cast("Json", output.to_py() if isinstance(output, Map) else output)


def _append(outputs: Array[Any], output: Json) -> _Placed:
    """Append an output of a run.

    JupyterLab joins neighbours that are streams of one name, in the document too: the text would be in
    it twice.
    """
    last: Any = outputs[len(outputs) - 1] if len(outputs) else None
    before = 0
    is_stream = output["output_type"] == "stream"
    if is_stream and isinstance(last, Map) and _kind(last) == _kind(output):
        text = _field(last, "text")
        if not isinstance(text, Text):
            text = Text(stream_text(cast("Json", last)))
            last["text"] = text
        before = len(text)
        text.insert(before, encodable_text(stream_text(output)))
    else:
        outputs.append(shared_output(output, UNSAFE))
    place = len(outputs) - 1
    size = _size(outputs, place)
    return _Placed(place, _item(outputs, place), size, size - before)


class RoomOutputSink(OutputSink):
    """The outputs of one running cell in its shared document; see `OutputSink`.

    The cell is identified by its shared id, so that it may be moved. If someone cleared the outputs
    meanwhile, later output is appended. If another program's file replaced them, all are written again.

    Args:
        room: The room.
        cell: The cell as it is in the room; None if it is gone.
        origin: The origin of the transactions.
        pinned: Keeps the room open until it is closed.

    Attributes:
        room: See above.
        shared_id: The cell's id in the document; None if it is gone.
    """

    share = FLUSH_SHARE

    def __init__(
        self, room: LiveRoom, cell: Cell | None, origin: str, pinned: AsyncExitStack
    ) -> None:
        self.room = room
        self.shared_id = None if cell is None else room.notebook.shared_id(cell.index)
        self._origin = origin
        self._pinned = pinned
        self._placed = PlacedOutputs()
        self._run: RunningOutputs | None = None
        room.writing.append(self)

    @property
    def has_begun(self) -> bool:
        """See `RoomRun`."""
        return self._run is not None

    async def begin(self, run: RunningOutputs) -> None:
        """See `OutputSink.begin`; includes outputs from before the notebook was in this room."""
        self._run = run
        await self.room.wait_until_loaded()
        self._locate_again(run)
        self._write_all(run)

    def _locate_again(self, run: RunningOutputs) -> None:
        """Find a cell without an id, which has a new one in the document after a reload."""
        if self._index() is None and (cell := run.find(self._snapshot())) is not None:
            self.shared_id = self.room.notebook.shared_id(cell.index)

    def restore(self) -> None:
        """See `RoomRun.restore`."""
        run = self._run
        if run is None:
            return
        self._locate_again(run)
        if (index := self._index()) is None:
            return
        cell = self.room.notebook.shared(index)
        outputs: Any = cell.get("outputs")
        is_array = isinstance(outputs, Array)
        if not is_array or not self._placed.is_intact(self._item(index), cast("Any", outputs)):
            self._write_all(run)
        else:
            self._show_state(run, index)

    async def push_outputs(self, run: RunningOutputs) -> None:
        """See `OutputSink.push_outputs`: all in one transaction."""
        # No transaction of ours can begin within that of a reload.
        await self.room.wait_until_loaded()
        if not run.pending or (index := self._index()) is None:
            run.commit_pending()
            return
        with self._transaction():
            distrust(self.room.notebook.shared(index))
            outputs = self._outputs(index)
            if not self._placed.check(run, self._item(index), outputs):
                run.hide()
            for change, gone in run.commit_pending():
                self._placed.change(run, outputs, change, gone)
        self.room.save_soon()

    async def end(self, run: RunningOutputs, *, save: bool) -> None:  # noqa: ARG002
        """See `OutputSink.end`; the save begins within a second and is not awaited."""
        await self.room.wait_until_loaded()
        if (index := self._index()) is not None:
            self._show_state(run, index)
        self.room.save_soon()

    async def release(self, run: RunningOutputs, *, done: bool) -> None:  # noqa: ARG002
        """See `OutputSink.release`."""
        self.room.writing.remove(self)
        await self._pinned.aclose()

    def _write_all(self, run: RunningOutputs) -> None:
        """Replace the cell's outputs by those of the run.

        In two transactions: JupyterLab adds what is inserted before it removes what is deleted, and
        joins streams.
        """
        if (index := self._index()) is None:
            return
        cell = self.room.notebook.shared(index)
        with self._transaction():
            outputs = self._outputs(index)
            outputs.clear()
            self._show_state(run, index)
            distrust(cell)
        self._placed.clear(self._item(index))
        with self._transaction():
            self._placed.write_all(run, outputs)
        self.room.save_soon()

    def _show_state(self, run: RunningOutputs, index: int) -> None:
        """Show whether the cell runs, and its count."""
        cell = self.room.notebook.shared(index)
        with self._transaction():
            cell["execution_count"] = as_shared(run.execution_count)
            cell["execution_state"] = "idle" if run.ended else "running"

    # --- the document

    def _snapshot(self) -> Any:
        return self.room.notebook.snapshot(self.room.path)

    def _index(self) -> int | None:
        """Return the cell's index; None if it is gone or no longer a code cell."""
        if self.shared_id is None:
            return None
        notebook = self.room.notebook
        index = notebook.find(self.shared_id, self.room.path)
        is_code = index is not None and notebook.shared(index).get("cell_type") == "code"
        return index if is_code else None

    def _item(self, index: int) -> bytes:
        return _item(self.room.notebook.document.ycells, index)

    def _outputs(self, index: int) -> Array[Any]:
        cell = self.room.notebook.shared(index)
        if not isinstance(cell.get("outputs"), Array):
            cell["outputs"] = Array()
        return cell["outputs"]

    def _transaction(self) -> Any:
        return self.room.notebook.document.ydoc.transaction(origin=self._origin)


def distrust(cell: Any) -> None:
    """Mark a cell as not trusted: an agent's outputs must not inherit a person's trust.

    Each write does this, since JupyterLab trusts a cell whose outputs a person clears. Open pages read
    the mark before the outputs of the same transaction (`src/images/trust.ts`).
    """
    metadata: Any = cell.get("metadata")
    if isinstance(metadata, Map) and metadata.get("trusted"):
        metadata["trusted"] = False


def as_shared(value: Any, limit: int = UNSHAREABLE) -> Any:
    """Return a JSON value in the form that it has in a shared document; everything enters it so.

    Args:
        value: The value.
        limit: See `shareable`. What a kernel sends is new: in it, `UNSAFE` integers are rounded for pages.
    """
    return shareable(encodable(value), limit)


def shared_output(output: Json, limit: int = UNSHAREABLE) -> Map[Any]:
    """Return an output as JupyterLab shares it: a stream's text is a shared text that can grow."""
    shared = cast("Json", as_shared(output, limit))
    if shared.get("output_type") == "stream":
        shared = {**shared, "text": Text(stream_text(shared))}
    return Map(shared)
