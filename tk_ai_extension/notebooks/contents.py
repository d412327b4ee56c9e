"""Notebooks of a contents manager that does not store files, or that saves in its own way.

The whole notebook goes through the manager's ``get`` and ``save``, as in Jupyter's own editor. There is
no more consistency than the manager offers: two servers may save at the same moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from inspect import signature
from typing import Any, TypeVar, cast
from weakref import WeakValueDictionary

from jupyter_server.utils import ensure_async

from tk_ai_extension.model.cells import Snapshot
from tk_ai_extension.model.errors import (
    FileMissing,
    NotANotebook,
    NotebookExists,
    NotebookNotFound,
    SaveFailed,
)
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.operations import Applied, Operation
from tk_ai_extension.model.paths import moved
from tk_ai_extension.notebooks import cellforms
from tk_ai_extension.notebooks.reading import read_cell, snapshot_of
from tk_ai_extension.notebooks.running_outputs import RunningOutputs, relocate_runs
from tk_ai_extension.notebooks.save_hooks import manager_errors
from tk_ai_extension.notebooks.session import LoadedNotebook, NotebookSession, StoredDocument
from tk_ai_extension.notebooks.transactions import EditStep

T = TypeVar("T")

_ATTEMPTS = 5
_RENAME_TIMEOUT = 2.0
"""Maximum seconds between a manager's rename and its event."""


class _NotebookState:
    """A server's state of one notebook, and its current path."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.renamed = asyncio.Event()
        # Hold its lock to read or save the notebook.
        self.session = NotebookSession()
        self.modified: Any = None
        self.notebook: Json = {}
        self.snapshot: Snapshot | None = None


class ContentsDocument(StoredDocument):
    """A notebook behind a contents manager.

    Args:
        manager: The contents manager.
        kept: What the server knows of the notebook.
        changed: Called with the path after each change.
    """

    kind = "contents"

    def __init__(self, manager: Any, kept: _NotebookState, changed: Callable[[str], None]) -> None:
        super().__init__(kept.session, changed)
        self._manager = manager
        self._kept = kept

    @property
    def path(self) -> str:
        """See `NotebookDocument.path`; it changes when a person renames the notebook."""
        return self._kept.path

    async def pull(self, look: Callable[[LoadedNotebook], T]) -> T:
        """See `SessionDocument.pull`."""
        async with self.session.lock:
            return look(await self._pulled())

    async def _pulled(self) -> LoadedNotebook:
        """Return the notebook with the outputs so far. Hold the lock."""
        snapshot = await self._load()
        stored, nbformat = self._stored(), snapshot.nbformat
        return self.session.with_runs(
            LoadedNotebook(
                snapshot,
                lambda index: cellforms.content_of(stored[index], nbformat),
                lambda: cellforms.without_transient(
                    {**self._kept.notebook, "cells": [dict(cell) for cell in stored]}
                ),
            )
        )

    async def attempt(self, operations: Sequence[Operation], number: int) -> Applied | None:  # noqa: ARG002
        """See `SessionDocument.attempt`."""
        async with self.session.lock:
            before = await self._pulled()
            edit = before.edited(operations)
            cells = list(self._stored())
            for step in edit.steps:
                _apply_step(cells, step)
            if edit.steps and not await self._save(cells):
                return None
            running = self.session.running_cells(before.snapshot)
            # As it was saved: a later read may contain others' changes.
            after = _snapshot(self.path, {**self._kept.notebook, "cells": cells})
            relocate_runs(edit, running, after.cells)
            shown = self.session.shown(after)
        if edit.steps:
            self.changed()
            await self.refresh_tabs()
        return Applied(shown, edit.changes())

    async def stored(self) -> Snapshot:
        """See `StoredDocument.stored`."""
        async with self.session.lock:
            return await self._load()

    async def save_outputs(self, runs: Sequence[RunningOutputs]) -> None:
        """See `StoredDocument.save_outputs`."""
        self._kept.renamed.clear()
        try:
            await self._save_once(runs)
        except NotebookNotFound:
            # A manager renames first and emits the event afterwards.
            with suppress(TimeoutError):
                await asyncio.wait_for(self._kept.renamed.wait(), _RENAME_TIMEOUT)
            await self._save_once(runs)

    async def _save_once(self, runs: Sequence[RunningOutputs]) -> None:
        async with self.session.lock:
            for _ in range(_ATTEMPTS):
                snapshot = await self._load()
                cells = list(self._stored())
                found = [(running, running.find(snapshot)) for running in runs]
                for running, cell in found:
                    if cell is not None:
                        cells[cell.index] = {
                            **cells[cell.index],
                            "outputs": list(running.outputs()),
                            "execution_count": running.execution_count,
                            "metadata": dict(cell.metadata),
                        }
                if all(cell is None for _, cell in found) or await self._save(cells):
                    return
        raise SaveFailed(f"{self.path} cannot be saved: other programs keep writing it.")

    # --- the manager

    async def _load(self) -> Snapshot:
        """Return the manager's notebook, read again if it was modified.

        Hold the lock: Jupyter's own managers write a file in place, and a concurrent read would return
        a part of it.
        """
        kept = self._kept
        with manager_errors(self.path):
            # Before the content: a save in between is then detected by the next load.
            modified = await self._modified()
            if kept.snapshot is None or modified != kept.modified:
                model = await ensure_async(
                    self._manager.get(self.path, content=True, type="notebook")
                )
                kept.notebook, kept.modified = model["content"], modified
                kept.snapshot = _snapshot(self.path, kept.notebook)
        return kept.snapshot

    async def _modified(self) -> tuple[Any, Any]:
        """Return the notebook's version: its modification time and, if available, its hash."""
        get = self._manager.get
        hashed = {"require_hash": True} if "require_hash" in signature(get).parameters else {}
        model = await ensure_async(get(self.path, content=False, **hashed))
        return model["last_modified"], model.get("hash")

    async def _save(self, cells: list[Json]) -> bool:
        """Save the notebook with these cells (compare-and-set); return False if it was modified."""
        kept = self._kept
        with manager_errors(self.path):
            if await self._modified() != kept.modified:
                return False
            model: Json = {
                "type": "notebook",
                "format": "json",
                "content": {**kept.notebook, "cells": cells},
            }
            await ensure_async(self._manager.save(model, self.path))
        kept.snapshot = None
        return True

    def _stored(self) -> list[Json]:
        return cast("list[Json]", self._kept.notebook["cells"])


class ContentsNotebooks:
    """The notebooks of a contents manager.

    Args:
        manager: Jupyter's contents manager.
        changed: Called with a notebook's path after each change by this server.
    """

    def __init__(self, manager: Any, changed: Callable[[str], None]) -> None:
        self._manager = manager
        self._changed = changed
        self._kept: WeakValueDictionary[str, _NotebookState] = WeakValueDictionary()

    async def open(self, path: str) -> ContentsDocument:
        """Return the document at a path.

        Raises:
            NotebookNotFound, NotANotebook.
        """
        if not await ensure_async(self._manager.file_exists(path)):
            if await ensure_async(self._manager.dir_exists(path)):
                raise NotANotebook(f"{path} is a folder.")
            raise NotebookNotFound(f"Notebook {path} does not exist.")
        kept = self._kept.get(path)
        if kept is None:
            kept = self._kept[path] = _NotebookState(path)
        return ContentsDocument(self._manager, kept, self._changed)

    async def exists(self, path: str) -> bool:
        """Return whether a file or folder exists at a path."""
        return bool(await ensure_async(self._manager.exists(path)))

    async def create(self, path: str, notebook: Json) -> None:
        """Save a new notebook.

        Raises:
            NotebookExists, FileMissing, ReadOnly, SaveFailed.
        """
        if await self.exists(path):
            raise NotebookExists(f"{path} already exists.")
        if not await ensure_async(self._manager.dir_exists(path.rpartition("/")[0])):
            raise FileMissing(f"The folder of {path} does not exist.")
        model: Json = {"type": "notebook", "format": "json", "content": notebook}
        with manager_errors(path):
            await ensure_async(self._manager.save(model, path))
        self._changed(path)

    def renamed(self, old: str, new: str) -> None:
        """Move the state of notebooks after a rename of a notebook or a folder."""
        for path, kept in list(self._kept.items()):
            place = moved(path, old, new)
            if place is not None:
                del self._kept[path]
                kept.path, kept.snapshot = place, None
                self._kept[kept.path] = kept
                kept.renamed.set()

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""


def _snapshot(path: str, notebook: Json) -> Snapshot:
    nbformat = (int(notebook.get("nbformat", 4)), int(notebook.get("nbformat_minor", 0)))
    stored = cast("list[Json]", notebook["cells"])
    # The manager has converted a notebook of an old format, and would save the conversion.
    original: Any = notebook.get("metadata", {}).get("orig_nbformat", nbformat[0])
    if isinstance(original, int) and original < nbformat[0]:
        nbformat = (original, 0)
    cells = [read_cell(cell, 0, "", cellforms.id_of(cell, nbformat)) for cell in stored]
    metadata = cast("Json", notebook.get("metadata") or {})
    snapshot = snapshot_of(path, cells, metadata, nbformat)
    if nbformat[0] == 4:
        return snapshot
    fault = f"nbformat {nbformat[0]} can be read, not written"
    return replace(snapshot, warnings=(*snapshot.warnings, fault))


def _apply_step(cells: list[Json], step: EditStep) -> None:
    match step.kind:
        case "delete":
            del cells[step.index]
        case "move":
            cells.insert(step.to, cells.pop(step.index))
        case "insert":
            assert step.after is not None
            cells.insert(step.index, cellforms.stored_cell(step.after, as_lines=False))
        case "set":
            assert step.after is not None
            new = cellforms.stored_cell(step.after, as_lines=False)
            if "id" in cells[step.index]:
                new.setdefault("id", cells[step.index]["id"])
            cells[step.index] = new
