"""A cache of revisions that were read: the common ancestors of three-way merges."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

from tk_ai_extension.model.cells import Snapshot
from tk_ai_extension.model.paths import moved

MAX_CHARACTERS = 64_000_000
"""Maximum characters of all cached revisions: of source, plus `CELL` for each cell."""
CELL = 500
"""Characters that a cell counts besides its source, for the approximate bytes of its other fields."""
MIN_PREFIX = 4
"""Minimum characters of a revision's prefix."""


class Revisions:
    """Caches the snapshots that were shown as text, so that the edited text can be merged.

    A revision is a hash of the content, so all callers share an entry. The least recently used entry
    is evicted first. The newest is always kept, whatever its size, so that a large notebook can be
    written back.

    Args:
        max_characters: Maximum cached characters, counted as in `MAX_CHARACTERS`.
    """

    def __init__(self, max_characters: int = MAX_CHARACTERS) -> None:
        self._max = max_characters
        self._characters = 0
        self._snapshots: OrderedDict[tuple[str, str], Snapshot] = OrderedDict()

    def __len__(self) -> int:
        return len(self._snapshots)

    @property
    def characters(self) -> int:
        """The number of cached characters."""
        return self._characters

    def remember(self, snapshot: Snapshot) -> None:
        """Add a snapshot by its path and revision."""
        name = (snapshot.path, snapshot.revision)
        if name not in self._snapshots:
            self._snapshots[name] = snapshot
            self._characters += _size(snapshot)
        self._snapshots.move_to_end(name)
        while self._characters > self._max and len(self._snapshots) > 1:
            _, oldest = self._snapshots.popitem(last=False)
            self._characters -= _size(oldest)

    def get(self, path: str, revision: str) -> Snapshot | None:
        """Return the snapshot of a revision, given in full or as a unique prefix; None if unknown."""
        name = (path, revision)
        if name not in self._snapshots:
            if len(revision) < MIN_PREFIX:
                return None
            found = [n for n in self._snapshots if n[0] == path and n[1].startswith(revision)]
            if len(found) != 1:
                return None
            name = found[0]
        self._snapshots.move_to_end(name)
        return self._snapshots[name]

    def renamed(self, old: str, new: str) -> None:
        """Update paths after a notebook or a folder was renamed."""
        for path, revision in list(self._snapshots):
            if (now := moved(path, old, new)) is not None:
                snapshot = self._snapshots.pop((path, revision))
                if (replaced := self._snapshots.pop((now, revision), None)) is not None:
                    self._characters -= _size(replaced)
                self._snapshots[now, revision] = replace(snapshot, path=now)

    def deleted(self, place: str) -> None:
        """Forget a deleted notebook, or those in a deleted folder."""
        for path, revision in list(self._snapshots):
            if moved(path, place, place) is not None:
                self._characters -= _size(self._snapshots.pop((path, revision)))


def _size(snapshot: Snapshot) -> int:
    return sum(len(cell.source) + CELL for cell in snapshot.cells)
