"""Notebooks of a contents manager that does not store files, or that saves differently.

The whole notebook goes through the manager's ``get`` and ``save``, as in Jupyter's editor. Consistency is
only that of the manager: two servers may save at the same moment.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from inspect import signature
from typing import Any
from weakref import WeakValueDictionary

from jupyter_server.utils import ensure_async
from tornado.web import HTTPError

from tk_ai_extension.model.errors import (
    FileMissing,
    InvalidArguments,
    InvalidNotebook,
    NotebookExists,
    NotebookNotFound,
    ReadOnly,
    SaveFailed,
    save_error,
)
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.notebooks import notebook_json
from tk_ai_extension.notebooks.document import Make, NotebookText
from tk_ai_extension.notebooks.jupyter_saves import CollaborationRooms
from tk_ai_extension.notebooks.parsed_notebooks import StoredNotebook, keyed, read_notebook

_TRIES = 5


@contextmanager
def manager_errors(path: str) -> Generator[None]:
    """Convert a contents manager's errors to typed errors, using an OSError in their causes."""
    try:
        yield
    except HTTPError as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, OSError) and cause.errno is not None:
                raise save_error(cause, path) from error
            cause = cause.__cause__ or cause.__context__
        reason = error.log_message or error.reason
        match error.status_code:
            case 404:
                raise NotebookNotFound(f"Notebook {path} does not exist.") from error
            case 403:
                raise ReadOnly(f"{path} cannot be written: {reason}.") from error
            case 400:
                raise InvalidNotebook(f"{path} cannot be opened: {reason}.", path=path) from error
            case _:
                raise SaveFailed(f"{path} cannot be saved: {reason}.") from error


class ContentsManagerNotebook(NotebookText):
    """A notebook of a contents manager.

    Args:
        manager: The contents manager.
    """

    kind = "contents"

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        self._rooms = CollaborationRooms(manager)
        # Jupyter's managers write a file in place: a concurrent read would return a part of it.
        self._lock = asyncio.Lock()
        self._known: tuple[Any, StoredNotebook] | None = None

    async def load(self, path: str) -> StoredNotebook:
        """See `NotebookText.load`; the notebook is read again if it was modified."""
        async with self._lock:
            return await self._load(path)

    async def _load(self, path: str) -> StoredNotebook:
        with manager_errors(path):
            # Before the content: a save in between is then detected by the next load.
            modified = await self._modified(path)
            if self._known is None or modified != self._known[0]:
                model = await ensure_async(self._manager.get(path, content=True, type="notebook"))
                self._known = modified, await asyncio.to_thread(_text_of, model["content"], path)
        return self._known[1]

    async def rewrite(self, path: str, make: Make) -> StoredNotebook:
        """See `NotebookText.rewrite`."""
        async with self._rooms.writing(path, self.load) as written, self._lock:
            for _ in range(_TRIES):
                before = await self._load(path)
                after = await asyncio.to_thread(make, before)
                if after is before:
                    return after
                if await self._save(path, after):
                    await written(before)
                    # As it was saved: a later read may contain others' changes.
                    return after
        raise SaveFailed(f"{path} cannot be saved: other programs keep writing it.")

    async def _save(self, path: str, notebook: StoredNotebook) -> bool:
        """Save the notebook (compare-and-set); return False if it was modified."""
        content = await asyncio.to_thread(notebook.raw)
        with manager_errors(path):
            if self._known is None or await self._modified(path) != self._known[0]:
                return False
            model: Json = {"type": "notebook", "format": "json", "content": content}
            await ensure_async(self._manager.save(model, path))
        self._known = None
        return True

    async def _modified(self, path: str) -> tuple[Any, Any]:
        """Return the notebook's version: its modification time and, if available, its hash."""
        get = self._manager.get
        hashed = {"require_hash": True} if "require_hash" in signature(get).parameters else {}
        model = await ensure_async(get(path, content=False, **hashed))
        return model["last_modified"], model.get("hash")


class ContentsManagerStore:
    """The notebooks of a contents manager.

    Args:
        manager: Jupyter's contents manager.
    """

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        self._kept: WeakValueDictionary[str, ContentsManagerNotebook] = WeakValueDictionary()

    async def open(self, path: str) -> ContentsManagerNotebook:
        """Return the notebook at a path.

        Raises:
            NotebookNotFound, InvalidArguments.
        """
        if not await ensure_async(self._manager.file_exists(path)):
            if await ensure_async(self._manager.dir_exists(path)):
                raise InvalidArguments(
                    f"{path} is a folder.",
                    hint="Use a path that ends in .ipynb. For other text files, call read_file.",
                )
            raise NotebookNotFound(f"Notebook {path} does not exist.")
        return self.text(path)

    def text(self, path: str) -> ContentsManagerNotebook:
        """Return the notebook at a path, which may not exist."""
        kept = self._kept.get(path)
        if kept is None:
            kept = self._kept[path] = ContentsManagerNotebook(self._manager)
        return kept

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

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""


def _text_of(content: Json, path: str) -> StoredNotebook:
    """Return a manager's notebook; one that it has converted from an old format is not written."""
    text = json.dumps(notebook_json.without_transient(content))
    notebook = read_notebook(text.encode(), path)
    original: Any = notebook.metadata.get("orig_nbformat")
    if not isinstance(original, int) or original >= notebook.nbformat[0]:
        return replace(notebook, faults=(), cell_faults=((),) * len(notebook.cells))
    return replace(
        notebook,
        cells=keyed([replace(cell, id=None) for cell in notebook.cells]),
        nbformat=(original, 0),
        faults=(f"nbformat {original} can be read, not written",),
        cell_faults=((),) * len(notebook.cells),
        is_named=False,
    )
