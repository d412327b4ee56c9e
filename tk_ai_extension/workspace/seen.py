"""Optimistic concurrency: the hash of each cell's source as a caller last read it.

A change to a cell is a compare-and-set against this hash (see docs/adr/0006). Only whole sources
count: a line of a list that shows the beginning of a source does not mark the cell as read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.cells import Cell
from tk_ai_extension.model.paths import moved

MAX_CELLS = 200_000
"""Maximum remembered cells of all callers; about 40 MB."""


class Seen:
    """Remembers for each caller and notebook the source of each cell that was read last.

    Forgetting is safe: it only causes a `Conflict` that shows the source. At the limit, the least
    recently used notebook is evicted first.

    Args:
        max_cells: Maximum remembered cells of all callers and notebooks.
    """

    def __init__(self, max_cells: int = MAX_CELLS) -> None:
        self._max = max_cells
        self._count = 0
        # Hashes by cell, for each caller and notebook, least recently used first.
        self._notebooks: OrderedDict[tuple[str, str], OrderedDict[str, str]] = OrderedDict()

    def __len__(self) -> int:
        return self._count

    def mark(self, caller: Caller, path: str, cell: str, source_hash: str) -> None:
        """Record that the caller has read the whole source with this hash. Needs a caller with a key."""
        if caller.key is None:
            return
        cells = self._notebooks.setdefault((caller.identity, path), OrderedDict())
        self._notebooks.move_to_end((caller.identity, path))
        self._count += cell not in cells
        cells[cell] = source_hash
        cells.move_to_end(cell)
        while self._count > self._max:
            self._forget_one()

    def mark_cells(self, caller: Caller, path: str, cells: Iterable[Cell]) -> None:
        """Record that the caller has read the whole sources of these cells."""
        for cell in cells:
            self.mark(caller, path, cell.key, cell.hash)

    def expectation(self, caller: Caller, path: str, cell: str) -> str | None:
        """Return the hash that the caller's next change of a cell must find; None if it was not read."""
        if caller.key is None:
            return None
        cells = self._notebooks.get((caller.identity, path))
        if cells is None:
            return None
        self._notebooks.move_to_end((caller.identity, path))
        return cells.get(cell)

    def of(self, caller: Caller) -> dict[str, dict[str, str]]:
        """Return the hashes of a caller by cell, by path of the notebook."""
        return {
            path: dict(cells)
            for (identity, path), cells in self._notebooks.items()
            if identity == caller.identity
        }

    def renamed(self, old: str, new: str) -> None:
        """Update paths after a notebook or a folder was renamed."""
        for identity, path in list(self._notebooks):
            if (now := moved(path, old, new)) is not None:
                cells = self._notebooks.pop((identity, path))
                # The rename has overwritten any other notebook at the new path.
                self._count -= len(self._notebooks.pop((identity, now), ()))
                self._notebooks[identity, now] = cells

    def deleted(self, place: str) -> None:
        """Forget a deleted notebook, or those in a deleted folder."""
        for identity, path in list(self._notebooks):
            if moved(path, place, place) is not None:
                self._count -= len(self._notebooks.pop((identity, path)))

    def forget(self, caller: Caller) -> None:
        """Forget a caller whose session has ended."""
        for identity, path in list(self._notebooks):
            if identity == caller.identity:
                self._count -= len(self._notebooks.pop((identity, path)))

    def _forget_one(self) -> None:
        oldest = next(iter(self._notebooks))
        if len(self._notebooks) > 1:
            self._count -= len(self._notebooks.pop(oldest))
        else:
            self._notebooks[oldest].popitem(last=False)
            self._count -= 1
