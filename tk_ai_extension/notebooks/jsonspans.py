"""The spans of values in JSON text, and new values in the text's own layout.

A notebook file belongs to its user: an edit may change only the text that it concerns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from json.decoder import JSONDecodeError
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any, cast

_space = re.compile(r"[ \t\n\r]*").match
_comma = re.compile(r"[ \t\n\r]*,[ \t\n\r]*").match
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_TEXT = re.compile(r"(?<!\\)(?:\\\\)*\\u(?!00[0-7])[0-9a-fA-F]{4}")
"""An escaped non-ASCII character: the number of backslashes before it is even."""
_LOOKED_AT = 1 << 20
"""Characters from which it is determined whether a text escapes non-ASCII characters."""

_decode = json.JSONDecoder().raw_decode
_scan: Callable[[str, int], tuple[Any, int]] = cast("Any", json.JSONDecoder()).scan_once
"""As `_decode`, without a Python call for each value; raises StopIteration if there is no value."""


Span = tuple[int, int]
"""Start and end (exclusive) of a value in a text."""


@dataclass(frozen=True, slots=True)
class Member:
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


def scan_object(text: str, at: int, arrays: Sequence[str] = ()) -> tuple[list[Member], int]:
    """Return the members of the object that starts at ``at``, and the object's end.

    Args:
        text: The text.
        at: The index of the opening brace.
        arrays: Keys of arrays for whose elements spans are needed.

    Raises:
        JSONDecodeError.

    >>> members, end = scan_object('{"a": 1, "b": [2, 3]}', 0, ["b"])
    >>> [(member.key, member.start, member.end, member.spans) for member in members], end
    ([('a', 6, 7, None), ('b', 14, 20, ((15, 16), (18, 19)))], 21)
    """
    members: list[Member] = []
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
            members.append(Member(key, at, start, end, value, spans))
        else:
            value, end = _decode(text, start)
            members.append(Member(key, at, start, end, value))
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
class JsonForm:
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
    def of(cls, text: str, at: int, members: Sequence[Member]) -> JsonForm:
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
