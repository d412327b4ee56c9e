"""The hooks and events of a save in Jupyter's contents manager, for notebooks that are written as files.

Only servers import this module: a program that only edits files works without Jupyter Server.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import nbformat
from jupyter_server.services.contents.filemanager import FileContentsManager
from jupyter_server.utils import ensure_async
from tornado.web import HTTPError

from tk_ai_extension.model.errors import SaveFailed
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.notebooks.collaboration_rooms import CollaborationRooms, content_of
from tk_ai_extension.notebooks.in_memory import StoredNotebook, read_notebook

if TYPE_CHECKING:
    from jupyter_server.services.contents.manager import ContentsManager

_log = logging.getLogger(__name__)


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
