"""Jupyter's contents managers: what they do at a save beside writing the file, and what their errors mean.

`SaveHooks` runs a manager's hooks for files that this package writes itself. `replace_on_save` has a manager
replace files in its own saves: Jupyter's `atomic_writing` overwrites the original, so that a process that is
killed leaves an empty or truncated notebook. A manager writes by path: unlike `atomic_file.Folder` it
follows a link that code in a kernel puts on the way.

Only servers import this module: a program that only edits files works without Jupyter Server.
"""

from __future__ import annotations

import asyncio
import copy
import errno
import logging
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from shutil import copyfileobj
from typing import IO, TYPE_CHECKING, Any, Literal, cast

from jupyter_server.services.contents.filemanager import FileContentsManager
from jupyter_server.utils import ensure_async
from tornado.web import HTTPError

from tk_ai_extension.model.encoding import MALFORMED
from tk_ai_extension.model.errors import (
    InvalidNotebook,
    NotebookNotFound,
    ReadOnly,
    SaveFailed,
    ToolError,
)
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.notebooks import cellforms
from tk_ai_extension.notebooks.atomic_file import Folder, is_replaceable
from tk_ai_extension.notebooks.base import save_error
from tk_ai_extension.notebooks.jsonspans import DROP, JsonForm, edit_object, scan_object, skip
from tk_ai_extension.notebooks.reading import Chunks, StoredNotebook, read_notebook

if TYPE_CHECKING:
    from jupyter_server.services.contents.manager import ContentsManager

_log = logging.getLogger(__name__)

_STOCK = "jupyter_server.services.contents.fileio"
_HOOKS = ("_pre_save_hooks", "_post_save_hooks")
_WRITING = ("atomic_writing", "perm_to_403", "use_atomic_writing")


def missing_parts(contents_manager: Any) -> list[str]:
    """Return the attributes that this module uses and a contents manager for files lacks.

    Without its hooks they are run at each save even if there are none; without its writing Jupyter's own
    saves stay as they are.
    """
    kind = type(contents_manager).__name__
    return [
        f"{kind}.{name}" for name in (*_HOOKS, *_WRITING) if not hasattr(contents_manager, name)
    ]


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


# --- errors


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


# --- Jupyter's own saves


def replace_on_save(contents_manager: Any, tracks_inodes: Callable[[], bool]) -> bool:
    """Have a contents manager for files replace a file at each save.

    Jupyter's way is kept if ``use_atomic_writing`` is off, if a file cannot be replaced (in a folder that is
    not writable, or as a mount point), if that would lose something (a second hard link, an owner who is
    somebody else), and if file ids are bound to inodes.

    Args:
        contents_manager: The manager; one with its own way of writing is not changed.
        tracks_inodes: Returns whether the file id manager identifies files by inode, as
            `LocalFileIdManager` does: it takes a replaced file for another one.

    Returns:
        Whether the manager now replaces files.
    """
    if any(not hasattr(contents_manager, name) for name in _WRITING):
        return False
    stock: Any = contents_manager.atomic_writing
    if stock.__module__ != _STOCK:
        return False
    contents_manager.atomic_writing = _AtomicWriting(contents_manager, stock, tracks_inodes)
    return True


def has_own_writing(contents_manager: Any) -> bool:
    """Return whether a manager for files writes them in a way of its own."""
    return contents_manager.atomic_writing.__module__ not in {_STOCK, __name__}


def may_replace(contents_manager: Any, target: Path) -> bool:
    """Return whether a manager's save would replace a file instead of overwriting it.

    Args:
        contents_manager: The manager; False if it was not changed by `replace_on_save`.
        target: The file, not a link.
    """
    writing = contents_manager.atomic_writing
    return isinstance(writing, _AtomicWriting) and writing.may_replace(target)


class _AtomicWriting:
    """The method `atomic_writing` of a contents manager; see `replace_on_save`."""

    def __init__(self, manager: Any, stock: Any, tracks_inodes: Callable[[], bool]) -> None:
        self._manager = manager
        self._stock = stock
        self._tracks_inodes = tracks_inodes

    def may_replace(self, target: Path) -> bool:
        """Return whether a file may be replaced; else Jupyter's way is kept."""
        return (
            self._manager.use_atomic_writing
            and not self._tracks_inodes()
            and is_replaceable(target)
        )

    @contextmanager
    def __call__(
        self, os_path: str, text: bool = True, encoding: str = "utf-8", **options: Any
    ) -> Generator[IO[Any]]:
        target = Path(os.path.realpath(os_path))
        if not self.may_replace(target):
            _remove_linked_copy(target)
            with self._stock(os_path, text, encoding, **options) as file:
                yield file
            return
        mode: Any = "wb"
        if text:
            mode, options = "w", {"newline": "\n", "encoding": encoding, **options}
        with self._manager.perm_to_403(os_path):
            content = -1
            try:
                with Folder(target.parent).overwriting(target.name) as fd:
                    content = os.dup(fd)
                    opened: IO[Any] = os.fdopen(os.dup(fd), mode, **cast("Any", options))
                    with opened:
                        yield opened
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
                # A mount point: nothing can replace it.
                _remove_linked_copy(target)
                os.lseek(content, 0, os.SEEK_SET)
                with (
                    self._stock(os_path, text=False) as file,
                    os.fdopen(os.dup(content), "rb") as new,
                ):
                    copyfileobj(new, file)
            finally:
                if content >= 0:
                    os.close(content)
        with suppress(OSError):
            # As Jupyter does: the copy is older than the file.
            copy_beside(target).unlink()


def copy_beside(file: Path) -> Path:
    """Return the path of Jupyter's copy of a file that it is about to overwrite."""
    return file.with_name(f".~{file.name}")


def _remove_linked_copy(target: Path) -> None:
    """Remove a link in the place of Jupyter's copy: Jupyter would overwrite the file that it leads to."""
    copy = copy_beside(target)
    with suppress(OSError):
        if copy.is_symlink():
            copy.unlink()


# --- hooks and events


class SaveHooks:
    """Everything that a contents manager does at a save in addition to writing the file.

    Args:
        contents_manager: Jupyter's contents manager.
    """

    def __init__(self, contents_manager: ContentsManager) -> None:
        self._manager: Any = contents_manager  # its methods are not annotated

    @property
    def before(self) -> bool:
        """Whether there are hooks that may change the content before a save."""
        return self._has("pre")

    async def pre_save(self, path: str, notebook: StoredNotebook) -> StoredNotebook:
        """Run the hooks on a file's new content and return it as they changed it.

        Only what a hook changed is rewritten. As in Jupyter's own save, an `HTTPError` from a hook
        refuses the save; any other error is logged and ignored. The hooks run on the event loop, as in
        Jupyter; everything else runs in threads.

        Raises:
            SaveFailed: a hook refused, or left no notebook.
        """
        if not notebook.writable:
            return notebook
        content = await asyncio.to_thread(_model_content, notebook)
        # Keep dropped cells alive: a new object could get the same id().
        cells = tuple(content["cells"])
        before = await asyncio.to_thread(copy.deepcopy, content)
        model: Json = {"type": "notebook", "format": "json", "content": content}
        try:
            self._manager.run_pre_save_hooks(model=model, path=path)
        except HTTPError as error:
            raise SaveFailed(
                f"A save hook refused {path}: {error.log_message or error.reason}."
            ) from error
        try:
            return await asyncio.to_thread(
                _apply_hook_changes, notebook, path, before, model["content"], cells
            )
        except MALFORMED as error:
            raise SaveFailed(f"A save hook left no notebook in {path}: {error!r}.") from error

    async def saved(self, path: str, file: Path) -> None:
        """Run the post-save hooks and emit the save event; a failure is logged.

        The file is saved, so the change succeeded, whatever happens here.
        """
        manager = self._manager
        try:
            if self._has("post"):
                model = await ensure_async(manager.get(path, content=False))
                manager.run_post_save_hooks(model=model, os_path=str(file))
        except Exception as error:  # noqa: BLE001 - as in the docstring
            _log.error("A post-save hook failed on %s: %s", path, error)
        try:
            manager.emit(data={"action": "save", "path": path})
        except Exception:  # noqa: BLE001 - as above
            _log.exception("The save of %s was not announced", path)

    def _has(self, when: Literal["pre", "post"]) -> bool:
        registered = getattr(self._manager, f"_{when}_save_hooks", True)
        return getattr(self._manager, f"{when}_save_hook") is not None or bool(registered)

    def moved(self, old: str, new: str) -> None:
        """Emit a rename event for a move outside Jupyter, so that users of paths follow it."""
        self._manager.emit(data={"action": "rename", "path": new, "source_path": old})


def _model_content(notebook: StoredNotebook) -> Json:
    """Return the notebook as hooks get it: multi-line texts as single strings."""
    content = notebook.raw()
    for cell in cast("list[Json]", content["cells"]):
        cell["source"] = cellforms.joined(cell.get("source"))
        if isinstance(cell.get("outputs"), list):
            cell["outputs"] = list(cellforms.read_outputs(cell["outputs"]))
    return content


def _apply_hook_changes(
    notebook: StoredNotebook, path: str, before: Json, after: Json, cells: Sequence[Json]
) -> StoredNotebook:
    """Return the notebook with the hooks' changes; ``cells`` are the original objects, in order."""
    if after == before:
        return notebook
    known = {id(cell): number for number, cell in enumerate(cells)}
    chunks, order = list(notebook.chunks), Chunks(replace(notebook, chunks=()))
    is_reordered = len(after["cells"]) != len(cells)
    for position, cell in enumerate(cast("list[Json]", after["cells"])):
        slot = known.get(id(cell), -1)
        is_reordered |= slot != position
        if slot < 0:
            body = notebook.encoded(cellforms.content_of(cell, notebook.nbformat)).data
        else:
            body = notebook.chunks[2 * slot + 1]
            if (old := before["cells"][slot]) != cell:
                body = chunks[2 * slot + 1] = _edited(notebook, body, _difference(old, cell))
        order.insert(position, body)
    changed = replace(notebook, chunks=tuple(order.parts if is_reordered else chunks))
    top = _difference(
        {key: value for key, value in before.items() if key != "cells"},
        {key: value for key, value in after.items() if key != "cells"},
    )
    return read_notebook(_edited_top(changed.data, top) if top else changed.data, path)


def _edited(notebook: StoredNotebook, body: bytes, values: Json) -> bytes:
    if "source" in values and values["source"] is not DROP and notebook.as_lines:
        values["source"] = cellforms.split(values["source"])
    if isinstance(values.get("outputs"), list):
        values["outputs"] = cellforms.stored_outputs(values["outputs"], as_lines=notebook.as_lines)
    edited = edit_object(body.decode("utf-8"), values, notebook.form)
    return edited.encode("utf-8")


def _edited_top(data: bytes, values: Json) -> bytes:
    text = data.decode("utf-8")
    start = skip(text, 0)
    members, end = scan_object(text, start)
    form = JsonForm.of(text, start, members)
    edited = edit_object(text[start:end], values, form)
    return (text[:start] + edited + text[end:]).encode("utf-8")


def _difference(old: Json, new: Json) -> Json:
    """Return the fields of ``new`` that differ from ``old``, and `DROP` for those that it lacks."""
    values = {key: value for key, value in new.items() if key not in old or old[key] != value}
    return values | {key: DROP for key in old if key not in new}
