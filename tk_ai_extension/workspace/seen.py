"""What each caller has seen: the hash of a cell's source as it was last shown to them whole.

A change to a cell is a compare-and-set against this (see docs/adr/0006). Only whole sources count:
a line of a listing that shows the beginning of a source marks nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.cells import Cell
from tk_ai_extension.model.paths import moved

MAX_CELLS = 200_000
"""How many cells are remembered over all callers; about 40 MB."""


class Seen:
    """Remembers per caller and notebook which source of which cell was seen last.

    Forgetting is safe, it only costs a `Conflict` that shows the source: over the bound, the
    notebook that was used least recently goes first.

    Args:
        max_cells: The bound on remembered cells, over all callers and notebooks.
    """

    def __init__(self, max_cells: int = MAX_CELLS) -> None:
        self._max = max_cells
        self._count = 0
        # The hashes by cell of each caller and notebook, the least recently used first.
        self._notebooks: OrderedDict[tuple[str, str], OrderedDict[str, str]] = OrderedDict()

    def __len__(self) -> int:
        return self._count

    def mark(self, caller: Caller, path: str, cell: str, source_hash: str) -> None:
        """The caller has seen the whole source with this hash (if they have a key)."""
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
        """The caller has seen the whole source of each of these cells."""
        for cell in cells:
            self.mark(caller, path, cell.key, cell.hash)

    def expectation(self, caller: Caller, path: str, cell: str) -> str | None:
        """The hash that the caller's next change of this cell must find, or None if never seen."""
        if caller.key is None:
            return None
        cells = self._notebooks.get((caller.identity, path))
        if cells is None:
            return None
        self._notebooks.move_to_end((caller.identity, path))
        return cells.get(cell)

    def of(self, caller: Caller) -> dict[str, dict[str, str]]:
        """What a caller has seen: the hash by cell of each notebook, by path."""
        return {
            path: dict(cells)
            for (identity, path), cells in self._notebooks.items()
            if identity == caller.identity
        }

    def renamed(self, old: str, new: str) -> None:
        """A notebook, or a folder above some, has another path now."""
        for identity, path in list(self._notebooks):
            if (now := moved(path, old, new)) is not None:
                cells = self._notebooks.pop((identity, path))
                # What was at the new path before is gone, and with it what was seen of it.
                self._count -= len(self._notebooks.pop((identity, now), ()))
                self._notebooks[identity, now] = cells

    def forget(self, caller: Caller) -> None:
        """The caller's session is over."""
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
