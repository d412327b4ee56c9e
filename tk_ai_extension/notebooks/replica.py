"""A server-side replica of the notebook in a tab, updated incrementally."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, cast

from tk_ai_extension.model.cells import Cell, CellContent, Snapshot
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.notebooks import cellforms
from tk_ai_extension.notebooks.reading import read_cell, snapshot_of


@dataclass(slots=True)
class _Known:
    """A cell as the tab has it, and as the model has it."""

    stored: Json
    cell: Cell | None = None


@dataclass
class TabReplica:
    """A replica of the notebook in a tab.

    The tab numbers the changes of its notebook; each cell, the order of the cells and the metadata have
    the number of their last change. In the tab every cell has an id, whatever the format.

    Attributes:
        version: The number of the last known change; 0 before the first update.
        ids: The cells' ids in the tab, in order.
        checked: Whether the stored notebook's format is known to be writable.
    """

    version: int = 0
    ids: list[str] = field(default_factory=list[str])
    checked: bool = False
    _known: dict[str, _Known] = field(default_factory=dict[str, _Known])
    _metadata: Json = field(default_factory=dict[str, Any])
    _nbformat: tuple[int, int] = (4, 5)
    _snapshot: Snapshot | None = None

    async def update(self, ask: Callable[..., Awaitable[Json]], answer: Json | None = None) -> None:
        """Merge the changes since the last update, which the tab is asked for.

        Args:
            ask: Asks the tab (`Tab.ask`), and raises its errors.
            answer: An answer of the tab that has changes; only what it lacks is asked for.
        """
        more = True
        while more:
            delta = await ask("read", since=self.version) if answer is None else answer
            more, answer = bool(delta.get("more")), None
            if more or delta["version"] != self.version:
                self._merge(delta)

    def _merge(self, delta: Json) -> None:
        """Merge changes.

        Args:
            delta: ``version``, ``changed`` (cells by id) and, if they changed, ``order`` (ids),
                ``metadata`` and ``nbformat``.
        """
        self.version = int(delta["version"])
        self._snapshot = None
        for cell_id, stored in cast("dict[str, Json]", delta["changed"]).items():
            self._known[cell_id] = _Known(_plain(stored))
        if (order := delta.get("order")) is not None:
            self.ids = list(order)
            self._known = {each: self._known[each] for each in self.ids if each in self._known}
        if delta.get("metadata") is not None:
            self._metadata = delta["metadata"]
        if delta.get("nbformat") is not None:
            major, minor = delta["nbformat"]
            if (major, minor) != self._nbformat:
                self._nbformat = (int(major), int(minor))
                for known in self._known.values():
                    known.cell = None

    # --- reading

    def snapshot(self, path: str) -> Snapshot:
        """Return the notebook as of the last update."""
        if self._snapshot is None or self._snapshot.path != path:
            cells: list[Cell] = []
            for cell_id in self.ids:
                known = self._known[cell_id]
                if known.cell is None:
                    stored_id = cellforms.id_of(known.stored, self._nbformat)
                    known.cell = read_cell(known.stored, 0, "", stored_id)
                cells.append(known.cell)
            self._snapshot = snapshot_of(path, cells, self._metadata, self._nbformat, live=True)
        return self._snapshot

    def content(self, index: int) -> CellContent:
        """Return the whole content of a cell."""
        return cellforms.content_of(self._known[self.ids[index]].stored, self._nbformat)

    def raw(self) -> Json:
        """Return the whole notebook as JSON."""
        cells = [dict(self._known[cell_id].stored) for cell_id in self.ids]
        if not cellforms.has_ids(self._nbformat):
            for cell in cells:
                cell.pop("id", None)
        major, minor = self._nbformat
        return cellforms.without_transient(
            {
                "cells": cells,
                "metadata": self._metadata,
                "nbformat": major,
                "nbformat_minor": minor,
            }
        )


def _plain(stored: Json) -> Json:
    """Return a cell in stored form, without transient fields."""
    stored.pop("execution_state", None)
    if stored.get("cell_type") != "code" and not stored.get("attachments"):
        stored.pop("attachments", None)
    return stored
