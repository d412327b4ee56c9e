"""Computes the small edits that turn one text into another, so that cursors elsewhere stay put."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

_CHARACTERS = 2000
"""Characters of the differing middle up to which characters are compared; beyond it, lines."""


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
    if not old_middle and not new_middle:
        return []
    if not old_middle or not new_middle:
        return [TextEdit(head, head + len(old_middle), new_middle)]
    if max(len(old_middle), len(new_middle)) <= _CHARACTERS:
        return _edits(old_middle, new_middle, head)
    return _edits(old_middle.splitlines(keepends=True), new_middle.splitlines(keepends=True), head)


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


def _edits(old: Sequence[str], new: Sequence[str], at: int) -> list[TextEdit]:
    """Return the edits between two sequences of characters or lines that start at ``at``."""
    places = [at]
    for part in old:
        places.append(places[-1] + len(part))
    return [
        TextEdit(places[i1], places[i2], "".join(new[j1:j2]))
        for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if tag != "equal"
    ]
