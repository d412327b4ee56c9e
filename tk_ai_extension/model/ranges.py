"""The grammar of several things in one argument: ``0-3,7,12-``, ``-1``, ``-3..``.

A part is a number, or two numbers with ``-`` or ``..`` between them, both included. A negative
number counts from the end: ``-1`` is the last. The second number may be left out, which means the
last; the first may be left out before ``..``, which means the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tk_ai_extension.model.errors import InvalidArguments

HINT = "Ranges look like this: 2-5,8,11- and -1 (the last), -3.. (the last three)."

_NUMBER = r"-?\d{1,9}"
_SINGLE = re.compile(rf"{_NUMBER}\Z")
_SPAN = re.compile(rf"({_NUMBER})?\s*(-|\.\.)\s*({_NUMBER})?\Z")
_SLICE = re.compile(rf"({_NUMBER})?\s*:\s*({_NUMBER})?\Z")


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a range: the numbers from one to another, both included.

    Attributes:
        text: As it was written.
        first: The first number; None for the first of all.
        last: The last number; None for the last of all.
    """

    text: str
    first: int | None
    last: int | None

    @property
    def is_single(self) -> bool:
        """Whether it is one number, which may also be the beginning of a name."""
        return _SINGLE.match(self.text) is not None

    def positions(self, count: int, *, first: int = 0) -> tuple[int, int]:
        """The first and the last position, from 0; either may be outside of ``count`` things.

        Args:
            count: How many things there are.
            first: The number of the first one: 0 for cells, 1 for lines.
        """

        def position(number: int) -> int:
            return number + count if number < 0 else number - first

        return (
            0 if self.first is None else position(self.first),
            count - 1 if self.last is None else position(self.last),
        )


def parse_span(part: str) -> Span | None:
    """The span that a part of a range is; None where it is none, and may be a name.

    >>> parse_span("-1")
    Span(text='-1', first=-1, last=-1)
    >>> parse_span("-3..")
    Span(text='-3..', first=-3, last=None)
    >>> parse_span("-4--2")
    Span(text='-4--2', first=-4, last=-2)
    >>> parse_span("318a")

    Raises:
        InvalidArguments: a part that can be read in two ways.
    """
    if _SINGLE.match(part):
        return Span(part, int(part), int(part))
    if _SLICE.match(part):
        # A slice leaves its end out, a range has it in: no guess decides which code runs.
        raise InvalidArguments(
            f"`{part}` can be read as a slice or as a range.",
            hint=f"Write `{part.replace(':', '..')}`; both ends are included.",
        )
    found = _SPAN.match(part)
    if found is None or not (found[1] or found[3]):
        return None
    first, dash, last = found.groups()
    if first is None and dash == "-":
        raise InvalidArguments(
            f"`{part}` can be read in two ways.", hint=f"Write `..{last}` or `{last}`."
        )
    return Span(part, None if first is None else int(first), None if last is None else int(last))


def parts_of(spec: str) -> Iterator[str]:
    """The parts of a spec, between its commas.

    Raises:
        InvalidArguments: an empty one.
    """
    for part in spec.split(","):
        if not part.strip():
            raise InvalidArguments("A range is empty.", hint=HINT)
        yield part.strip()


def parse_ranges(spec: str, count: int, *, first: int = 0) -> list[int]:
    """The positions (from 0, ascending, each once) that ``2-5,8,11-`` names among ``count`` things.

    Args:
        spec: Parts as this module describes, separated by commas.
        count: How many there are; a range that ends beyond is cut.
        first: The number of the first one: 0 for cells, 1 for lines.

    Raises:
        InvalidArguments: the spec is malformed, or a part of it begins beyond the last.
    """
    chosen: set[int] = set()
    for part in parts_of(spec):
        span = parse_span(part)
        if span is None:
            raise InvalidArguments(f"`{part}` is not a range.", hint=HINT)
        start, end = span.positions(count, first=first)
        if start >= count:
            raise InvalidArguments(
                f"`{part}` begins beyond the last of {count} (numbers start at {first})."
            )
        if start < 0 or end < start:
            raise InvalidArguments(
                f"The range `{part}` is empty: there are {count}, and numbers start at {first}."
            )
        chosen.update(range(start, min(end + 1, count)))
    return sorted(chosen)


def format_ranges(indices: Sequence[int]) -> str:
    """The shortest spec for ascending positions: the inverse of `parse_ranges`."""
    parts: list[str] = []
    position = 0
    while position < len(indices):
        start = end = indices[position]
        while position + 1 < len(indices) and indices[position + 1] == end + 1:
            position += 1
            end += 1
        parts.append(str(start) if start == end else f"{start}-{end}")
        position += 1
    return ",".join(parts)
