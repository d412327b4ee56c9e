"""A server-side replica of the notebook in a tab, updated incrementally."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

from tk_ai_extension.model.cells import Cell, CellContent, Snapshot
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.notebooks import cellforms
from tk_ai_extension.notebooks.reading import read_cell, snapshot_of


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
    _stored: dict[str, Json] = field(default_factory=dict[str, Json])
    _cells: dict[str, Cell] = field(default_factory=dict[str, Cell])
    _changed: set[str] = field(default_factory=set[str])
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
        for cell_id, stored in cast("dict[str, Json]", delta["changed"]).items():
            self._stored[cell_id] = _plain(stored)
            self._changed.add(cell_id)
        if (order := delta.get("order")) is not None:
            self.ids = list(order)
            kept = {each: self._stored[each] for each in self.ids if each in self._stored}
            self._stored, self._snapshot = kept, None
        if delta.get("metadata") is not None:
            self._metadata, self._snapshot = delta["metadata"], None
        if delta.get("nbformat") is not None:
            major, minor = delta["nbformat"]
            if (major, minor) != self._nbformat:
                self._nbformat = (int(major), int(minor))
                self._cells, self._snapshot = {}, None

    # --- reading

    def snapshot(self, path: str) -> Snapshot:
        """Return the notebook as of the last update; the cost follows what changed since the last time."""
        known = self._snapshot
        for cell_id in self._changed:
            self._cells.pop(cell_id, None)
        if known is None or known.path != path:
            self._cells = {each: self._cells.get(each) or self._read(each) for each in self.ids}
            cells = [*self._cells.values()]
            known = snapshot_of(path, cells, self._metadata, self._nbformat, live=True)
            self._cells = dict(zip(self.ids, known.cells, strict=True))
        elif self._changed:
            # The ids of cells do not change, nor do their places and keys.
            places = {cell_id: self.ids.index(cell_id) for cell_id in self._changed}
            shown = list(known.cells)
            for cell_id, index in places.items():
                cell = self._read(cell_id, index, shown[index].key)
                self._cells[cell_id] = shown[index] = cell
            known = replace(known, cells=tuple(shown))
        self._snapshot = known
        self._changed.clear()
        return known

    def _read(self, cell_id: str, index: int = 0, key: str = "") -> Cell:
        stored = self._stored[cell_id]
        return read_cell(stored, index, key, cellforms.id_of(stored, self._nbformat))

    def content(self, index: int) -> CellContent:
        """Return the whole content of a cell."""
        return cellforms.content_of(self._stored[self.ids[index]], self._nbformat)

    def raw(self) -> Json:
        """Return the whole notebook as JSON."""
        cells = [dict(self._stored[cell_id]) for cell_id in self.ids]
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
