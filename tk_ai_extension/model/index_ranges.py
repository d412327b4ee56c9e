"""Parse range specs such as ``0-3,7,12-``, ``-1`` and ``-3..``.

A part is a number, or two numbers separated by ``-`` or ``..``, both included. A negative number
counts from the end: ``-1`` is the last. Without the second number, the range ends at the last item;
without the first (only before ``..``), it starts at the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tk_ai_extension.model.errors import InvalidArguments

HINT = "Use a range such as 2-5,8,11- or -1 (the last) or -3.. (the last three)."

_NUMBER = r"-?\d{1,9}"
_SINGLE = re.compile(rf"{_NUMBER}\Z")
_SPAN = re.compile(rf"({_NUMBER})?\s*(-|\.\.)\s*({_NUMBER})?\Z")
_SLICE = re.compile(rf"({_NUMBER})?\s*:\s*({_NUMBER})?\Z")


@dataclass(frozen=True, slots=True)
class IndexRange:
    """A part of a range spec: the numbers from ``first`` to ``last``, both included.

    Attributes:
        text: The part as written.
        first: The first number; None for the first item.
        last: The last number; None for the last item.
    """

    text: str
    first: int | None
    last: int | None

    @property
    def is_single(self) -> bool:
        """Whether it is a single number, which may also be a prefix of an id."""
        return _SINGLE.match(self.text) is not None

    def positions(self, count: int, *, first: int = 0) -> tuple[int, int]:
        """Return the first and the last index, from 0, which may be out of range.

        Args:
            count: The number of items.
            first: The number of the first item: 0 for cells, 1 for lines.
        """

        def position(number: int) -> int:
            return number + count if number < 0 else number - first

        return (
            0 if self.first is None else position(self.first),
            count - 1 if self.last is None else position(self.last),
        )


def parse_index_range(part: str) -> IndexRange | None:
    """Parse a part of a range spec; return None if it is not a span, and so may be a cell's id.

    >>> parse_index_range("-1")
    IndexRange(text='-1', first=-1, last=-1)
    >>> parse_index_range("-3..")
    IndexRange(text='-3..', first=-3, last=None)
    >>> parse_index_range("-4--2")
    IndexRange(text='-4--2', first=-4, last=-2)
    >>> parse_index_range("318a")

    Raises:
        InvalidArguments: The part is ambiguous.
    """
    if _SINGLE.match(part):
        return IndexRange(part, int(part), int(part))
    if _SLICE.match(part):
        # A slice excludes its end, a range includes it: do not guess which code runs.
        raise InvalidArguments(
            f"`{part}` may be a slice or a range.",
            hint=f"Use `{part.replace(':', '..')}`; both ends are included.",
        )
    found = _SPAN.match(part)
    if found is None or not (found[1] or found[3]):
        return None
    first, dash, last = found.groups()
    if first is None and dash == "-":
        raise InvalidArguments(f"`{part}` is ambiguous.", hint=f"Use `..{last}` or `{last}`.")
    return IndexRange(
        part, None if first is None else int(first), None if last is None else int(last)
    )


def parts_of(spec: str) -> Iterator[str]:
    """Yield the comma-separated parts of a spec.

    Raises:
        InvalidArguments: A part is empty.
    """
    for part in spec.split(","):
        if not part.strip():
            raise InvalidArguments("A part of the range is empty.", hint=HINT)
        yield part.strip()


def parse_ranges(spec: str, count: int, *, first: int = 0) -> list[int]:
    """Return the distinct indices, from 0 and ascending, that a spec selects among ``count`` items.

    >>> parse_ranges("2-5,8,11-", 13)
    [2, 3, 4, 5, 8, 11, 12]

    Args:
        spec: The parts, separated by commas; see this module.
        count: The number of items. A range that ends beyond the last one is cut.
        first: The number of the first item: 0 for cells, 1 for lines.

    Raises:
        InvalidArguments: The spec is malformed, or a part starts beyond the last item.
    """
    chosen: set[int] = set()
    for part in parts_of(spec):
        span = parse_index_range(part)
        if span is None:
            raise InvalidArguments(f"`{part}` is not a range.", hint=HINT)
        start, end = span.positions(count, first=first)
        if start >= count:
            raise InvalidArguments(
                f"`{part}` starts beyond the last of {count}; numbers start at {first}."
            )
        if start < 0 or end < start:
            raise InvalidArguments(
                f"The range `{part}` is empty: {count} items, and numbers start at {first}."
            )
        chosen.update(range(start, min(end + 1, count)))
    return sorted(chosen)


def format_ranges(indices: Sequence[int]) -> str:
    """Return the shortest spec for ascending indices; the inverse of `parse_ranges`."""
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
