"""The stored form of notebooks: cells as JSON, and the JSON as text in the layout of its file.

A notebook file belongs to its user: an edit may change only the text that it concerns. So this module finds
the spans of values in a text, and formats new values like their neighbours.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from json.decoder import JSONDecodeError
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any, cast

from tk_ai_extension.model.cells import CellData, CellType
from tk_ai_extension.model.json_values import UNSAFE, Json, encodable_text, shareable

_JSON_MIME = re.compile(r"application/(.*\+)?json\Z")
_SPLIT_MIMES = frozenset(("application/javascript", "image/svg+xml"))
_KNOWN = frozenset(("cell_type", "id", "source", "metadata", "execution_count", "outputs"))
_TRANSIENT = "trusted"
"""Metadata that Jupyter sets on cells in memory; it is never stored, and never set here."""


def has_ids(nbformat: tuple[int, int]) -> bool:
    """Return whether cells have ids in a version of the format.

    >>> has_ids((4, 5)), has_ids((4, 4))
    (True, False)
    """
    return nbformat >= (4, 5)


def text_of(value: Any) -> str | None:
    """Return a multi-line string, stored as lines or as one string; None for anything else."""
    if type(value) is list:
        try:
            text: str = "".join(value)
        except TypeError:
            return None
        return text
    return value if isinstance(value, str) else None


def joined(value: Any) -> str:
    """Return `text_of` a value; for a mixed list join its strings, else return an empty string."""
    text = text_of(value)
    if text is not None:
        return text
    lines = cast("list[Any]", value) if isinstance(value, list) else []
    return "".join(line for line in lines if isinstance(line, str))


def split(text: str) -> list[str]:
    r"""Split a text into lines that keep their ``\n``; an empty text has no lines."""
    return text.splitlines(keepends=True)


def metadata_of(cell: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a stored cell's metadata without transient fields."""
    metadata: Any = cell.get("metadata")
    if not isinstance(metadata, dict):
        return {}
    known = cast("Json", metadata)
    return {k: v for k, v in known.items() if k != _TRANSIENT} if _TRANSIENT in known else known


def without_transient(notebook: Json) -> Json:
    """Remove transient metadata from a notebook's cells, in place; return the notebook."""
    for cell in cast("list[Json]", notebook["cells"]):
        cell["metadata"] = dict(metadata_of(cell))
    return notebook


def count_of(cell: Mapping[str, Any]) -> int | None:
    """Return a stored code cell's execution count."""
    return whole_number(cell.get("execution_count"))


def whole_number(value: Any) -> int | None:
    """Return a stored number as an integer; None for anything else, including infinity and NaN."""
    if isinstance(value, float):
        return int(value) if math.isfinite(value) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def id_of(cell: Mapping[str, Any], nbformat: tuple[int, int]) -> str | None:
    """Return a stored cell's id; None if the format has no ids."""
    return ids_of([cell], nbformat)[0]


def ids_of(cells: Sequence[Mapping[str, Any]], nbformat: tuple[int, int]) -> list[str | None]:
    """Return the ids of stored cells; None for each if the format has no ids."""
    if not has_ids(nbformat):
        return [None] * len(cells)
    ids: list[Any] = [cell.get("id") for cell in cells]
    return [cell_id if isinstance(cell_id, str) else None for cell_id in ids]


# --- outputs


def _map_text(output: Json, change: Callable[[str, Any], Any]) -> Json:
    """Return an output with ``change`` applied to each text in it that may have several lines."""
    if output.get("output_type") == "stream":
        return {**output, "text": change("text/plain", output.get("text", ""))}
    data: Any = output.get("data")
    if not isinstance(data, dict):
        return output
    bundle = cast("Json", data)
    return {**output, "data": {mime: change(mime, value) for mime, value in bundle.items()}}


def _join_lines(mime: str, value: Any) -> Any:
    if isinstance(value, list) and not _JSON_MIME.match(mime):
        parts = cast("list[Any]", value)
        whole: Any = "".join(parts) if all(isinstance(part, str) for part in parts) else parts
        return whole
    return cast("Any", value)


def _split_lines(mime: str, value: Any) -> Any:
    """Split as nbformat does: base64 stays in one piece."""
    if isinstance(value, str) and (mime.startswith("text/") or mime in _SPLIT_MIMES):
        return split(value)
    return value


def read_outputs(stored: Any) -> tuple[Json, ...]:
    """Return a stored cell's outputs with multi-line texts joined; skip anything that is not an output."""
    if not isinstance(stored, list):
        return ()
    outputs = cast("list[Any]", stored)
    return tuple(_map_text(cast("Json", o), _join_lines) for o in outputs if isinstance(o, dict))


def stored_outputs(outputs: Iterable[Json], *, as_lines: bool) -> list[Json]:
    """Return outputs in stored form: multi-line texts as lines if the notebook stores them so."""
    return [_map_text(output, _split_lines) if as_lines else output for output in outputs]


def same_outputs(a: Sequence[Json], b: Sequence[Json]) -> bool:
    """Return whether outputs are equal, however a file, a room or the journal stores them.

    >>> same_outputs([{"data": {"text/plain": ["1"]}}], [{"data": {"text/plain": "1"}}])
    True
    """
    if len(a) != len(b):
        return False
    return all(x == y or _comparable(x) == _comparable(y) for x, y in zip(a, b, strict=True))


def _comparable(output: Json) -> Any:
    return _comparable_value(_map_text(output, _join_lines))


def _comparable_value(value: Any) -> Any:
    """Return a JSON value in a form that every place can store, with all numbers as floats.

    A shared document makes floats of integers. One pass, as a table of numbers can be large.
    """
    if isinstance(value, str):
        return encodable_text(value)
    if isinstance(value, float):
        # A shared document returns -0.0 as 0.
        return value + 0.0 if math.isfinite(value) else None
    if isinstance(value, int):
        return value if isinstance(value, bool) else _as_float(value)
    if isinstance(value, dict):
        return {
            encodable_text(key): _comparable_value(item)
            for key, item in cast("Json", value).items()
        }
    if isinstance(value, (list, tuple)):
        return [_comparable_value(item) for item in cast("Sequence[Any]", value)]
    return value


def _as_float(number: int) -> Any:
    return float(number) if abs(number) < UNSAFE else shareable(number, UNSAFE)


# --- whole cells


def content_of(cell: Mapping[str, Any], nbformat: tuple[int, int]) -> CellData:
    """Return a stored cell as a `CellData`."""
    code = cell["cell_type"] == "code"
    return CellData(
        type=cell["cell_type"],
        source=joined(cell.get("source")),
        id=id_of(cell, nbformat),
        metadata=metadata_of(cell),
        execution_count=count_of(cell) if code else None,
        outputs=read_outputs(cell.get("outputs")) if code else (),
        extra={key: value for key, value in cell.items() if key not in _KNOWN},
    )


def stored_cell(content: CellData, *, as_lines: bool = True) -> Json:
    """Return a cell in stored form: a code cell has a count and outputs, others have neither."""
    cell: Json = {
        **content.extra,
        "cell_type": content.type,
        "metadata": dict(metadata_of({"metadata": dict(content.metadata)})),
        "source": split(content.source) if as_lines else content.source,
    }
    if content.id is not None:
        cell["id"] = content.id
    if content.type == "code":
        cell["execution_count"] = content.execution_count
        cell["outputs"] = stored_outputs(content.outputs, as_lines=as_lines)
    return cell


def retyped(content: CellData, cell_type: CellType) -> CellData:
    """Return the cell converted to another type, with only the fields of that type."""
    if cell_type == content.type:
        return content
    extra = dict(content.extra)
    if cell_type == "code":
        extra.pop("attachments", None)  # Only markdown and raw cells have them.
    return CellData(cell_type, content.source, content.id, content.metadata, extra=extra)


def ordered_like(cell: Json, order: Sequence[str]) -> Json:
    """Return the cell with its fields in this order, followed by others by name."""
    place = {key: number for number, key in enumerate(order)}
    return {key: cell[key] for key in sorted(cell, key=lambda k: (place.get(k, len(place)), k))}


# --- new ones


def new_cell_id() -> str:
    """Return a new cell id: eight hexadecimal characters of which the first is a letter.

    The letter distinguishes an id from an index.
    """
    digits = os.urandom(4).hex()
    return "abcdef"[int(digits[0], 16) % 6] + digits[1:]


def new_cell(cell_type: CellType, source: str, cell_id: str | None = None) -> Json:
    """Return a cell of nbformat 4.5; only code cells have a count (None) and outputs (empty)."""
    cell: Json = {
        "cell_type": cell_type,
        "id": cell_id or new_cell_id(),
        "metadata": {},
        "source": source.splitlines(keepends=True),
    }
    if cell_type == "code":
        cell |= {"execution_count": None, "outputs": []}
    return cell


def empty_notebook(
    cells: Sequence[tuple[CellType, str]] = (), *, kernelspec: dict[str, str] | None = None
) -> Json:
    """Return a notebook of nbformat 4.5 with these cells (type and source)."""
    metadata: Json = {}
    if kernelspec is not None:
        metadata = {"kernelspec": kernelspec, "language_info": {"name": kernelspec["language"]}}
    return {
        "cells": [new_cell(cell_type, source) for cell_type, source in cells],
        "metadata": metadata,
        "nbformat": 4,
        "nbformat_minor": 5,
    }


_space = re.compile(r"[ \t\n\r]*").match
_comma = re.compile(r"[ \t\n\r]*,[ \t\n\r]*").match
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_TEXT = re.compile(r"(?<!\\)(?:\\\\)*\\u(?!00[0-7])[0-9a-fA-F]{4}")
"""An escaped non-ASCII character: the number of backslashes before it is even."""
_LOOKED_AT = 1 << 20
"""Characters of a text that are searched for escaped non-ASCII characters."""

_decode = json.JSONDecoder().raw_decode
_scan: Callable[[str, int], tuple[Any, int]] = cast("Any", json.JSONDecoder()).scan_once
"""As `_decode`, without a Python call for each value; raises StopIteration if there is no value."""


Span = tuple[int, int]
"""Start and end (exclusive) of a value in a text."""


@dataclass(frozen=True, slots=True)
class JsonMember:
    """A member of an object.

    Attributes:
        key: Its key.
        at: Start of the key.
        start: Start of the value.
        end: End of the value.
        value: The value.
        spans: Spans of the value's elements, for an array in the ``arrays`` of `scan_object`.
    """

    key: str
    at: int
    start: int
    end: int
    value: Any
    spans: tuple[Span, ...] | None = None


def skip(text: str, at: int) -> int:
    """Return the index of the next character that is not white space."""
    match = _space(text, at)
    assert match is not None
    return match.end()


def scan_object(text: str, at: int, arrays: Sequence[str] = ()) -> tuple[list[JsonMember], int]:
    """Return the members of the object that starts at ``at``, and the object's end.

    Args:
        text: The text.
        at: The index of the opening brace.
        arrays: Keys of arrays that need the spans of their elements.

    Raises:
        JSONDecodeError.

    >>> members, end = scan_object('{"a": 1, "b": [2, 3]}', 0, ["b"])
    >>> [(member.key, member.start, member.end, member.spans) for member in members], end
    ([('a', 6, 7, None), ('b', 14, 20, ((15, 16), (18, 19)))], 21)
    """
    members: list[JsonMember] = []
    at = skip(text, at + 1)
    if text[at : at + 1] == "}":
        return members, at + 1
    while True:
        if text[at : at + 1] != '"':
            raise JSONDecodeError("Expecting property name enclosed in double quotes", text, at)
        key, end = _decode(text, at)
        colon = skip(text, end)
        if text[colon : colon + 1] != ":":
            raise JSONDecodeError("Expecting ':' delimiter", text, colon)
        start = skip(text, colon + 1)
        if key in arrays and text[start : start + 1] == "[":
            value, spans, end = scan_array(text, start)
            members.append(JsonMember(key, at, start, end, value, spans))
        else:
            value, end = _decode(text, start)
            members.append(JsonMember(key, at, start, end, value))
        comma = _comma(text, end)
        if comma is None:
            return members, _close(text, end, "}")
        at = comma.end()


def scan_array(text: str, at: int) -> tuple[list[Any], tuple[Span, ...], int]:
    """Return the elements of the array that starts at ``at``, their spans, and the array's end.

    Raises:
        JSONDecodeError.
    """
    values: list[Any] = []
    spans: list[Span] = []
    at = skip(text, at + 1)
    if text[at : at + 1] == "]":
        return values, (), at + 1
    try:
        while True:
            value, end = _scan(text, at)
            values.append(value)
            spans.append((at, end))
            comma = _comma(text, end)
            if comma is None:
                return values, tuple(spans), _close(text, end, "]")
            at = comma.end()
    except StopIteration as error:
        raise JSONDecodeError("Expecting value", text, error.value) from None


def _close(text: str, end: int, bracket: str) -> int:
    at = skip(text, end)
    if text[at : at + 1] != bracket:
        raise JSONDecodeError("Expecting ',' delimiter", text, at)
    return at + 1


@dataclass(frozen=True, slots=True)
class JsonLayout:
    r"""The layout of a JSON text, so that new values look like their neighbours.

    Attributes:
        indent: One level of indentation; None if everything is on one line.
        newline: ``\n`` or ``\r\n``.
        comma: Separator of values on one line.
        colon: Separator of key and value.
        ensure_ascii: Whether non-ASCII characters are escaped.
    """

    indent: str | None = " "
    newline: str = "\n"
    comma: str = ", "
    colon: str = ": "
    ensure_ascii: bool = False

    @classmethod
    def of(cls, text: str, at: int, members: Sequence[JsonMember]) -> JsonLayout:
        """Return the layout of a text, determined from the object at ``at`` and its members."""
        sample = text if len(text) <= _LOOKED_AT else text[:_LOOKED_AT]
        ensure_ascii = sample.isascii() and _ESCAPED_TEXT.search(sample) is not None
        if not members:
            return cls(ensure_ascii=ensure_ascii)
        lead = text[at + 1 : members[0].at]
        indent = lead.rpartition("\n")[2] if "\n" in lead else None
        first = members[0]
        head = text[first.at : first.start]
        colon = ": " if head.endswith(" ") else ":"
        gaps = [text[a.end : b.at] for a, b in pairwise(members)]
        comma = "," if indent is None and gaps and not gaps[0].endswith(" ") else ", "
        newline = "\r\n" if "\r\n" in lead else "\n"
        return cls(indent, newline, comma, colon, ensure_ascii)

    def line(self, depth: int) -> str:
        """Return the start of a line at a depth; empty if everything is on one line."""
        return "" if self.indent is None else self.newline + self.indent * depth

    def separator(self, depth: int) -> str:
        """Return the separator of two values at a depth."""
        return self.comma if self.indent is None else "," + self.line(depth)

    def dumps(self, value: Any, line: str | None, *, sort: bool = True) -> str:
        """Return a value as text. Lone surrogates are always escaped.

        Args:
            value: The value.
            line: The start of its siblings' lines; None to keep it on one line.
            sort: Whether to sort keys, as nbformat does.
        """
        text = None
        if line is not None and self.indent is not None:
            with suppress(RecursionError):  # Nested too deeply: on one line then.
                text = self._on_lines(value, line, sort=sort)
        if text is None:
            separators = (self.comma, self.colon)
            text = json.dumps(
                value, ensure_ascii=self.ensure_ascii, sort_keys=sort, separators=separators
            )
        if not self.ensure_ascii and not text.isascii():
            text = _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
        return text

    def _on_lines(self, value: Any, line: str, *, sort: bool) -> str:
        """Encode as json.dumps with an indent does, but join lists of strings in one step."""
        encode = encode_basestring_ascii if self.ensure_ascii else encode_basestring
        inner = f"{line}{self.indent}"
        if isinstance(value, str):
            return encode(value)
        if isinstance(value, (list, tuple)) and value:
            items = cast("Sequence[Any]", value)
            if all(isinstance(item, str) for item in items):
                texts = map(encode, items)
            else:
                texts = (self._on_lines(item, inner, sort=sort) for item in items)
            return f"[{inner}{f',{inner}'.join(texts)}{line}]"
        if isinstance(value, dict) and value:
            members = cast("Mapping[str, Any]", value)
            texts = (
                encode(key) + self.colon + self._on_lines(members[key], inner, sort=sort)
                for key in (sorted(members) if sort else members)
            )
            return f"{{{inner}{f',{inner}'.join(texts)}{line}}}"
        return json.dumps(value)

    def dumps_object(
        self, members: Mapping[str, Any], line: str | None, unsorted: Collection[str] = ()
    ) -> str:
        """Return an object as text, its members in the given order.

        Args:
            members: The members.
            line: As in `dumps`.
            unsorted: Members within which the order of keys is kept, too.
        """
        if not members:
            return "{}"
        on_lines = line is not None and self.indent is not None
        inner = f"{line}{self.indent}" if on_lines else ""
        values = (
            json.dumps(key)
            + self.colon
            + self.dumps(value, inner if on_lines else None, sort=key not in unsorted)
            for key, value in members.items()
        )
        separator = "," + inner if on_lines else self.comma
        return "{" + inner + separator.join(values) + (str(line) if on_lines else "") + "}"
