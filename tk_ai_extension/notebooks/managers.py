"""What there is to know of Jupyter's contents managers: whether they are on files, what they raise.

This, and what imports it, is for servers: a program that has just files does without Jupyter Server.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, cast

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


def is_on_files(contents_manager: Any) -> bool:
    """Return whether a contents manager keeps notebooks as files and saves them as Jupyter's own does.

    One that is derived from Jupyter's but saves in its own way (and keeps a script beside each
    notebook, say) is left to do that.
    """
    if not isinstance(contents_manager, FileContentsManager):
        return False
    save = cast("Any", type(contents_manager)).save
    # What a configuration file defines has no module.
    return str(save.__module__).startswith("jupyter_server.services.contents.")


def tracks_inodes(settings: Mapping[str, Any]) -> bool:
    """Return whether a server's file id manager tracks inodes; replacing a file changes its inode."""
    kind = cast("type[object]", type(settings.get("file_id_manager")))
    return any(base.__name__ == "LocalFileIdManager" for base in kind.__mro__)


def manager_error(error: HTTPError, path: str) -> ToolError:
    """The typed error for what a contents manager raised, which may be the system's at its root."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno is not None:
            return save_error(cause, path)
        cause = cause.__cause__ or cause.__context__
    reason = error.log_message or error.reason
    match error.status_code:
        case 404:
            return NotebookNotFound(f"There is no notebook {path}.")
        case 403:
            return ReadOnly(f"{path} cannot be written: {reason}.")
        case 400:
            return InvalidNotebook(f"{path} cannot be opened: {reason}.", path=path)
        case _:
            return SaveFailed(f"{path} cannot be saved: {reason}.")


@contextmanager
def manager_errors(path: str) -> Generator[None]:
    """Turn a manager's errors into those of the tools."""
    try:
        yield
    except HTTPError as error:
        raise manager_error(error, path) from error
