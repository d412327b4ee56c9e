"""Differences of two texts or sequences."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher  # noqa: TID251 - with a bound
from itertools import pairwise
from typing import NamedTuple

_CHARACTERS = 2000
"""Maximum characters of differing lines that are compared by character."""

MAX_PAIRS = 400_000
"""Maximum pairs of items that are compared, about 50 ms; larger inputs become one difference."""


class ChangedRange(NamedTuple):
    """``old[i1:i2]`` becomes ``new[j1:j2]``; elsewhere both are equal."""

    i1: int
    i2: int
    j1: int
    j2: int


def differences(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[ChangedRange]:
    """Return the differences of two sequences, in order.

    >>> differences("abcd", "axcde")
    [ChangedRange(i1=1, i2=2, j1=1, j2=2), ChangedRange(i1=4, i2=4, j1=4, j2=5)]
    """
    start, i2, j2 = 0, len(old), len(new)
    while start < min(i2, j2) and old[start] == new[start]:
        start += 1
    while start < min(i2, j2) and old[i2 - 1] == new[j2 - 1]:
        i2, j2 = i2 - 1, j2 - 1
    if (i2 - start) * (j2 - start) > MAX_PAIRS:
        return [ChangedRange(start, i2, start, j2)]
    codes = SequenceMatcher(None, old[start:i2], new[start:j2]).get_opcodes()
    return [
        ChangedRange(*(start + place for place in places))
        for tag, *places in codes
        if tag != "equal"
    ]


def longest_increasing(values: Sequence[int]) -> list[int]:
    """Return a longest increasing subsequence of distinct numbers.

    >>> longest_increasing([3, 1, 2, 5, 4])
    [1, 2, 4]
    """
    if all(a < b for a, b in pairwise(values)):
        return list(values)
    tails: list[int] = []
    tail_positions: list[int] = []
    previous: list[int | None] = []
    for position, value in enumerate(values):
        length = bisect_left(tails, value)
        previous.append(tail_positions[length - 1] if length else None)
        tails[length : length + 1] = [value]
        tail_positions[length : length + 1] = [position]
    chosen: list[int] = []
    at: int | None = tail_positions[-1] if tail_positions else None
    while at is not None:
        chosen.append(values[at])
        at = previous[at]
    return chosen[::-1]


def line_diff(before: str, after: str) -> str:
    r"""Return a unified diff of two sources with one line of context, without file names.

    Only ``\n`` ends a line, so that every change is in the diff, even that of a final newline.
    """
    old, new = (text.split("\n") if text else [] for text in (before, after))
    return "\n".join(unified(old, new))


def unified(old: Sequence[str], new: Sequence[str], context: int = 1) -> Iterator[str]:
    """Yield the lines of a unified diff, without file names.

    Args:
        old: The lines before, without line ends.
        new: The lines after.
        context: The number of unchanged lines around a difference.
    """
    hunks: list[list[ChangedRange]] = []
    for each in differences(old, new):
        if hunks and each.i1 - hunks[-1][-1].i2 <= 2 * context:
            hunks[-1].append(each)
        else:
            hunks.append([each])
    for hunk in hunks:
        before = min(context, hunk[0].i1)
        after = min(context, len(old) - hunk[-1].i2)
        start, end = hunk[0].i1 - before, hunk[-1].i2 + after
        place = _place(hunk[0].j1 - before, hunk[-1].j2 + after)
        yield f"@@ -{_place(start, end)} +{place} @@"
        for each in hunk:
            yield from (f" {line}" for line in old[start : each.i1])
            yield from (f"-{line}" for line in old[each.i1 : each.i2])
            yield from (f"+{line}" for line in new[each.j1 : each.j2])
            start = each.i2
        yield from (f" {line}" for line in old[start:end])


def _place(start: int, end: int) -> str:
    """Return the range of a hunk's header: the number of the first line, and the count if it is not 1."""
    length = end - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


@dataclass(frozen=True, slots=True)
class TextEdit:
    """``text[start:end]`` becomes ``new``."""

    start: int
    end: int
    new: str


def text_edits(old: str, new: str) -> list[TextEdit]:
    """Return non-overlapping edits in the order of the text, with indexes in ``old``.

    >>> text_edits("x = 1", "x = 12")
    [TextEdit(start=5, end=5, new='2')]
    """
    head = common_prefix(old, new)
    rest = min(len(old), len(new)) - head
    tail = min(common_prefix(old[::-1], new[::-1]), rest)
    old_middle, new_middle = old[head : len(old) - tail], new[head : len(new) - tail]
    lines = [each.splitlines(keepends=True) for each in (old_middle, new_middle)]
    edits: list[TextEdit] = []
    for edit in _edits(*lines, at=head):
        removed = old[edit.start : edit.end]
        if max(len(removed), len(edit.new)) > _CHARACTERS:
            edits.append(edit)
        else:
            edits += _edits(removed, edit.new, at=edit.start)
    return edits


def common_prefix(a: str, b: str) -> int:
    """Return the length of the common prefix of two texts, by binary search."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _edits(old: Sequence[str], new: Sequence[str], *, at: int) -> Iterator[TextEdit]:
    """Yield the edits between two sequences of characters or lines that start at ``at``."""
    places = [at]
    for part in old:
        places.append(places[-1] + len(part))
    for i1, i2, j1, j2 in differences(old, new):
        yield TextEdit(places[i1], places[i2], "".join(new[j1:j2]))
