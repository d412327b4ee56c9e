"""Jupyter's contents managers: whether they store files, and the meaning of their errors.

Only servers import this module: a program that only edits files works without Jupyter Server.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from jupyter_server.services.contents.filemanager import FileContentsManager
from tornado.web import HTTPError

from tk_ai_extension.model.errors import (
    InvalidNotebook,
    NotebookNotFound,
    ReadOnly,
    SaveFailed,
    ToolError,
)
from tk_ai_extension.notebooks.base import save_error

if TYPE_CHECKING:
    from jupyter_server.services.contents.manager import ContentsManager


def is_on_files(contents_manager: ContentsManager) -> bool:
    """Return whether a contents manager stores files and saves them as Jupyter's own does.

    False for a subclass with its own ``save`` (one that writes a script beside each notebook, say).
    """
    if not isinstance(contents_manager, FileContentsManager):
        return False
    save = cast("Any", type(contents_manager)).save
    # A function from a configuration file has no module.
    return str(save.__module__).startswith("jupyter_server.services.contents.")


def tracks_inodes(settings: Mapping[str, Any]) -> bool:
    """Return whether a server's file id manager tracks inodes; replacing a file changes its inode."""
    kind = cast("type[object]", type(settings.get("file_id_manager")))
    return any(base.__name__ == "LocalFileIdManager" for base in kind.__mro__)


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
