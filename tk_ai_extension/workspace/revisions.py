"""Revisions that were read lately: the common ancestors of three-way merges."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

from tk_ai_extension.model.cells import Snapshot
from tk_ai_extension.model.paths import moved

MAX_CHARACTERS = 64_000_000
"""Characters that are kept over all revisions: of source, and `CELL` for each cell."""
CELL = 500
"""Characters that a cell counts beside its source: its other fields take about so many bytes."""
MIN_PREFIX = 4
"""The fewest characters of a revision that name it."""


class Revisions:
    """Keeps the snapshots that were shown as text, so that writing the text back can merge.

    A revision is a hash of the content, so one entry serves every caller that read the same. The
    ones used least recently go first; the newest always stays, whatever its size, or a large
    notebook could never be written back.

    Args:
        max_characters: The bound on the characters that are kept, as `MAX_CHARACTERS` counts them.
    """

    def __init__(self, max_characters: int = MAX_CHARACTERS) -> None:
        self._max = max_characters
        self._characters = 0
        self._snapshots: OrderedDict[tuple[str, str], Snapshot] = OrderedDict()

    def __len__(self) -> int:
        return len(self._snapshots)

    @property
    def characters(self) -> int:
        """How many characters are kept."""
        return self._characters

    def remember(self, snapshot: Snapshot) -> None:
        """Keep a snapshot under its path and revision."""
        name = (snapshot.path, snapshot.revision)
        if name not in self._snapshots:
            self._snapshots[name] = snapshot
            self._characters += _size(snapshot)
        self._snapshots.move_to_end(name)
        while self._characters > self._max and len(self._snapshots) > 1:
            _, oldest = self._snapshots.popitem(last=False)
            self._characters -= _size(oldest)

    def get(self, path: str, revision: str) -> Snapshot | None:
        """The snapshot of this revision, or of the one that this is a unique beginning of."""
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
        """A notebook, or a folder above some, has another path now."""
        for path, revision in list(self._snapshots):
            if (now := moved(path, old, new)) is not None:
                snapshot = self._snapshots.pop((path, revision))
                if (replaced := self._snapshots.pop((now, revision), None)) is not None:
                    self._characters -= _size(replaced)
                self._snapshots[now, revision] = replace(snapshot, path=now)


def _size(snapshot: Snapshot) -> int:
    return sum(len(cell.source) + CELL for cell in snapshot.cells)
