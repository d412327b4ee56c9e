"""Jupyter's contents managers: what they do at a save beside writing the file, and what their errors mean.

Only servers import this module: a program that only edits files works without Jupyter Server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import nbformat
from jupyter_server.services.contents.filemanager import FileContentsManager
from jupyter_server.utils import ensure_async
from tornado.web import HTTPError

from tk_ai_extension.model.errors import (
    InvalidNotebook,
    NotebookNotFound,
    ReadOnly,
    SaveFailed,
    ToolError,
)
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.notebooks.atomic_file import save_error
from tk_ai_extension.notebooks.reading import StoredNotebook, read_notebook
from tk_ai_extension.notebooks.rooms import Rooms

if TYPE_CHECKING:
    from jupyter_server.services.contents.manager import ContentsManager

_log = logging.getLogger(__name__)


def is_on_files(contents_manager: ContentsManager) -> bool:
    """Return whether a contents manager stores files and saves them as Jupyter's own does.

    False for a subclass with its own way (one that writes a script beside each notebook, say).
    """
    if not isinstance(contents_manager, FileContentsManager):
        return False
    kind = cast("Any", type(contents_manager))
    # A function from a configuration file has no module.
    places = (str(kind.save.__module__), str(kind.atomic_writing.__module__))
    return all(place.startswith("jupyter_server.services.contents.") for place in places)


def manager_error(error: HTTPError, path: str) -> ToolError:
    """Return the typed error for a contents manager's error, using an OSError in its causes."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno is not None:
            return save_error(cause, path)
        cause = cause.__cause__ or cause.__context__
    reason = error.log_message or error.reason
    match error.status_code:
        case 404:
            return NotebookNotFound(f"Notebook {path} does not exist.")
        case 403:
            return ReadOnly(f"{path} cannot be written: {reason}.")
        case 400:
            return InvalidNotebook(f"{path} cannot be opened: {reason}.", path=path)
        case _:
            return SaveFailed(f"{path} cannot be saved: {reason}.")


@contextmanager
def manager_errors(path: str) -> Generator[None]:
    """Convert a contents manager's errors to typed errors."""
    try:
        yield
    except HTTPError as error:
        raise manager_error(error, path) from error


class SaveHooks:
    """Everything that a contents manager does at a save in addition to writing the file.

    Args:
        contents_manager: Jupyter's contents manager.

    Attributes:
        rooms: jupyter-collaboration's rooms, which are on these files as well.
    """

    def __init__(self, contents_manager: ContentsManager) -> None:
        self._manager: Any = contents_manager  # its methods are not annotated
        self.rooms = Rooms(contents_manager)

    async def pre_save(self, path: str, notebook: StoredNotebook) -> StoredNotebook:
        """Run the hooks on a notebook and return what they made of it, as Jupyter would write it.

        Without hooks the notebook keeps its bytes. As in Jupyter's own save, an `HTTPError` from a hook
        refuses the save; any other error is logged and ignored, and the hooks run on the event loop.

        Raises:
            SaveFailed: a hook refused, or left no notebook.
        """
        manager = self._manager
        if manager.pre_save_hook is None and not getattr(manager, "_pre_save_hooks", True):
            return notebook
        content = await asyncio.to_thread(_content, notebook)
        after = self._run({"type": "notebook", "format": "json", "content": content}, path)
        try:
            return await asyncio.to_thread(_written, after, path)
        except Exception as error:
            # nbformat raises any exception for what is no notebook.
            raise SaveFailed(f"A save hook left no notebook in {path}: {error!r}.") from error

    def pre_save_text(self, path: str, text: str) -> str:
        """Run the hooks on the content of a text file and return what they made of it.

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

        The file is saved, so the change succeeded, whatever happens here.
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


def _content(notebook: StoredNotebook) -> Json:
    return cast("Any", nbformat).reads(notebook.data.decode(), as_version=nbformat.NO_CONVERT)


def _written(content: Json, path: str) -> StoredNotebook:
    made = cast("Any", nbformat).from_dict(content)
    text: str = cast("Any", nbformat).writes(made, version=nbformat.NO_CONVERT)
    return read_notebook(f"{text}\n".encode("utf-8", "surrogatepass"), path)
