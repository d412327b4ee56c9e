"""In-place edits of JSON text: the spans of its values, and new values in the text's own layout.

A notebook file belongs to its user: an edit may change only the text that it concerns. So a document is
never decoded and encoded again. json's scanner walks the text, the spans of values are recorded, and an
edit replaces the text of a span.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from json.decoder import JSONDecodeError
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any, cast

_space = re.compile(r"[ \t\n\r]*").match
_comma = re.compile(r"[ \t\n\r]*,[ \t\n\r]*").match
_SURROGATE = re.compile("[\ud800-\udfff]")
_MAYBE_ESCAPED_TEXT = re.compile(r"\\u(?!00[0-7])[0-9a-fA-F]{4}")
"""An escaped non-ASCII character, if the number of backslashes before it is even."""
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
        ensure_ascii = sample.isascii() and _escapes_text(sample)
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

    def dumps(self, value: Any, line: str | None) -> str:
        """Return a value as text.

        Keys are sorted as in nbformat. Lone surrogates are always escaped.

        Args:
            value: The value.
            line: The start of its siblings' lines; None to keep it on one line.
        """
        if line is None or self.indent is None:
            separators = (self.comma, self.colon)
            text = json.dumps(
                value, ensure_ascii=self.ensure_ascii, sort_keys=True, separators=separators
            )
        else:
            text = self._on_lines(value, line)
        if not self.ensure_ascii and not text.isascii():
            text = _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
        return text

    def _on_lines(self, value: Any, line: str) -> str:
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
                texts = (self._on_lines(item, inner) for item in items)
            return f"[{inner}{f',{inner}'.join(texts)}{line}]"
        if isinstance(value, dict) and value:
            members = cast("Mapping[str, Any]", value)
            texts = (
                encode(key) + self.colon + self._on_lines(members[key], inner)
                for key in sorted(members)
            )
            return f"{{{inner}{f',{inner}'.join(texts)}{line}}}"
        return json.dumps(value)

    def dumps_object(self, members: Mapping[str, Any], line: str | None) -> str:
        """Return an object as text, its members in the given order; ``line`` as in `dumps`."""
        if not members:
            return "{}"
        on_lines = line is not None and self.indent is not None
        inner = f"{line}{self.indent}" if on_lines else ""
        values = (
            json.dumps(key) + self.colon + self.dumps(value, inner if on_lines else None)
            for key, value in members.items()
        )
        separator = "," + inner if on_lines else self.comma
        return "{" + inner + separator.join(values) + (str(line) if on_lines else "") + "}"


DROP: Any = object()
"""As a member's new value: remove the member."""


def edit_object(text: str, values: Mapping[str, Any], form: JsonForm) -> str:
    """Return the text of an object with new values for some of its members.

    Of a duplicate key the last member is edited, as it is the one that readers use; `DROP` removes all.
    A new member goes to its place if the keys are sorted, else to the end.

    Args:
        text: The object's text, from brace to brace.
        values: The new value of each changed member, or `DROP`.
        form: The layout of the whole text.

    >>> edit_object('{"a": 1, "c": 3}', {"b": 2, "c": DROP}, JsonForm(indent=None))
    '{"a": 1, "b": 2}'
    """
    members, end = scan_object(text, 0)
    first_lead = text[1 : members[0].at] if members else ""
    later_leads = [text[a.end : b.at] for a, b in pairwise(members)]
    line = "\n" + first_lead.rpartition("\n")[2] if "\n" in first_lead else None
    usual_lead = later_leads[0] if later_leads else "," + first_lead if line else form.comma
    if line is not None and form.newline == "\r\n":
        line = "\r" + line
    last = {member.key: member for member in members}

    parts: list[tuple[str, str]] = []
    keys: list[str] = []
    for member, lead in zip(members, ["", *later_leads][: len(members)], strict=True):
        body = text[member.at : member.end]
        if member.key in values:
            value = values[member.key]
            if value is DROP:
                continue
            if member is last[member.key]:
                body = text[member.at : member.start] + _in_place(text, member, value, form, line)
        parts.append((lead, body))
        keys.append(member.key)

    in_order = all(a <= b for a, b in pairwise(keys))
    for key in sorted(values):
        if key in last or values[key] is DROP:
            continue
        at = sum(other < key for other in keys) if in_order else len(keys)
        body = json.dumps(key) + form.colon + form.dumps(values[key], line)
        parts.insert(at, ("", body))
        keys.insert(at, key)

    out = ["{"]
    for position, (lead, body) in enumerate(parts):
        out += [(lead or usual_lead) if position else first_lead, body]
    out.append(text[members[-1].end : end - 1] if members else "")
    return "".join([*out, "}"])


def _in_place(text: str, member: Member, value: Any, form: JsonForm, line: str | None) -> str:
    """Return the new value's text; an array or object on one line stays on one line."""
    old = text[member.start : member.end]
    stood_on_one_line = old[0] in "[{" and bool(member.value) and "\n" not in old
    return form.dumps(value, None if stood_on_one_line else line)


def _escapes_text(text: str) -> bool:
    """Return whether a JSON text has an escaped non-ASCII character."""
    for found in _MAYBE_ESCAPED_TEXT.finditer(text):
        before = found.start()
        while before and text[before - 1] == "\\":
            before -= 1
        if (found.start() - before) % 2 == 0:
            return True
    return False
