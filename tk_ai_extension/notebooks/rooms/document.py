"""A notebook in a collaboration room: while the room is open, its shared document is authoritative."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any, TypeVar, cast

from pycrdt import UndoManager

from tk_ai_extension.model.cells import CellContent
from tk_ai_extension.model.encoding import encodable
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.operations import Applied, Operation
from tk_ai_extension.notebooks import cellforms
from tk_ai_extension.notebooks.base import FileChanged
from tk_ai_extension.notebooks.rooms.collaboration import Rooms
from tk_ai_extension.notebooks.rooms.live import whole
from tk_ai_extension.notebooks.rooms.room import LiveRoom
from tk_ai_extension.notebooks.rooms.room_outputs import (
    RoomOutputSink,
    as_shared,
    distrust,
    shared_output,
)
from tk_ai_extension.notebooks.session import (
    Find,
    LoadedNotebook,
    OutputSink,
    RunningCell,
    SessionDocument,
    StoredDocument,
)
from tk_ai_extension.notebooks.textdiff import text_edits
from tk_ai_extension.notebooks.transactions import EditStep, EditTransaction

ORIGIN = "tk_ai_extension"
"""The origin of this extension's transactions, for observers of the document."""

T = TypeVar("T")


class RoomDocument(SessionDocument):
    """A notebook in its room.

    An edit is one transaction with minimal changes of sources, so that people's cursors stay. It is
    saved through the room before it is reported: if another program wrote the file meanwhile, the edit
    is computed again. Outputs of a running cell are saved once a second and after its end.

    Args:
        kept: The document of the stored notebook: its file.
        rooms: The server's rooms.
        warn: Called with warnings for callers.
    """

    kind = "room"

    def __init__(self, kept: StoredDocument, rooms: Rooms, warn: Callable[[str], None]) -> None:
        super().__init__(kept.session)
        self._warn = warn
        self._kept = kept  # Keeps the notebook's session alive.
        self._rooms = rooms

    @property
    def path(self) -> str:
        """See `NotebookDocument.path`; it changes when a person renames the notebook."""
        return self._kept.path

    async def pull(self, look: Callable[[LoadedNotebook], T]) -> T:
        """See `SessionDocument.pull`."""
        async with self._rooms.open_room(self.path) as room:
            await room.refresh()
            await self.session.deliver(self)
            return look(self._pulled(room))

    def _pulled(self, room: LiveRoom) -> LoadedNotebook:
        notebook, path = room.notebook, self.path
        return LoadedNotebook(notebook.snapshot(path), notebook.content, lambda: notebook.raw(path))

    async def attempt(self, operations: Sequence[Operation], number: int) -> Applied | None:  # noqa: ARG002
        """See `SessionDocument.attempt`."""
        self._kept.check_writable()
        async with self._rooms.open_room(self.path) as room:
            await room.reload_if_changed()
            await self.session.deliver(self)
            # Do not await between here and the end of the transaction.
            pulled = self._pulled(room)
            edit = pulled.edited(operations)
            if not edit.steps:
                return Applied(pulled.snapshot, ())
            undo, put = self._apply_steps(room, edit)
            # Before the next await, after which others may have changed the document.
            snapshot, reloads = room.notebook.snapshot(self.path), room.reloads
            document = room.notebook.document
            made = _contents(document, put)
            try:
                if await room.save() != reloads:
                    # Another program's file replaced the edit before it was saved.
                    return None
            except FileChanged:
                return None
            except ToolError as error:
                if made == _contents(document, put):
                    undo.undo()
                    raise
                # The revert would take away what others did to these cells meanwhile.
                self._warn(
                    f"{self.path} was changed, but is not saved: {error.message} "
                    "Do not repeat the change. Fix the cause; it is saved with the next edit."
                )
            finally:
                # Delete it now: if a traceback kept it alive and the garbage collector freed it during
                # another transaction, the document would break.
                del undo
            return Applied(snapshot, edit.changes())

    # --- for the session

    async def locate(self, find: Find) -> RunningCell:
        """See `SessionDocument.locate`."""
        async with AsyncExitStack() as pinned:
            room = await pinned.enter_async_context(self._rooms.open_room(self.path))
            await room.refresh()
            snapshot = room.notebook.snapshot(self.path)
            cell = find(snapshot)
            sink = RoomOutputSink(room, cell, ORIGIN, pinned.pop_all())
            return RunningCell(cell, len(snapshot.cells), sink)

    async def flush(self) -> None:
        """See `NotebookDocument.flush`."""
        room = self._rooms.find(self.path)
        if room is not None and room.unsaved:
            with suppress(FileChanged):  # It was reloaded, and the outputs are saved soon.
                await room.save()

    async def is_current(self, sink: OutputSink) -> bool:
        """See `SessionDocument.is_current`."""
        return isinstance(sink, RoomOutputSink) and self._rooms.is_room_of(sink.room, self.path)

    def _apply_steps(self, room: LiveRoom, edit: EditTransaction) -> tuple[UndoManager, set[str]]:
        """Apply the edit's steps in one transaction; the undo manager reverts only them.

        Returns:
            The undo manager, and the shared ids of the cells that were put into the document: a revert
            takes them away with all that is in them. Other changes are parts of texts.
        """
        document = room.notebook.document
        # A unique origin: undo must not revert outputs and other edits.
        origin = f"{ORIGIN} {uuid.uuid4().hex}"
        undo = UndoManager(scopes=[document.ycells], capture_timeout_millis=0)
        undo.include_origin(origin)
        running = {sink.shared_id for sink in room.writing if sink.has_begun}
        with document.ydoc.transaction(origin=origin):
            put = {_apply_step(document, step, running) for step in edit.steps}
        return undo, put - {""}


def _contents(document: Any, ids: Collection[str]) -> list[Json]:
    """Return the cells with these shared ids, as they are now."""
    return [cast("Json", whole(cell.to_py())) for cell in document.ycells if str(cell["id"]) in ids]


def _apply_step(document: Any, step: EditStep, running: Collection[str | None]) -> str:
    """Apply a step; return the shared id of the cell that it puts into the document, or an empty string."""
    cells = document.ycells
    place = step.to if step.kind == "move" else step.index
    match step.kind:
        case "insert":
            assert step.after is not None
            cells.insert(step.index, _shared_cell(document, step.after))
        case "delete":
            del cells[step.index]
            return ""
        case "move":
            # Yjs 13 has no move: replace the cell by a copy with the same id.
            stored = cast("Json", whole(cells[step.index].to_py()))
            del cells[step.index]
            cells.insert(step.to, document.create_ycell(as_shared(stored)))
            if stored.get("execution_state") == "running":
                cells[step.to]["execution_state"] = "running"
        case "set":
            assert step.before is not None
            assert step.after is not None
            _set(document, step.index, step.before, step.after, running)
            if step.after.type == step.before.type:
                return ""
    return str(cells[place]["id"])


def _shared_cell(document: Any, content: CellContent, shared_id: str | None = None) -> Any:
    stored = cellforms.stored_cell(content, as_lines=False)
    if shared_id is not None:
        stored["id"] = shared_id  # In the document every cell has an id, whatever the format.
    return document.create_ycell(as_shared(stored))


def _set(
    document: Any,
    index: int,
    before: CellContent,
    after: CellContent,
    running: Collection[str | None],
) -> None:
    cells = document.ycells
    cell = cells[index]
    if after.type != before.type:
        # JupyterLab creates a cell's widget once, for its type at that time.
        cells[index] = _shared_cell(document, after, cell["id"])
        return
    if after.source != before.source:
        replace_text(cell["source"], before.source, encodable(after.source))
    if after.outputs != before.outputs:
        distrust(cell)
        outputs = cell["outputs"]
        outputs.clear()
        # A running cell's outputs belong to its run: an edit can only clear them.
        if cell["id"] not in running:
            outputs.extend([shared_output(output) for output in after.outputs])
    if after.execution_count != before.execution_count:
        cell["execution_count"] = as_shared(after.execution_count)


def replace_text(shared: Any, old: str, new: str) -> None:
    """Change a shared text from ``old`` to ``new`` with minimal edits."""
    # A shared text counts bytes. From the end, so that earlier indexes stay valid.
    for edit in reversed(text_edits(old, new)):
        start = len(old[: edit.start].encode("utf-8"))
        size = len(old[edit.start : edit.end].encode("utf-8"))
        if size:
            del shared[start : start + size]
        if edit.new:
            shared.insert(start, edit.new)
