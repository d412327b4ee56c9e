"""jupyter-collaboration's rooms: a room saves before its notebook is written, and then gets the write."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, cast

import nbformat
from jupyter_server.utils import ensure_async

from tk_ai_extension.model.json_values import Json
from tk_ai_extension.notebooks.in_memory import StoredNotebook

_log = logging.getLogger(__name__)

Load = Callable[[str], Awaitable[StoredNotebook]]
Written = Callable[[StoredNotebook], Awaitable[None]]
"""Updates a room to the written notebook, if the room had the notebook from before the write."""


@dataclass(frozen=True)
class _Room:
    """A collaboration room.

    Attributes:
        loader: Reads and writes the room's file.
        document: The room's document.
        fork: A copy of it, made when the room saved.
    """

    loader: Any
    document: Any
    fork: Any

    async def saved(self, notebook: StoredNotebook) -> bool:
        """Return whether a notebook equals the one that the room saved."""
        content = await asyncio.to_thread(content_of, notebook)
        return _without_trust(await self.fork.aget()) == _without_trust(content)

    async def set_outputs(self, content: Json) -> None:
        """Set the outputs of the fork's cells: `aset` would replace the cell, with text typed since."""
        cells = {cell.get("id"): cell for cell in content["cells"] if cell["cell_type"] == "code"}
        for index, cell in enumerate(self.fork.ycells):
            new = cells.get(cell["id"])
            if new is not None and new["outputs"] != self.fork.get_cell(index).get("outputs"):
                outputs = self.fork.create_ycell(new).prelim["outputs"].prelim
                cell["outputs"].clear()
                cell["outputs"].extend(outputs)
            await asyncio.sleep(0)


class CollaborationRooms:
    """jupyter-collaboration's rooms, for a notebook that is written as a file while a room still has it.

    A room reads what others wrote to its file within a second, and replaces its document by that. Text typed
    since its last save would be lost, and so would text that was typed offline and arrives at that moment.
    So a room saves before a write, and merges the write with people's changes.

    Args:
        contents_manager: Jupyter's contents manager.
    """

    def __init__(self, contents_manager: Any) -> None:
        self._manager = contents_manager

    @asynccontextmanager
    async def writing(self, path: str, load: Load) -> AsyncGenerator[Written]:
        """Have a notebook's room save, and keep it from the file during a write.

        Args:
            path: The notebook's path.
            load: Reads the file.

        Yields:
            A function to call with the notebook before the write, after it.
        """
        room: _Room | None = None
        try:
            room = await self._saved_room(path, load)
        except Exception:  # noqa: BLE001 - the notebook is written all the same
            _log.exception("The room of %s was not saved", path)
        async with getattr(room and room.loader, "_lock", nullcontext()):
            yield partial(self._merge, path, room)
        await self.read(path)

    async def _saved_room(self, path: str, load: Load) -> _Room | None:
        """Have the room of a notebook save its unsaved changes, and return the room."""
        if (loader := self._loader(path)) is None:
            return None
        # If the file was changed by others, the room discards its changes for the file's.
        await loader.maybe_notify()
        kind = {"path": path, "content_type": "notebook", "file_format": "json"}
        document = await self._collaboration.get_document(**kind, copy=False)
        fork = await self._collaboration.get_document(**kind, copy=True)
        if document is None or fork is None:
            return None
        room = _Room(loader, document, fork)
        if not await room.saved(await load(path)):
            content = await fork.aget()
            await loader.maybe_save_content(
                {"type": "notebook", "format": "json", "content": content}
            )
        return room

    async def _merge(self, path: str, room: _Room | None, before: StoredNotebook) -> None:
        try:
            if room is None or not await room.saved(before):
                return
            model = await ensure_async(self._manager.get(path, content=True, type="notebook"))
            await room.set_outputs(model["content"])
            await room.fork.aset(model["content"])
            # The room need not read this write from the file.
            room.loader.last_modified = model["last_modified"]
            update = room.fork.ydoc.get_update(room.document.ydoc.get_state())
            room.document.ydoc.apply_update(update)
        except Exception:  # noqa: BLE001 - the notebook is written all the same
            _log.exception("The room of %s did not get a change", path)

    async def read(self, path: str) -> None:
        """Have a notebook's room read the file if it is not the version that the room knows."""
        try:
            if (loader := self._loader(path)) is not None:
                await loader.maybe_notify()
        except Exception:  # noqa: BLE001 - the notebook is written all the same
            _log.exception("The room of %s did not read the file", path)

    @cached_property
    def _collaboration(self) -> Any:
        """jupyter-collaboration's extension; None if it is not enabled."""
        manager = getattr(self._manager.parent, "extension_manager", None)
        apps = manager.extension_apps.get("jupyter_server_ydoc", ()) if manager else ()
        return next((app for app in apps if hasattr(app, "file_loaders")), None)

    def _loader(self, path: str) -> Any:
        """Return the loader of the file of a notebook's room; None without a room."""
        if (collaboration := self._collaboration) is None:
            return None
        loaders = collaboration.file_loaders
        file_id = loaders.file_id_manager.get_id(path)
        return loaders[file_id] if file_id in loaders else None  # noqa: SIM401 - no `dict`


def _without_trust(content: Json) -> Json:
    """Return a notebook without the fields that Jupyter adds when it reads one."""
    cells = [
        {**cell, "metadata": {**cell["metadata"], "trusted": None}} for cell in content["cells"]
    ]
    return {**content, "cells": cells}


def content_of(notebook: StoredNotebook) -> Json:
    """Return a notebook as Jupyter reads it."""
    return cast("Any", nbformat).reads(notebook.data.decode(), as_version=nbformat.NO_CONVERT)
