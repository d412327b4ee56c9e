"""Notebooks in memory: a stored one with its bytes, and the server's replica of one in a tab.

An edit of a stored notebook replaces the bytes of the cells that it concerns. All others are kept as they are
in the file.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, pairwise
from json.decoder import JSONDecodeError
from operator import attrgetter
from typing import Any, cast

from tk_ai_extension.model.cells import (
    CELL_TYPES,
    Cell,
    CellData,
    OutputsSummary,
    Snapshot,
    cell_keys,
)
from tk_ai_extension.model.errors import InvalidNotebook
from tk_ai_extension.model.json_values import Json, encodable, loads, may_escape
from tk_ai_extension.model.output_changes import summarise
from tk_ai_extension.notebooks import notebook_json
from tk_ai_extension.notebooks.notebook_json import JsonLayout, JsonMember, scan_object, skip

MAX_WARNINGS = 20
CELL_DEPTH = 2
"""Nesting depth of a cell in a notebook: in an array in an object."""
GONE: Any = object()
"""As the new value of a cell's field: remove it."""
_SHOWN = 100
"""Number of cells from which the form of new cells is inferred."""
_NO_OUTPUTS = OutputsSummary()
_id = attrgetter("id")


@dataclass(frozen=True, slots=True)
class EncodedCell:
    """A rewritten cell, as bytes and as JSON."""

    data: bytes
    stored: Json


@dataclass(frozen=True)
class StoredNotebook:
    """A notebook file in memory. The outputs are in its bytes alone.

    Attributes:
        cells: The cells, in order.
        metadata: The notebook's metadata.
        nbformat: The major and minor version of the format.
        before: The file's bytes up to the bracket that opens the array of cells.
        chunks: The bytes between the brackets: white space, a cell, the separator before the next cell,
            and so on, white space at the end.
        after: The bytes from the bracket that closes the array.
        faults: Problems of the notebook apart from its cells.
        cell_faults: The problems of each cell.
        form: The layout of the file.
        as_lines: Whether multi-line strings are stored as lists of lines.
        key_order: For each type of cell the order of its fields.
        converted: The cells of a notebook of nbformat 1 to 3, converted to nbformat 4; else None. Such a
            notebook is not written, and all its bytes are in ``before``.
        is_named: Whether each cell has a unique id, which is its key; an edit keeps that.
    """

    cells: tuple[Cell, ...]
    metadata: Json
    nbformat: tuple[int, int]
    before: bytes
    chunks: tuple[bytes, ...] = ()
    after: bytes = b""
    faults: tuple[str, ...] = ()
    cell_faults: tuple[tuple[str, ...], ...] = ()
    form: JsonLayout = field(default_factory=JsonLayout)
    as_lines: bool = True
    key_order: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    converted: tuple[Json, ...] | None = None
    is_named: bool = False

    @property
    def data(self) -> bytes:
        """The file's content."""
        return b"".join((self.before, *self.chunks, self.after))

    @cached_property
    def digest(self) -> str:
        """The hash of the file's content, as Jupyter computes it."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def size(self) -> int:
        """The number of the file's bytes."""
        return len(self.before) + sum(map(len, self.chunks)) + len(self.after)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """The notebook's problems, none of which prevents edits."""
        faults = [*self.faults]
        if not self.is_named:
            faults += id_faults([*map(_id, self.cells)], self.nbformat)
        if any(self.cell_faults):
            faults += [f"cell {n}: {f}" for n, fs in enumerate(self.cell_faults) for f in fs]
        if len(faults) > MAX_WARNINGS:
            faults[MAX_WARNINGS:] = [f"and {len(faults) - MAX_WARNINGS} more faults"]
        return tuple(faults)

    def snapshot(self, path: str) -> Snapshot:
        """Return the notebook as it is in the file; the same object for the same path."""
        known: Snapshot | None = vars(self).get("_snapshot")
        if known is None or known.path != path:
            known = Snapshot(
                path,
                self.cells,
                self.metadata,
                self.nbformat,
                self.warnings,
                is_named=self.is_named,
            )
            vars(self)["_snapshot"] = known
        return known

    # --- whole cells

    def cell_json(self, index: int) -> Json:
        """Return a cell in stored form (of an old format: converted to nbformat 4)."""
        if self.converted is not None:
            return self.converted[index]
        return loads(self.chunks[2 * index + 1])

    def content(self, index: int) -> CellData:
        """Return the whole content of a cell."""
        return notebook_json.content_of(self.cell_json(index), self.nbformat)

    def raw(self) -> Json:
        """Return the whole notebook as JSON, parsed cell by cell to release the GIL in between."""
        if self.converted is not None:
            return loads(self.before)
        notebook: Json = loads(self.before + self.after)
        return {**notebook, "cells": [self.cell_json(n) for n in range(len(self.cells))]}

    # --- edits

    def edited(
        self, order: Sequence[Sequence[int]], contents: Mapping[int, CellData]
    ) -> StoredNotebook:
        """Return the notebook after an edit; the same object if nothing changes.

        Args:
            order: The cells in their new order (`ComputedEdit.runs`).
            contents: The new and the changed cells.
        """
        bodies: dict[int, EncodedCell] = {}
        for slot, content in contents.items():
            if slot >= 0 and (body := self._changed(slot, content)) is not None:
                bodies[slot] = body
        return self.replaced(bodies).reordered(order, contents)

    def saved(self, order: Sequence[Sequence[int]], cells: Mapping[str, Json]) -> StoredNotebook:
        """Return the notebook with a page's changes; see `edited`.

        Args:
            order: The cells in their order in the page.
            cells: The new cells, and for others the fields that differ, by their numbers.
        """
        contents: dict[int, CellData] = {}
        for number, cell in cells.items():
            slot = int(number)
            old = self.cell_json(slot) if slot >= 0 else {}
            contents[slot] = notebook_json.content_of({**old, **cell}, self.nbformat)
        return self.edited(order, contents)

    def replaced(self, bodies: Mapping[int, EncodedCell]) -> StoredNotebook:
        """Return the notebook with some cells, by index, rewritten; the same object without any."""
        if not bodies:
            return self
        cells, chunks, faults = list(self.cells), list(self.chunks), list(self.cell_faults)
        for index, body in bodies.items():
            old = cells[index]
            cells[index] = read_cell(body.stored, old.key, old.id)
            chunks[2 * index + 1] = body.data
            faults[index] = _cell_faults(body.stored)
        made = replace(self, cells=tuple(cells), chunks=tuple(chunks), cell_faults=tuple(faults))
        if made.cell_faults == self.cell_faults:
            vars(made)["warnings"] = self.warnings
            if (known := vars(self).get("_snapshot")) is not None:
                vars(made)["_snapshot"] = known.with_cells(cells)
        return made

    def reordered(
        self, order: Sequence[Sequence[int]], contents: Mapping[int, CellData]
    ) -> StoredNotebook:
        """Return the notebook with its cells and new ones in this order; the same object if unchanged."""
        present = [(0, len(self.cells))] if self.cells else []
        if [*map(tuple, order)] == present:
            return self
        cells: list[Cell] = []
        faults: list[tuple[str, ...]] = []
        chunks: list[bytes] = []
        line = self.form.line
        opening, closing = self.chunks[0], self.chunks[-1]
        if not self.cells:
            opening, closing = line(CELL_DEPTH).encode(), line(CELL_DEPTH - 1).encode()
        between = b"," + opening if b"\n" in opening else self.form.comma.encode()
        if len(self.cells) > 1:
            between = self.chunks[2]
        for first, end in order:
            for slot in range(first, min(end, 0)):
                body = self.encoded(contents[slot])
                cell_id = notebook_json.id_of(body.stored, self.nbformat)
                cells.append(read_cell(body.stored, cell_id or "", cell_id))
                faults.append(_cell_faults(body.stored))
                chunks += between, body.data
            if end > 0:
                # A cell that was not the first keeps the separator before it.
                start = max(first, 0)
                chunks += (
                    self.chunks[2 * start : 2 * end]
                    if start
                    else (between, *self.chunks[1 : 2 * end])
                )
                cells += self.cells[start:end]
                faults += self.cell_faults[start:end]
        is_named = self.is_named and len({*map(_id, cells)} - {None}) == len(cells)
        return replace(
            self,
            cells=tuple(cells) if is_named else keyed(cells),
            is_named=is_named,
            chunks=(opening, *chunks[1:], closing) if cells else (b"",),
            cell_faults=tuple(faults),
        )

    def encoded(self, content: CellData) -> EncodedCell:
        """Return a new cell in the form of the others."""
        stored = notebook_json.stored_cell(content, as_lines=self.as_lines)
        members = notebook_json.ordered_like(stored, self.key_order.get(content.type, ()))
        text = self.form.dumps_object(members, self.form.line(CELL_DEPTH) or None)
        return EncodedCell(text.encode("utf-8"), stored)

    def updated(self, index: int, values: Json) -> EncodedCell:
        """Return a cell with new values of some fields; `GONE` removes one.

        The cell is rewritten in the form of the others; fields keep their order.
        """
        body = self.chunks[2 * index + 1]
        old: Json = json.loads(body)
        made = {name: value for name, value in {**old, **values}.items() if value is not GONE}
        if sorted(old) == [*old]:
            made = dict(sorted(made.items()))
        line = self.form.line(CELL_DEPTH) or None
        text = self.form.dumps_object(made, line, made.keys() - values.keys())
        return EncodedCell(text.encode("utf-8"), encodable(made) if may_escape(body) else made)

    def _changed(self, index: int, after: CellData) -> EncodedCell | None:
        """Return a cell with a new content; None if it is the same."""
        stored = self.cell_json(index)
        before = notebook_json.content_of(stored, self.nbformat)
        values = _changed_fields(stored, before, after, as_lines=self.as_lines)
        return self.updated(index, values) if values else None


def _changed_fields(stored: Json, before: CellData, after: CellData, *, as_lines: bool) -> Json:
    """Return the fields of a stored cell that change, with their new values."""
    values: Json = {}
    if after.metadata != before.metadata:
        values["metadata"] = dict(after.metadata)
    values |= {
        name: value for name, value in after.extra.items() if before.extra.get(name) != value
    }
    if after.source != before.source:
        text = isinstance(stored.get("source"), str)
        values["source"] = after.source if text else notebook_json.split(after.source)
    if after.type != before.type:
        values["cell_type"] = after.type
        gone = {"attachments"} if after.type == "code" else {"outputs", "execution_count"}
        values |= {name: GONE for name in gone if name in stored}
    if after.type == "code":
        if after.outputs != before.outputs or "outputs" not in stored:
            values["outputs"] = notebook_json.stored_outputs(after.outputs, as_lines=as_lines)
        if after.execution_count != before.execution_count or "execution_count" not in stored:
            values["execution_count"] = after.execution_count
    return values


# --- reading


class _Place:
    """Makes errors with a path, line and column."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text

    def invalid(self, what: str, at: int) -> InvalidNotebook:
        line = self.text.count("\n", 0, at) + 1
        column = at - self.text.rfind("\n", 0, at)
        return InvalidNotebook(
            f"{self.path}, line {line}, column {column}: {what}",
            path=self.path,
            line=line,
            column=column,
        )


def read_notebook(data: bytes, path: str) -> StoredNotebook:
    """Read a notebook file's content.

    Args:
        data: The file's bytes.
        path: The notebook's path, for messages.

    Raises:
        InvalidNotebook: not UTF-8, not JSON, no array of cells, or an element that is not a cell. The
            message names the file, line and column.
    """
    text = _decoded(data, path)
    place = _Place(path, text)
    start = skip(text, 0)
    if start == len(text):
        raise place.invalid("the file is empty", start)
    members = _scanned(text, start, place)
    notebook = {member.key: member for member in members}
    major = _number(notebook.get("nbformat"))
    if "worksheets" in notebook or (major is not None and 0 < major < 4):
        return _converted(data, notebook, place, start)
    array = notebook.get("cells")
    if array is None:
        raise place.invalid("the notebook has no `cells`", start)
    if text[array.start] != "[":
        raise place.invalid("`cells` is not an array", array.start)
    _check(array, place)
    assert array.spans is not None
    # An ASCII text has its bytes at the same places.
    cut = data.__getitem__ if len(data) == len(text) else lambda s: text[s].encode("utf-8")
    first, last = array.start + 1, array.end - 1
    edges = [first, *chain.from_iterable(array.spans), last]
    chunks = tuple(cut(slice(at, end)) for at, end in pairwise(edges))
    cells = [
        encodable(cell) if may_escape(chunk) else cell
        for cell, chunk in zip(array.value, chunks[1::2], strict=True)
    ]
    around = {
        member.key: encodable(member.value)
        if may_escape(text[member.at : member.end])
        else member.value
        for member in members
        if member is not array
    }
    return replace(
        _index(cells, around),
        before=cut(slice(0, first)),
        chunks=chunks,
        after=cut(slice(last, None)),
        form=JsonLayout.of(text, start, members),
    )


def _decoded(data: bytes, path: str) -> str:
    if data.startswith(b"\xef\xbb\xbf"):
        raise _Place(path, "").invalid("the file starts with a byte order mark", 0)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        raise _Place(path, before).invalid("the file is not UTF-8", len(before)) from error


def _scanned(text: str, start: int, place: _Place) -> list[JsonMember]:
    if text[start] != "{":
        raise place.invalid("the file does not hold a JSON object", start)
    try:
        members, end = scan_object(text, start, ("cells",))
    except JSONDecodeError as error:
        raise place.invalid(f"invalid JSON: {error.msg}", error.pos) from error
    except (RecursionError, ValueError) as error:
        raise place.invalid(f"JSON that cannot be read: {error}", start) from error
    rest = skip(text, end)
    if rest != len(text):
        raise place.invalid("invalid JSON: text after the end of the object", rest)
    return members


def _number(member: JsonMember | None) -> int | None:
    return None if member is None else notebook_json.whole_number(member.value)


def _check(array: JsonMember, place: _Place) -> None:
    assert array.spans is not None
    for number, cell in enumerate(array.value):
        if isinstance(cell, dict) and cell.get("cell_type") in CELL_TYPES:  # pyrefly: ignore[unknown-argument-type]
            continue
        fault = "is not an object"
        if isinstance(cell, dict):
            fields = cast("Json", cell)
            kind = fields.get("cell_type")
            fault = f"has the cell_type {kind!r}" if "cell_type" in fields else "has no cell_type"
        raise place.invalid(f"cell {number} {fault}", array.spans[number][0])


def _index(stored: list[Json], around: Json) -> StoredNotebook:
    """Return a notebook without its bytes, from its cells and its other fields."""
    nbformat = (
        notebook_json.whole_number(around.get("nbformat")) or 4,
        notebook_json.whole_number(around.get("nbformat_minor")) or 0,
    )
    metadata: Any = around.get("metadata")
    ids = notebook_json.ids_of(stored, nbformat)
    keys = cell_keys(ids)
    return StoredNotebook(
        cells=tuple(read_cell(stored[number], key, ids[number]) for number, key in enumerate(keys)),
        metadata=cast("Json", metadata) if isinstance(metadata, dict) else {},
        nbformat=nbformat,
        before=b"",
        faults=tuple(_notebook_faults(around)),
        cell_faults=tuple(map(_cell_faults, stored)),
        as_lines=_as_lines(stored[:_SHOWN]),
        key_order={cell["cell_type"]: tuple(cell) for cell in reversed(stored[:_SHOWN])},
        is_named=notebook_json.has_ids(nbformat) and keys == ids,
    )


def _converted(
    data: bytes, notebook: Mapping[str, JsonMember], place: _Place, start: int
) -> StoredNotebook:
    """Return a notebook of nbformat 1 to 3, as nbformat converts it; its cells have no ids."""
    import nbformat  # Slow to import and rarely needed.

    major, minor = _number(notebook.get("nbformat")) or 1, _number(notebook.get("nbformat_minor"))
    captured: Json = {}
    try:
        read: Any = nbformat.reads
        converted: Any = read(data.decode(), as_version=4, capture_validation_error=captured)
        # Each conversion makes up other ids.
        stored = [
            encodable({k: v for k, v in cell.items() if k != "id"}) for cell in converted.cells
        ]
    except Exception as error:
        # nbformat's conversion does not check types and raises any exception, AssertionError included.
        what = f"a notebook of nbformat {major} that cannot be converted"
        raise place.invalid(f"{what} ({type(error).__name__}: {error})", start) from error
    for number, cell in enumerate(stored):
        if cell.get("cell_type") not in CELL_TYPES:
            raise place.invalid(f"cell {number} has the cell_type {cell.get('cell_type')!r}", start)
    faults = [f"nbformat {major} can be read, not written"]
    if "ValidationError" in captured:
        faults.append(str(captured["ValidationError"]).partition("\n")[0])
    cells = [read_cell(cell, "", None) for cell in stored]
    return StoredNotebook(
        cells=keyed(cells),
        metadata=encodable(dict(converted.metadata)),
        nbformat=(major, minor or 0),
        before=data,
        faults=tuple(faults),
        cell_faults=((),) * len(cells),
        converted=tuple(stored),
    )


def read_cell(stored: Json, key: str, cell_id: str | None) -> Cell:
    """Return a stored cell as a `Cell`."""
    kind = stored["cell_type"]
    metadata: Any = stored.get("metadata")
    count = outputs = None
    if kind == "code":
        count, outputs = stored.get("execution_count"), stored.get("outputs")
    # A frozen dataclass sets its fields one by one through object.__setattr__. This is twice as fast,
    # which matters for thousands of cells.
    cell = object.__new__(Cell)
    cell.__dict__.update(
        {
            "key": key,
            "type": kind,
            "source": notebook_json.joined(stored.get("source")),
            "id": cell_id,
            "metadata": metadata if metadata == {} else notebook_json.metadata_of(stored),
            "execution_count": count if type(count) is int else notebook_json.whole_number(count),
            "outputs": summarise_stored(outputs) if outputs else _NO_OUTPUTS,
        }
    )
    return cell


def keyed(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """Return cells with the keys that they have in this order."""
    return tuple(map(_with_key, cells, cell_keys([*map(_id, cells)])))


def _with_key(cell: Cell, key: str) -> Cell:
    if cell.key == key:
        return cell
    # As in `read_cell`; cached values about the source stay.
    made = object.__new__(Cell)
    made.__dict__.update(vars(cell), key=key)
    made.__dict__.pop("stamp", None)
    return made


def summarise_stored(stored: Any) -> OutputsSummary:
    """Return the summary of stored outputs."""
    if not isinstance(stored, list) or not stored:
        return _NO_OUTPUTS
    outputs = cast("list[Any]", stored)
    return summarise([cast("Json", output) for output in outputs if isinstance(output, dict)])


def _notebook_faults(notebook: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of a notebook apart from its cells."""
    for name in ("nbformat", "nbformat_minor"):
        if not isinstance(notebook.get(name), int):
            yield f"`{name}` is missing or not a number"
    if not isinstance(notebook.get("metadata"), dict):
        yield "the notebook's `metadata` is missing or not an object"


def _cell_faults(cell: Json) -> tuple[str, ...]:
    """Return the problems of a cell that is an object with a valid type; invalid fields are ignored."""
    faults: list[str] = []
    if notebook_json.text_of(cell.get("source")) is None:
        faults.append("`source` is missing or not text")
    if not isinstance(cell.get("metadata"), dict):
        faults.append("`metadata` is missing or not an object")
    if cell["cell_type"] == "code":
        outputs: Any = cell.get("outputs")
        if not isinstance(outputs, list):
            faults.append("`outputs` is missing or not an array")
    return tuple(faults)


def id_faults(ids: Sequence[str | None], nbformat: tuple[int, int]) -> Iterator[str]:
    """Yield the problems of the ids of a notebook's cells."""
    if not notebook_json.has_ids(nbformat):
        return
    if None in ids:
        missing = ids.count(None)
        yield (
            f"{missing} cells have no id; they are addressed as cell-N"
            if missing > 1
            else "1 cell has no id; it is addressed as cell-N"
        )
    if len(set(ids)) == len(ids):
        return
    for cell_id, times in Counter(ids).items():
        if cell_id is not None and times > 1:
            yield f"the id {cell_id!r} is used {times} times; those cells are addressed as cell-N"


def _as_lines(stored: Sequence[Json]) -> bool:
    """Return whether most cells store their sources as lines."""
    shown = [isinstance(cell["source"], list) for cell in stored if cell.get("source")]
    return not shown or sum(shown) * 2 >= len(shown)


@dataclass
class TabReplica:
    """A replica of the notebook in a tab.

    The tab numbers the changes of its notebook; each cell, the order of the cells and the metadata have
    the number of their last change. In the tab every cell has an id, in any format.

    Attributes:
        version: The number of the last known change; 0 before the first update.
        ids: The cells' ids in the tab, in order.
        checked: Whether the stored notebook's format is known to be writable.
        read_at: When the tab was asked last, on the monotonic clock.
    """

    version: int = 0
    ids: list[str] = field(default_factory=list[str])
    checked: bool = False
    read_at: float = 0.0
    _stored: dict[str, Json] = field(default_factory=dict[str, Json])
    _cells: dict[str, Cell] = field(default_factory=dict[str, Cell])
    _changed: set[str] = field(default_factory=set[str])
    _unnamed: set[str] = field(default_factory=set[str])
    _metadata: Json = field(default_factory=dict[str, Any])
    _nbformat: tuple[int, int] = (4, 5)
    _snapshot: Snapshot | None = None

    async def update(self, ask: Callable[..., Awaitable[Json]], answer: Json | None = None) -> None:
        """Merge the changes since the last update, which the tab is asked for.

        Args:
            ask: Asks the tab (`Tab.ask`), and raises its errors.
            answer: An answer of the tab with changes; only the missing parts are requested.
        """
        more, asked_at = True, time.monotonic()
        while more:
            delta = await ask("read", since=self.version) if answer is None else answer
            more, answer = bool(delta.get("more")), None
            if more or delta["version"] != self.version:
                self._merge(delta)
        self.read_at = asked_at

    def _merge(self, delta: Json) -> None:
        """Merge changes.

        Args:
            delta: ``version``, ``changed`` (cells by id) and, if they changed, ``order`` (ids),
                ``metadata`` and ``nbformat``.
        """
        self.version = int(delta["version"])
        for cell_id, stored in cast("dict[str, Json]", delta["changed"]).items():
            self._stored[cell_id] = _plain(stored)
            self._changed.add(cell_id)
        if (order := delta.get("order")) is not None:
            self.ids = list(order)
            if len(self._stored) > len(self.ids):
                for gone in self._stored.keys() - self.ids:
                    del self._stored[gone]
                    self._cells.pop(gone, None)
                    self._unnamed.discard(gone)
            self._snapshot = None
        if delta.get("metadata") is not None:
            self._metadata, self._snapshot = delta["metadata"], None
        if delta.get("nbformat") is not None:
            major, minor = delta["nbformat"]
            if (major, minor) != self._nbformat:
                self._nbformat = (int(major), int(minor))
                self._changed, self._snapshot = {*self._stored}, None

    # --- reading

    def snapshot(self, path: str) -> Snapshot:
        """Return the notebook as of the last update; the cost depends on the changes since the last call."""
        known, changed = self._snapshot, self._changed & self._stored.keys()
        for cell_id in changed:
            stored = self._stored[cell_id]
            own = notebook_json.id_of(stored, self._nbformat)
            self._cells[cell_id] = read_cell(stored, cell_id, own)
            # In a tab each cell has a unique id, in any format.
            (self._unnamed.discard if own == cell_id else self._unnamed.add)(cell_id)
        if known is None or known.path != path:
            cells, faults = tuple(map(self._cells.__getitem__, self.ids)), ()
            if self._unnamed:
                cells = keyed(cells)
                faults = tuple(id_faults([*map(_id, cells)], self._nbformat))
            known = Snapshot(
                path,
                cells,
                self._metadata,
                self._nbformat,
                faults,
                live=True,
                is_named=not self._unnamed,
            )
        elif changed:
            # The ids of cells do not change, nor do their places and keys.
            shown = list(known.cells)
            for cell_id in changed:
                index = self.ids.index(cell_id)
                shown[index] = _with_key(self._cells[cell_id], shown[index].key)
            known = known.with_cells(shown)
        self._snapshot = known
        self._changed.clear()
        return known

    def content(self, index: int) -> CellData:
        """Return the whole content of a cell."""
        return notebook_json.content_of(self._stored[self.ids[index]], self._nbformat)

    def raw(self) -> Json:
        """Return the whole notebook as JSON."""
        cells = [dict(self._stored[cell_id]) for cell_id in self.ids]
        if not notebook_json.has_ids(self._nbformat):
            for cell in cells:
                cell.pop("id", None)
        major, minor = self._nbformat
        return notebook_json.without_transient(
            {
                "cells": cells,
                "metadata": self._metadata,
                "nbformat": major,
                "nbformat_minor": minor,
            }
        )


def _plain(stored: Json) -> Json:
    """Return a cell in stored form, without transient fields."""
    stored.pop("execution_state", None)
    if stored.get("cell_type") != "code" and not stored.get("attachments"):
        stored.pop("attachments", None)
    return stored
