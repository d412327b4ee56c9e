"""What was read of a notebook: the hash of each cell's source by caller, and whole revisions.

A change to a cell is a compare-and-set against the hash (see docs/adr/0005). Only whole sources count: a
line of a list that shows the beginning of a source does not mark the cell as read. A revision is the
common ancestor when an edited text is merged. Forgetting either is safe: the caller reads again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from operator import attrgetter

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.cells import Cell, Snapshot

MAX_CELLS = 100_000
"""Maximum remembered cells of all callers for one notebook; about 20 MB."""
MAX_CHARACTERS = 16_000_000
"""Maximum characters of a notebook's cached revisions: of source, plus `CELL` for each cell."""
CELL = 500
"""Characters that a cell counts besides its source, for the approximate bytes of its other fields."""
MIN_PREFIX = 4
"""Minimum characters of a revision's prefix."""


class Seen:
    """Remembers for each caller the source of each cell of a notebook that it read last.

    At the limit, the least recently active caller is forgotten first.

    Args:
        max_cells: Maximum remembered cells of all callers.
    """

    def __init__(self, max_cells: int = MAX_CELLS) -> None:
        self._max = max_cells
        self._count = 0
        # Hashes by cell, for each caller, the least recently active one first.
        self._callers: OrderedDict[str, dict[str, str]] = OrderedDict()

    def __len__(self) -> int:
        return self._count

    def mark(self, caller: Caller, cell: str, source_hash: str) -> None:
        """Record that the caller has read the whole source with this hash. Needs a caller with a key."""
        self._mark(caller, {cell: source_hash})

    def mark_cells(self, caller: Caller, cells: Iterable[Cell]) -> None:
        """Record that the caller has read the whole sources of these cells."""
        self._mark(caller, {cell.key: cell.hash for cell in cells})

    def _mark(self, caller: Caller, hashes: dict[str, str]) -> None:
        if caller.key is None:
            return
        identity = caller.identity
        cells = self._callers.setdefault(identity, {})
        self._callers.move_to_end(identity)
        self._count -= len(cells)
        cells |= hashes
        self._count += len(cells)
        while self._count > self._max:
            self._forget_one()

    def expectation(self, caller: Caller, cell: str) -> str | None:
        """Return the hash that the caller's next change of a cell must find; None if it was not read."""
        cells = self._callers.get(caller.identity) if caller.key is not None else None
        if cells is None:
            return None
        self._callers.move_to_end(caller.identity)
        return cells.get(cell)

    def of(self, caller: Caller) -> dict[str, str]:
        """Return the hashes of a caller by cell."""
        return dict(self._callers.get(caller.identity, {}))

    def forget(self, caller: Caller) -> None:
        """Forget a caller whose session has ended."""
        self._count -= len(self._callers.pop(caller.identity, ()))

    def _forget_one(self) -> None:
        oldest = next(iter(self._callers))
        if len(self._callers) > 1:
            self._count -= len(self._callers.pop(oldest))
        else:
            cells = self._callers[oldest]
            del cells[next(iter(cells))]
            self._count -= 1


class Revisions:
    """Caches the snapshots of a notebook that were shown as text, so that the edited text can be merged.

    A revision is a hash of the content, so all callers share an entry. The least recently used entry
    is evicted first. The newest is always kept, whatever its size, so that a large notebook can be
    written back.

    Args:
        max_characters: Maximum cached characters, counted as in `MAX_CHARACTERS`.
    """

    def __init__(self, max_characters: int = MAX_CHARACTERS) -> None:
        self._max = max_characters
        self._characters = 0
        self._snapshots: OrderedDict[str, Snapshot] = OrderedDict()

    def __len__(self) -> int:
        return len(self._snapshots)

    @property
    def characters(self) -> int:
        """The number of cached characters."""
        return self._characters

    def remember(self, snapshot: Snapshot) -> None:
        """Add a snapshot by its revision."""
        if snapshot.revision not in self._snapshots:
            self._snapshots[snapshot.revision] = snapshot
            self._characters += _size(snapshot)
        self._snapshots.move_to_end(snapshot.revision)
        while self._characters > self._max and len(self._snapshots) > 1:
            _, oldest = self._snapshots.popitem(last=False)
            self._characters -= _size(oldest)

    def get(self, revision: str) -> Snapshot | None:
        """Return the snapshot of a revision, given in full or as a unique prefix; None if unknown."""
        if revision not in self._snapshots:
            if len(revision) < MIN_PREFIX:
                return None
            found = [each for each in self._snapshots if each.startswith(revision)]
            if len(found) != 1:
                return None
            revision = found[0]
        self._snapshots.move_to_end(revision)
        return self._snapshots[revision]


def _size(snapshot: Snapshot) -> int:
    sources = map(attrgetter("source"), snapshot.cells)
    return sum(map(len, sources)) + CELL * len(snapshot.cells)
