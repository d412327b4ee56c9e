"""A shared notebook (jupyter-ydoc's YNotebook): a snapshot that follows its changes, and its JSON.

Reading a shared cell costs a tenth of a millisecond, too much for thousands of cells at each call. So
cells are cached, and the document's events say which of them to read again.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from inspect import signature
from typing import Any, Protocol, cast

from pycrdt import Map

from tk_ai_extension.model.cells import Cell, CellContent, Snapshot
from tk_ai_extension.model.encoding import MALFORMED
from tk_ai_extension.model.errors import InvalidNotebook
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.notebooks import cellforms
from tk_ai_extension.notebooks.reading import read_cell, snapshot_of

_TRIES = 3
"""How often a notebook is collected cell by cell if it changes meanwhile."""


@dataclass(slots=True)
class _Known:
    """The cached state of a shared cell; it has a shared id even if the format has no ids."""

    shared_id: str = ""
    cell: Cell | None = None


class LiveNotebook:
    """The cells of a YNotebook, as they are now.

    Args:
        document: The YNotebook.
        changed: Called after each transaction that changed the notebook.

    Attributes:
        changes: How many transactions changed it so far.
    """

    def __init__(self, document: Any, changed: Callable[[], None]) -> None:
        self.document = document
        self.changes = 0
        self._changed = changed
        self._known: list[_Known] | None = None
        self._snapshot: Snapshot | None = None
        self._nbformat = (4, 5)
        this = weakref.ref(self)

        def cells_changed(events: Sequence[Any]) -> None:
            if (live := this()) is not None:
                live.on_cells(events)

        def meta_changed(_: Any) -> None:
            if (live := this()) is not None:
                live.on_meta()

        # The document's own `observe` would replace the room's subscription.
        self._meta = document.ydoc.get("meta", type=Map)
        self._subscriptions = [
            (document.ycells, document.ycells.observe_deep(cells_changed)),
            (self._meta, self._meta.observe_deep(meta_changed)),
        ]

    def close(self) -> None:
        """Stop following."""
        for shared, subscription in self._subscriptions:
            shared.unobserve(subscription)
        self._subscriptions.clear()

    # --- reading

    def snapshot(self, path: str) -> Snapshot:
        """Return the current notebook."""
        if self._snapshot is None or self._snapshot.path != path:
            self._refresh(path)
        assert self._snapshot is not None
        return self._snapshot

    def content(self, index: int) -> CellContent:
        """Return the whole content of a cell."""
        return cellforms.content_of(self._stored(index), self._nbformat)

    def raw(self, path: str) -> Json:
        """Return the whole notebook as JSON.

        Raises:
            InvalidNotebook.
        """
        with representable(path):
            notebook = cast("Json", whole(self.document.get()))
        return cellforms.without_transient(notebook)

    def shared(self, index: int) -> Any:
        """Return the shared cell at an index of the current snapshot."""
        return self.document.ycells[index]

    def shared_id(self, index: int) -> str:
        """Return a cell's id in the document, which does not change when it is moved."""
        assert self._known is not None
        return self._known[index].shared_id

    def find(self, shared_id: str, path: str) -> int | None:
        """Return the index of the cell with this shared id, or None.

        Of changed cells only the id is read: a running cell has changed at each call.
        """
        if self._known is None:
            self._refresh(path)
        assert self._known is not None
        return next(
            (i for i, known in enumerate(self._known) if self._id_now(i, known) == shared_id), None
        )

    def _id_now(self, index: int, known: _Known) -> str:
        """Return a cell's current shared id; the cached one is outdated once the cell changed."""
        if known.cell is not None:
            return known.shared_id
        return str(self.document.ycells[index].get("id", ""))

    def _refresh(self, path: str) -> None:
        meta = cast("Json", whole(self._meta.to_py() or {}))
        self._nbformat = (int(meta.get("nbformat", 4)), int(meta.get("nbformat_minor", 0)))
        if self._known is None:
            self._known = [
                _Known(str(stored.get("id", "")), self._read(stored))
                for stored in self._all_stored()
            ]
        for index, known in enumerate(self._known):
            if known.cell is None:
                stored = self._stored(index)
                known.shared_id, known.cell = str(stored.get("id", "")), self._read(stored)
        cells = [known.cell for known in self._known if known.cell is not None]
        metadata = cast("Json", meta.get("metadata") or {})
        self._snapshot = snapshot_of(path, cells, metadata, self._nbformat, live=True)
        for known, cell in zip(self._known, self._snapshot.cells, strict=True):
            known.cell = cell

    def _read(self, stored: Json) -> Cell:
        return read_cell(stored, 0, "", cellforms.id_of(stored, self._nbformat))

    def _all_stored(self) -> list[Json]:
        """Return all cells at once, through the document's own JSON text: ten times faster."""
        try:
            cells = json.loads(str(self.document.ycells))
        except ValueError:  # A value that JSON does not have.
            cells = self.document.ycells.to_py()
        return [self._plain(cell) for cell in cells]

    def _stored(self, index: int) -> Json:
        return self._plain(self.document.ycells[index].to_py())

    @staticmethod
    def _plain(cell: Json) -> Json:
        """Return a shared cell in stored form: integral numbers as integers, no transient fields."""
        cell.pop("execution_state", None)
        for field in ("metadata", "outputs", "attachments"):
            if cell.get(field):
                cell[field] = whole(cell[field])
        if cell.get("cell_type") != "code" and not cell.get("attachments"):
            cell.pop("attachments", None)
        return cell

    # --- following

    def on_cells(self, events: Sequence[Any]) -> None:
        """Handle a transaction that changed cells."""
        self.changes += 1
        self._snapshot = None
        known = self._known
        if known is not None:
            paths: list[list[Any]] = [event.path for event in events]
            for event, path in zip(events, paths, strict=True):
                if not path:
                    _apply_delta(known, event.delta)
            # The paths refer to the document after the transaction.
            for path in paths:
                if path and path[0] < len(known):
                    known[path[0]].cell = None
        self._changed()

    def on_meta(self) -> None:
        """Handle a transaction that changed the notebook's metadata or format."""
        self.changes += 1
        self._snapshot = self._known = None
        self._changed()


def whole(value: Any) -> Any:
    """Return a shared value with integral floats as integers: JavaScript does not distinguish them.

    Keys are sorted as in nbformat: shared maps have no order, and each read returns another one.

    >>> whole({"b": 1.0, "a": [2.5]})
    {'a': [2.5], 'b': 1}
    """
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, dict):
        return {key: whole(item) for key, item in sorted(cast("Json", value).items())}
    if isinstance(value, list):
        return [whole(item) for item in cast("list[Any]", value)]
    return value


def _apply_delta(known: list[_Known], delta: Sequence[Json]) -> None:
    """Apply a transaction's changes of the shared cells to the cached list."""
    at = 0
    for part in delta:
        if "retain" in part:
            at += int(part["retain"])
        elif "insert" in part:
            new = [_Known() for _ in part["insert"]]
            known[at:at] = new
            at += len(new)
        else:
            del known[at : at + int(part["delete"])]


# --- as JSON


def collect_at_one_moment(document: Any, changes: Callable[[], int]) -> Callable[[], None]:
    """Replace a document's ``aget``, so that the notebook is collected again if it changed meanwhile.

    jupyter-ydoc collects cells one by one and yields to other tasks in between. A cell that is moved
    down meanwhile is collected twice; if it also changed, jupyter-ydoc takes the two for different
    cells and gives the shared one a new id, so that its run no longer finds it. The room's own saves
    also use ``aget``.

    Args:
        document: The YNotebook.
        changes: Returns the number of transactions that changed it so far.

    Returns:
        A function that restores the original.
    """
    collect = document.aget
    kept = {"deduplicate": False} if "deduplicate" in signature(collect).parameters else {}

    async def aget(*args: Any, **kwargs: Any) -> Json:
        for _ in range(_TRIES):
            before = changes()
            try:
                content: Json = await collect(**kept)
            except IndexError:  # A cell was deleted meanwhile.
                continue
            if changes() == before and not _has_duplicates(content["cells"]):
                return content
        return document.get(*args, **kwargs)

    document.aget = aget

    def stop() -> None:
        with suppress(AttributeError):
            del document.aget

    return stop


def _has_duplicates(cells: Sequence[Json]) -> bool:
    ids = [cell["id"] for cell in cells if cell.get("id")]
    return len(set(ids)) < len(ids)


@contextmanager
def readable(path: str) -> Generator[None]:
    """Convert jupyter-ydoc's errors for notebooks that it cannot load to `InvalidNotebook`.

    Raises:
        InvalidNotebook.
    """
    try:
        yield
    except UnicodeEncodeError as error:
        raise InvalidNotebook(
            f"{path} contains a lone surrogate, so Jupyter cannot open it for collaboration.",
            hint="Replace the lone JSON escape between \\ud800 and \\udfff in the file.",
            path=path,
        ) from error
    except BaseException as error:
        # A panic of pycrdt is no `Exception`, and its class cannot be imported.
        is_panic = type(error).__name__ == "PanicException"
        if not (is_panic or isinstance(error, (*MALFORMED, OverflowError))):
            raise
        # Valid JSON that jupyter-ydoc cannot load.
        raise InvalidNotebook(
            f"{path} cannot be opened for collaboration: {error}", path=path
        ) from error


@contextmanager
def representable(path: str) -> Generator[None]:
    """Convert jupyter-ydoc's errors for infinite numbers and NaN to `InvalidNotebook`.

    Raises:
        InvalidNotebook.
    """
    try:
        yield
    except (OverflowError, ValueError) as error:
        raise InvalidNotebook(
            f"{path} contains an infinite number or NaN and cannot be saved from a collaboration room.",
            hint="Repair the number in the file, or close the notebook everywhere and edit its file.",
            path=path,
        ) from error


class RoomRun(Protocol):
    """A running cell whose outputs are written to a room.

    Attributes:
        shared_id: The cell's id in the room's document; None if the cell is gone.
    """

    shared_id: str | None

    @property
    def has_begun(self) -> bool:
        """Whether the cell has the run's outputs; before, it has those of its last run."""
        ...

    def restore(self) -> None:
        """Write the run's outputs again after the room's content was replaced."""
        ...


@dataclass(eq=False)
class Pin:
    """A client that keeps a room open."""

    path: str

    async def send(self, message: bytes) -> None:
        """Ignore an update."""
