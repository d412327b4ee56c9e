"""Differences of two texts or sequences, within a budget: a diff never holds the event loop."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

STEPS = 200_000
"""Default steps of a `DiffBudget`: some 20 ms."""
PART = 20
"""Steps that a part takes in addition to one for each of its items."""
SHARE = 8
"""A search for the longest common run may take this fraction of the steps that are left."""


@dataclass
class DiffBudget:
    """The steps that one diff, or several diffs of one answer, may take.

    Steps are counted rather than timed, so that the same texts have the same diff: an approval is
    bound to it.

    Attributes:
        left: The steps that are left.
    """

    left: int = STEPS

    def take(self, steps: int, share: int = 1) -> bool:
        """Use up steps if they are at most ``1 / share`` of what is left; return whether they are."""
        if steps * share > self.left:
            return False
        self.left -= steps
        return True


class Difference(NamedTuple):
    """``old[i1:i2]`` becomes ``new[j1:j2]``; elsewhere both are equal."""

    i1: int
    i2: int
    j1: int
    j2: int


class _Run(NamedTuple):
    """A common run: ``old[i : i + size] == new[j : j + size]``."""

    i: int
    j: int
    size: int


def differences(
    old: Sequence[Hashable], new: Sequence[Hashable], budget: DiffBudget | None = None
) -> list[Difference]:
    """Return the differences of two sequences, in order.

    Common runs are found as in `difflib`, the longest first. Where that would take too many steps,
    items that occur once on both sides divide the sequences. What is left when the budget is used
    up is one difference.

    >>> differences("abcd", "axcde")
    [Difference(i1=1, i2=2, j1=1, j2=2), Difference(i1=4, i2=4, j1=4, j2=5)]
    """
    budget = DiffBudget() if budget is None else budget
    runs: list[_Run] = []
    waiting = [Difference(0, len(old), 0, len(new))]
    while waiting:
        part, ends = _trimmed(old, new, waiting.pop())
        found = _common(old, new, part, budget)
        runs += ends + found
        i, j = part.i1, part.j1
        for run in (*found, _Run(part.i2, part.j2, 0)) if found else ():
            if i < run.i and j < run.j:
                waiting.append(Difference(i, run.i, j, run.j))
            i, j = run.i + run.size, run.j + run.size
    result: list[Difference] = []
    i = j = 0
    for run in (*sorted(run for run in runs if run.size), _Run(len(old), len(new), 0)):
        if (i, j) != (run.i, run.j):
            result.append(Difference(i, run.i, j, run.j))
        i, j = run.i + run.size, run.j + run.size
    return result


def _trimmed(
    old: Sequence[Hashable], new: Sequence[Hashable], part: Difference
) -> tuple[Difference, list[_Run]]:
    """Return a part without its common start and end, and these two."""
    i1, i2, j1, j2 = part
    while i1 < i2 and j1 < j2 and old[i1] == new[j1]:
        i1, j1 = i1 + 1, j1 + 1
    while i1 < i2 and j1 < j2 and old[i2 - 1] == new[j2 - 1]:
        i2, j2 = i2 - 1, j2 - 1
    ends = [_Run(part.i1, part.j1, i1 - part.i1), _Run(i2, j2, part.i2 - i2)]
    return Difference(i1, i2, j1, j2), ends


def _common(
    old: Sequence[Hashable], new: Sequence[Hashable], part: Difference, budget: DiffBudget
) -> list[_Run]:
    """Return common runs of a part in order: the longest one, or the items that occur once.

    There are none if nothing is common, or the budget is used up.
    """
    i1, i2, j1, j2 = part
    size = i2 - i1 + j2 - j1
    if i1 == i2 or j1 == j2 or size == 2 or not budget.take(PART + size):
        return []
    places: defaultdict[Hashable, list[int]] = defaultdict(list)
    for j in range(j1, j2):
        places[new[j]].append(j)
    pairs = sum(len(places.get(item, ())) for item in old[i1:i2])
    if not budget.take(size + pairs, SHARE):
        unique = _unique(old, part, places)
        if unique or not budget.take(pairs):
            return unique
    longest = _longest(old, part, places)
    return [longest] if longest.size else []


def _longest(
    old: Sequence[Hashable], part: Difference, places: defaultdict[Hashable, list[int]]
) -> _Run:
    """Return the longest common run; of several, the first one in ``old``, then in ``new``."""
    best = _Run(part.i1, part.j1, 0)
    ending: dict[int, int] = {}
    for i in range(part.i1, part.i2):
        # The lengths of the common runs that end at `i`, by their end in `new`.
        now: dict[int, int] = {}
        for j in places.get(old[i], ()):
            size = now[j] = ending.get(j - 1, 0) + 1
            if size > best.size:
                best = _Run(i - size + 1, j - size + 1, size)
        ending = now
    return best


def _unique(
    old: Sequence[Hashable], part: Difference, places: defaultdict[Hashable, list[int]]
) -> list[_Run]:
    """Return the items that occur once on both sides, as many as have the same order there."""
    once: dict[Hashable, int | None] = {}
    for i in range(part.i1, part.i2):
        if len(places.get(old[i], ())) == 1:
            once[old[i]] = None if old[i] in once else i
    found = {places[item][0]: i for item, i in once.items() if i is not None}
    return [_Run(found[j], j, 1) for j in longest_increasing(list(found))]


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


def line_diff(before: str, after: str, budget: DiffBudget | None = None) -> str:
    r"""Return a unified diff of two sources with one line of context, without file names.

    Only ``\n`` ends a line, so that every change is in the diff, that of a last newline, too.
    """
    old, new = (text.split("\n") if text else [] for text in (before, after))
    return "\n".join(unified(old, new, budget=budget))


def unified(
    old: Sequence[str], new: Sequence[str], context: int = 1, budget: DiffBudget | None = None
) -> Iterator[str]:
    """Yield the lines of a unified diff, without file names.

    Args:
        old: The lines before, without line ends.
        new: The lines after.
        context: The number of unchanged lines around a difference.
        budget: The steps that it may take.
    """
    hunks: list[list[Difference]] = []
    for each in differences(old, new, budget):
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
    """Return lines as a hunk names them: the number of the first one, and how many if not one."""
    length = end - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"
