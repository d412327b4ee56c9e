"""Computes the small edits that turn one text into another, so that cursors elsewhere stay put."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tk_ai_extension.model.diffs import differences

_CHARACTERS = 2000
"""Maximum characters of differing lines that are compared by character."""


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
