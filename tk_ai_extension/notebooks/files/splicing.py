"""Applies an edit to a notebook file: the bytes that stay, the new bytes, and the new index."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tk_ai_extension.model.cells import Cell, CellContent, cell_keys
from tk_ai_extension.model.encoding import loads
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.notebooks import cellforms
from tk_ai_extension.notebooks.jsonspans import DROP, JsonForm, Span, edit_object, scan_object
from tk_ai_extension.notebooks.reading import NotebookIndex, read_cell, renamed
from tk_ai_extension.notebooks.schema import cell_faults
from tk_ai_extension.notebooks.transactions import EditTransaction

CELL_DEPTH = 2
"""Nesting depth of a cell in a notebook: in an array in an object."""

Piece = Span | bytes
"""A part of a new file: a span of the old one, or new bytes."""

Read = Callable[[Span], bytes]
"""Reads a span of the old file."""


@dataclass(frozen=True, slots=True)
class EncodedCell:
    """A rewritten cell, as bytes and as JSON."""

    data: bytes
    stored: Json


@dataclass(frozen=True, slots=True)
class Splice:
    """A new file, made of spans of the old one and new bytes, and its index."""

    pieces: tuple[Piece, ...]
    index: NotebookIndex


def stored_cell(index: NotebookIndex, number: int, read: Read) -> Json:
    """Return a cell in stored form (of an old format: converted to nbformat 4)."""
    if index.converted is not None:
        return index.converted[number]
    assert index.spans is not None
    return loads(read(index.spans[number]))


def load_cell(index: NotebookIndex, number: int, read: Read) -> CellContent:
    """Return the whole content of a cell."""
    return cellforms.content_of(stored_cell(index, number, read), index.nbformat)


def load_notebook(index: NotebookIndex, read: Read) -> Json:
    """Return the whole notebook, parsed cell by cell to release the GIL in between."""
    if index.spans is None:
        return loads(read((0, END)))
    around = read((0, index.array[0])) + b"[]" + read((index.array[1], END))
    notebook: Json = loads(around)
    return {**notebook, "cells": [stored_cell(index, n, read) for n in range(len(index.cells))]}


# --- rewritten cells


def encoded_cells(
    index: NotebookIndex, edit: EditTransaction, read: Read
) -> dict[int, EncodedCell]:
    """Return the cells that an edit changed or created, by slot."""
    bodies: dict[int, EncodedCell] = {}
    for slot, content in edit.contents.items():
        if slot < 0:
            bodies[slot] = _new_body(index, content)
        elif (body := _edited_body(index, slot, content, read)) is not None:
            bodies[slot] = body
    return bodies


def _new_body(index: NotebookIndex, content: CellContent) -> EncodedCell:
    stored = cellforms.stored_cell(content, as_lines=index.as_lines)
    order = index.key_order.get(content.type, ())
    members = cellforms.ordered_like(stored, order)
    line = index.form.line(CELL_DEPTH) or None
    return EncodedCell(index.form.dumps_object(members, line).encode("utf-8"), stored)


def _edited_body(
    index: NotebookIndex, slot: int, after: CellContent, read: Read
) -> EncodedCell | None:
    assert index.spans is not None
    text = read(index.spans[slot]).decode("utf-8")
    stored: Json = loads(text)
    before = cellforms.content_of(stored, index.nbformat)
    values = _changed_fields(stored, before, after, as_lines=index.as_lines)
    if not values:
        return None
    edited = edit_object(text, values, index.form)
    return EncodedCell(edited.encode("utf-8"), _updated(stored, values))


def _changed_fields(
    stored: Json, before: CellContent, after: CellContent, *, as_lines: bool
) -> Json:
    """Return the fields of a stored cell that change, with their new values."""
    values: Json = {}
    if after.source != before.source:
        text = isinstance(stored.get("source"), str)
        values["source"] = after.source if text else cellforms.split(after.source)
    if after.type != before.type:
        values["cell_type"] = after.type
        dropped = {"attachments"} if after.type == "code" else {"outputs", "execution_count"}
        values |= {field: DROP for field in dropped if field in stored}
    if after.type == "code":
        if after.outputs != before.outputs or "outputs" not in stored:
            values["outputs"] = cellforms.stored_outputs(after.outputs, as_lines=as_lines)
        if after.execution_count != before.execution_count or "execution_count" not in stored:
            values["execution_count"] = after.execution_count
    return values


def _updated(stored: Json, values: Mapping[str, Any]) -> Json:
    merged = {**stored, **values}
    return {field: value for field, value in merged.items() if value is not DROP}


@dataclass(frozen=True, slots=True)
class Frame:
    """A code cell without its outputs and count, for a cell that is rewritten repeatedly.

    Attributes:
        texts: The cell's text before, between and after the two values.
        fields: The two fields, in their order in the text.
        line: The start of the lines beside the outputs; None if they are on one line.
        stored: The cell as JSON, without outputs and count.
    """

    texts: tuple[str, str, str]
    fields: tuple[str, str]
    line: str | None
    stored: Json

    def body(self, outputs: list[Json], count: int | None, form: JsonForm) -> EncodedCell:
        """Return the cell with these outputs (in stored form) and this count."""
        values: Json = {"outputs": outputs, "execution_count": count}
        first, second = (form.dumps(values[field], self.line) for field in self.fields)
        before, between, after = self.texts
        text = f"{before}{first}{between}{second}{after}"
        return EncodedCell(text.encode("utf-8"), {**self.stored, **values})


def frame_of(index: NotebookIndex, body: bytes) -> Frame:
    """Return the frame of the code cell with these bytes."""
    empty: Json = {"outputs": [], "execution_count": None}
    text = edit_object(body.decode("utf-8"), empty, index.form)
    last = {member.key: member for member in scan_object(text, 0)[0]}
    first, second = sorted((last[field] for field in empty), key=lambda member: member.at)
    lines, newline, lead = text[: last["outputs"].at].rpartition("\n")
    if not newline or lead.strip() or index.form.indent is None:
        line = None
    else:
        line = ("\r\n" if lines.endswith("\r") else "\n") + lead
    return Frame(
        texts=(text[: first.start], text[first.end : second.start], text[second.end :]),
        fields=(first.key, second.key),
        line=line,
        stored=loads(text),
    )


# --- the whole file


def assemble(
    index: NotebookIndex, order: list[int], bodies: Mapping[int, EncodedCell], read: Read
) -> Splice:
    """Return the file with its cells in a new order and some of them rewritten.

    Args:
        index: The old file's index, with spans.
        order: Slots: an index of the old file, or a negative number for a new cell.
        bodies: The rewritten cells, by slot.
        read: Reads spans of the old file.
    """
    if order == list(range(len(index.cells))):
        return _replace_cells(index, bodies)
    assert index.spans is not None
    spans, form = index.spans, index.form
    opening = index.array[0] + 1
    first_gap = read((opening, spans[0][0])) if spans else form.line(CELL_DEPTH).encode()
    if len(spans) > 1:
        gap = read((spans[0][1], spans[1][0]))
    else:
        gap = b"," + first_gap if b"\n" in first_gap else form.comma.encode()
    tail: Piece = (
        (spans[-1][1], index.array[1] - 1) if spans else form.line(CELL_DEPTH - 1).encode()
    )

    out = _Pieces()
    out.put((0, opening))
    new_spans: list[Span] = []
    for position, slot in enumerate(order):
        previous = order[position - 1] if position else None
        if previous is None:
            out.put((opening, spans[0][0]) if slot == 0 and spans else first_gap)
        elif slot > 0 and previous == slot - 1:
            out.put((spans[previous][1], spans[slot][0]))
        else:
            out.put(gap)
        start = out.length
        out.put(bodies[slot].data if slot in bodies else spans[slot])
        new_spans.append((start, out.length))
    if order:
        out.put(tail)
    closing = out.length + 1
    out.put((index.array[1] - 1, END))
    return Splice(
        tuple(out.pieces),
        replace(
            _reordered(index, order, bodies),
            spans=tuple(new_spans),
            array=(index.array[0], closing),
        ),
    )


def _replace_cells(index: NotebookIndex, bodies: Mapping[int, EncodedCell]) -> Splice:
    """Return the file with some cells rewritten in place: later spans only shift."""
    assert index.spans is not None
    pieces: list[Piece] = []
    spans: list[Span] = []
    cells, faults = list(index.cells), dict(index.cell_faults)
    at = done = shift = 0
    for slot in sorted(bodies):
        body, (start, end) = bodies[slot], index.spans[slot]
        pieces += [(at, start), body.data]
        spans += [(a + shift, b + shift) for a, b in index.spans[done:slot]]
        spans.append((start + shift, start + shift + len(body.data)))
        at, done, shift = end, slot + 1, shift + len(body.data) - (end - start)
        old = index.cells[slot]
        cells[slot] = read_cell(body.stored, slot, old.key, old.id)
        faults.pop(slot, None)
        if found := tuple(cell_faults(body.stored, index.nbformat)):
            faults[slot] = found
    spans += [(a + shift, b + shift) for a, b in index.spans[done:]]
    pieces.append((at, END))
    return Splice(
        tuple(pieces),
        replace(
            index,
            cells=tuple(cells),
            cell_faults=faults,
            spans=tuple(spans),
            array=(index.array[0], index.array[1] + shift),
        ),
    )


END = 1 << 62
"""The end of a span that extends to the end of the file."""


class _Pieces:
    """Collects the pieces of a new file; adjacent spans are merged."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.length = 0

    def put(self, piece: Piece) -> None:
        size = len(piece) if isinstance(piece, bytes) else piece[1] - piece[0]
        if not size:
            return
        self.length += size
        last = self.pieces[-1] if self.pieces else None
        if isinstance(last, tuple) and isinstance(piece, tuple) and last[1] == piece[0]:
            self.pieces[-1] = (last[0], piece[1])
        else:
            self.pieces.append(piece)


def _reordered(
    index: NotebookIndex, order: list[int], bodies: Mapping[int, EncodedCell]
) -> NotebookIndex:
    """Return the index with its cells in a new order and the rewritten ones read again."""
    ids = [
        cellforms.id_of(bodies[slot].stored, index.nbformat)
        if slot in bodies
        else index.cells[slot].id
        for slot in order
    ]
    cells: list[Cell] = []
    faults: dict[int, tuple[str, ...]] = {}
    for position, (slot, key) in enumerate(zip(order, cell_keys(ids), strict=True)):
        if slot in bodies:
            stored = bodies[slot].stored
            cells.append(read_cell(stored, position, key, ids[position]))
            found = tuple(cell_faults(stored, index.nbformat))
        else:
            cells.append(renamed(index.cells[slot], position, key))
            found = index.cell_faults.get(slot, ())
        if found:
            faults[position] = found
    return replace(index, cells=tuple(cells), cell_faults=faults)
