"""What Jupyter does at a save in addition to writing the file: hooks, events, collaboration's rooms.

Only servers import this module: a program that only edits files works without Jupyter Server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import nbformat
from jupyter_server.services.contents.filemanager import FileContentsManager
from jupyter_server.utils import ensure_async
from tornado.web import HTTPError

from tk_ai_extension.model.errors import SaveFailed
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.notebooks.parsed_notebooks import StoredNotebook, read_notebook

if TYPE_CHECKING:
    from jupyter_server.services.contents.manager import ContentsManager

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
            # A page that has gone left it. The next page gets the state of what runs with its outputs.
            if cell.get("execution_state") == "running":
                cell["execution_state"] = "idle"
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


def is_on_files(contents_manager: ContentsManager) -> bool:
    """Return whether a contents manager stores files and saves them as Jupyter's default manager does.

    False for a subclass that saves differently (one that also writes a script for each notebook, say).
    """
    if not isinstance(contents_manager, FileContentsManager):
        return False
    kind = cast("Any", type(contents_manager))
    # A function from a configuration file has no module.
    places = (str(kind.save.__module__), str(kind.atomic_writing.__module__))
    return all(place.startswith("jupyter_server.services.contents.") for place in places)


class SaveHooks:
    """Everything that a contents manager does at a save in addition to writing the file.

    Args:
        contents_manager: Jupyter's contents manager.

    Attributes:
        rooms: jupyter-collaboration's rooms, which are on these files as well.
    """

    def __init__(self, contents_manager: ContentsManager) -> None:
        self._manager: Any = contents_manager  # its methods are not annotated
        self.rooms = CollaborationRooms(contents_manager)

    async def pre_save(self, path: str, notebook: StoredNotebook) -> StoredNotebook:
        """Run the hooks on a notebook and return the result, as Jupyter would write it.

        Without hooks the notebook keeps its bytes. As in Jupyter's save, an `HTTPError` from a hook
        refuses the save; any other error is logged and ignored, and the hooks run on the event loop.

        Raises:
            SaveFailed: a hook refused, or left something that is not a notebook.
        """
        manager = self._manager
        if manager.pre_save_hook is None and not getattr(manager, "_pre_save_hooks", True):
            return notebook
        content = await asyncio.to_thread(content_of, notebook)
        after = self._run({"type": "notebook", "format": "json", "content": content}, path)
        try:
            return await asyncio.to_thread(_written, after, path)
        except Exception as error:
            # nbformat may raise any exception for something that is not a notebook.
            raise SaveFailed(f"A save hook left no notebook in {path}: {error!r}.") from error

    def pre_save_text(self, path: str, text: str) -> str:
        """Run the hooks on the content of a text file and return the result.

        Raises:
            SaveFailed: a hook refused.
        """
        return str(self._run({"type": "file", "format": "text", "content": text}, path))

    def _run(self, model: Json, path: str) -> Any:
        try:
            self._manager.run_pre_save_hooks(model=model, path=path)
        except HTTPError as error:
            raise SaveFailed(
                f"A save hook refused {path}: {error.log_message or error.reason}."
            ) from error
        return model["content"]

    async def saved(self, path: str, file: Path) -> None:
        """Run the post-save hooks and emit the save event; a failure is logged.

        The file is saved, so the change succeeded even if a hook fails.
        """
        manager = self._manager
        await self.rooms.read(path)
        try:
            if manager.post_save_hook is not None or getattr(manager, "_post_save_hooks", True):
                model = await ensure_async(manager.get(path, content=False))
                manager.run_post_save_hooks(model=model, os_path=str(file))
            manager.emit(data={"action": "save", "path": path})
        except Exception:  # noqa: BLE001 - as in the docstring
            _log.exception("A post-save hook failed on %s", path)


def _written(content: Json, path: str) -> StoredNotebook:
    made = cast("Any", nbformat).from_dict(content)
    text: str = cast("Any", nbformat).writes(made, version=nbformat.NO_CONVERT)
    return read_notebook(f"{text}\n".encode("utf-8", "surrogatepass"), path)
