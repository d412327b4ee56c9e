"""Reads a notebook's text: its cells, their spans in the file, and its problems.

This module runs in a worker process for large files (`notebooks.files.indexer`), so it imports little.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from json.decoder import JSONDecodeError
from typing import Any, cast

from tk_ai_extension.model.cells import CELL_TYPES, Cell, OutputsSummary, Snapshot, cell_keys
from tk_ai_extension.model.encoding import encodable, may_escape
from tk_ai_extension.model.errors import InvalidNotebook
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.outputs import summarise
from tk_ai_extension.notebooks import cellforms
from tk_ai_extension.notebooks.jsonspans import (
    JsonForm,
    Member,
    Span,
    scan_array,
    scan_object,
    skip,
)
from tk_ai_extension.notebooks.schema import cell_faults, is_sound, notebook_faults

MAX_WARNINGS = 20
_SHOWN = 100
"""Number of cells from which the form of the others is inferred."""
_NO_OUTPUTS = OutputsSummary()


@dataclass(frozen=True)
class NotebookIndex:
    """An index of a notebook file: everything but its outputs.

    Attributes:
        cells: The cells, in order.
        metadata: The notebook's metadata.
        nbformat: The major and minor version of the format.
        faults: Problems of the notebook apart from its cells.
        cell_faults: Problems of cells, by index.
        spans: Each cell's span in the file, in bytes; None for nbformat 1 to 3.
        array: The span of the array of cells in bytes; valid if ``spans`` is set.
        form: The layout of the file; valid if ``spans`` is set.
        as_lines: Whether multi-line strings are stored as lists of lines.
        key_order: For each type of cell the order of its fields.
        converted: The cells of a notebook of nbformat 1 to 3, converted to nbformat 4; else None.
    """

    cells: tuple[Cell, ...]
    metadata: Json
    nbformat: tuple[int, int]
    faults: tuple[str, ...] = ()
    cell_faults: Mapping[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])
    spans: tuple[Span, ...] | None = None
    array: Span = (0, 0)
    form: JsonForm = field(default_factory=JsonForm)
    as_lines: bool = True
    key_order: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    converted: tuple[Json, ...] | None = None

    @property
    def writable(self) -> bool:
        """Whether the format can be written."""
        return self.nbformat[0] == 4

    @cached_property
    def weight(self) -> int:
        """Characters of source in memory."""
        return sum(len(cell.source) for cell in self.cells)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """The notebook's problems, none of which prevents edits."""
        faults = [*self.faults, *id_faults([cell.id for cell in self.cells], self.nbformat)]
        faults += [f"cell {number}: {f}" for number, fs in self.cell_faults.items() for f in fs]
        if len(faults) > MAX_WARNINGS:
            faults[MAX_WARNINGS:] = [f"and {len(faults) - MAX_WARNINGS} more faults"]
        return tuple(faults)

    def snapshot(self, path: str) -> Snapshot:
        """Return the notebook as it is in the file."""
        return Snapshot(path, self.cells, self.metadata, self.nbformat, self.warnings)


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


def read_notebook(data: bytes, path: str) -> NotebookIndex:
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
    if may_escape(text):
        members = [replace(member, value=encodable(member.value)) for member in members]
    notebook = {member.key: member for member in members}
    major = _number(notebook.get("nbformat"))
    if "worksheets" in notebook or (major is not None and 0 < major < 4):
        return _converted(notebook, place, start)
    array = notebook.get("cells")
    if array is None:
        raise place.invalid("the notebook has no `cells`", start)
    if text[array.start] != "[":
        raise place.invalid("`cells` is not an array", array.start)
    _check(array, place)
    assert array.spans is not None
    index = replace(_index(notebook), form=JsonForm.of(text, start, members))
    before, after = text[: array.start].encode("utf-8"), text[array.end :].encode("utf-8")
    index = replace(index, array=(len(before), len(data) - len(after)))
    offsets = _byte_offsets(data, text, [at for span in array.spans for at in span])
    return replace(index, spans=tuple(zip(offsets[::2], offsets[1::2], strict=True)))


def _decoded(data: bytes, path: str) -> str:
    if data.startswith(b"\xef\xbb\xbf"):
        raise _Place(path, "").invalid("the file starts with a byte order mark", 0)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        raise _Place(path, before).invalid("the file is not UTF-8", len(before)) from error


def _scanned(text: str, start: int, place: _Place) -> list[Member]:
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


def _number(member: Member | None) -> int | None:
    return None if member is None else cellforms.whole_number(member.value)


def _check(array: Member, place: _Place) -> None:
    for number, cell in enumerate(array.value):
        if isinstance(cell, dict) and cell.get("cell_type") in CELL_TYPES:  # pyrefly: ignore[unknown-argument-type]
            continue
        _, spans, _ = scan_array(place.text, array.start)
        fault = "is not an object"
        if isinstance(cell, dict):
            fields = cast("Json", cell)
            kind = fields.get("cell_type")
            fault = f"has the cell_type {kind!r}" if "cell_type" in fields else "has no cell_type"
        raise place.invalid(f"cell {number} {fault}", spans[number][0])


def _index(notebook: Mapping[str, Member]) -> NotebookIndex:
    stored = cast("list[Json]", notebook["cells"].value)
    nbformat = (
        _number(notebook.get("nbformat")) or 4,
        _number(notebook.get("nbformat_minor")) or 0,
    )
    metadata: Any = notebook["metadata"].value if "metadata" in notebook else None
    ids = cellforms.ids_of(stored, nbformat)
    texts = [cellforms.text_of(cell.get("source")) for cell in stored]
    with_ids = cellforms.has_ids(nbformat)
    return NotebookIndex(
        cells=tuple(
            _cell(stored[number], number, key, ids[number], texts[number])
            for number, key in enumerate(cell_keys(ids))
        ),
        metadata=cast("Json", metadata) if isinstance(metadata, dict) else {},
        nbformat=nbformat,
        faults=tuple(notebook_faults({key: member.value for key, member in notebook.items()})),
        cell_faults={
            number: tuple(cell_faults(cell, nbformat))
            for number, cell in enumerate(stored)
            if texts[number] is None or not is_sound(cell, ids=with_ids)
        },
        as_lines=_as_lines(stored[:_SHOWN]),
        key_order={cell["cell_type"]: tuple(cell) for cell in reversed(stored[:_SHOWN])},
    )


def read_cell(stored: Json, index: int, key: str, cell_id: str | None) -> Cell:
    """Return a stored cell as a `Cell`."""
    return _cell(stored, index, key, cell_id, cellforms.text_of(stored.get("source")))


def _converted(notebook: Mapping[str, Member], place: _Place, start: int) -> NotebookIndex:
    """Return the index of a notebook of an old format; its cells have no ids."""
    # Imported late: nbformat is slow to import and rarely needed.
    from tk_ai_extension.notebooks.legacy import LegacyError, read_legacy

    try:
        read = read_legacy({key: member.value for key, member in notebook.items()})
    except LegacyError as error:
        raise place.invalid(str(error), start) from error
    keys = cell_keys([None] * len(read.cells))
    return NotebookIndex(
        cells=tuple(
            read_cell(cell, number, key, None)
            for number, (cell, key) in enumerate(zip(read.cells, keys, strict=True))
        ),
        metadata=read.metadata,
        nbformat=read.nbformat,
        faults=read.faults,
        converted=read.cells,
    )


def _cell(stored: Json, index: int, key: str, cell_id: str | None, text: str | None) -> Cell:
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
            "index": index,
            "key": key,
            "type": kind,
            "source": cellforms.joined(stored.get("source")) if text is None else text,
            "id": cell_id,
            "metadata": metadata if metadata == {} else cellforms.metadata_of(stored),
            "execution_count": count if type(count) is int else cellforms.whole_number(count),
            "outputs": summarise_stored(outputs) if outputs else _NO_OUTPUTS,
        }
    )
    return cell


def renamed(cell: Cell, index: int, key: str) -> Cell:
    """Return the same cell with another index and key."""
    if cell.index == index and cell.key == key:
        return cell
    moved = object.__new__(Cell)
    moved.__dict__.update(cell.__dict__, index=index, key=key)
    return moved


def snapshot_of(
    path: str,
    cells: Sequence[Cell],
    metadata: Json,
    nbformat: tuple[int, int],
    *,
    live: bool = False,
) -> Snapshot:
    """Return the snapshot of a notebook with these cells, each with its index and key there."""
    ids = [cell.id for cell in cells]
    placed = tuple(
        renamed(cell, index, key)
        for index, (cell, key) in enumerate(zip(cells, cell_keys(ids), strict=True))
    )
    return Snapshot(path, placed, metadata, nbformat, tuple(id_faults(ids, nbformat)), live=live)


def summarise_stored(stored: Any) -> OutputsSummary:
    """Return the summary of stored outputs."""
    if not isinstance(stored, list) or not stored:
        return _NO_OUTPUTS
    outputs = cast("list[Any]", stored)
    return summarise([cast("Json", output) for output in outputs if isinstance(output, dict)])


def id_faults(ids: Sequence[str | None], nbformat: tuple[int, int]) -> Iterator[str]:
    """Yield the problems of the ids of a notebook's cells."""
    if not cellforms.has_ids(nbformat):
        return
    if any(cell_id is None for cell_id in ids):
        missing = ids.count(None)
        yield (
            f"{missing} cells have no id; they are addressed as cell-N"
            if missing > 1
            else "1 cell has no id; it is addressed as cell-N"
        )
    for cell_id, count in Counter(ids).items():
        if cell_id is not None and count > 1:
            yield f"the id {cell_id!r} is used {count} times; those cells are addressed as cell-N"


def _byte_offsets(data: bytes, text: str, places: Sequence[int]) -> Sequence[int]:
    """Convert ascending indexes of a text to offsets in its UTF-8 bytes."""
    if len(data) == len(text):
        return places
    offsets: list[int] = []
    before = offset = 0
    for at in places:
        offset += len(text[before:at].encode("utf-8"))
        offsets.append(offset)
        before = at
    return offsets


def _as_lines(stored: Sequence[Json]) -> bool:
    """Return whether most cells store their sources as lines."""
    shown = [isinstance(cell["source"], list) for cell in stored if cell.get("source")]
    return not shown or sum(shown) * 2 >= len(shown)
