"""Makes Jupyter's own saves atomic: a contents manager replaces files instead of overwriting them.

Jupyter's `atomic_writing` copies the file to ``.~NAME`` and overwrites the original: a process that is
killed in between leaves an empty or truncated notebook. Collaboration rooms, JupyterLab's tabs and all
other clients that save through the manager use `saving.replacing` instead.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import copyfileobj
from typing import IO, Any, cast

from tk_ai_extension.notebooks.files.recovery import copy_beside
from tk_ai_extension.notebooks.files.saving import replacing

_STOCK = "jupyter_server.services.contents.fileio"


def missing_parts(contents_manager: Any) -> list[str]:
    """Return the attributes of `FileManagerMixin` that this module uses and a manager lacks."""
    names = ("atomic_writing", "perm_to_403", "use_atomic_writing")
    return [name for name in names if not hasattr(contents_manager, name)]


def replace_on_save(contents_manager: Any, tracks_inodes: Callable[[], bool]) -> bool:
    """Have a contents manager for files replace a file at each save.

    Jupyter's way is kept if ``use_atomic_writing`` is off, if a file cannot be replaced (in a folder that is
    not writable, or as a mount point), if that would lose something (a second hard link, an owner who is
    somebody else), and if file ids are bound to inodes. The same holds for an agent's writes of text files
    (`may_replace`). An agent's edit always replaces a notebook, so that a crash leaves the old or the new
    content, and another hard link keeps the old content.

    Args:
        contents_manager: The manager; one with its own way of writing is not changed.
        tracks_inodes: Returns whether the file id manager identifies files by inode, as
            `LocalFileIdManager` does: it takes a replaced file for another one.

    Returns:
        Whether the manager now replaces files.
    """
    if missing_parts(contents_manager):
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

        def write_mounted(fd: int) -> None:
            _remove_linked_copy(target)
            os.lseek(fd, 0, os.SEEK_SET)
            with self._stock(os_path, text=False) as file, os.fdopen(os.dup(fd), "rb") as content:
                copyfileobj(content, file)

        with (
            self._manager.perm_to_403(os_path),
            replacing(target, write_mounted=write_mounted) as fd,
        ):
            options = {"newline": "\n"} | options if text else options
            mode, encoded = ("w", encoding) if text else ("wb", None)
            opened: IO[Any] = os.fdopen(os.dup(fd), mode, encoding=encoded, **cast("Any", options))
            with opened:
                yield opened
        with suppress(OSError):
            # As Jupyter does: the copy is older than the file.
            copy_beside(target).unlink()


def _remove_linked_copy(target: Path) -> None:
    """Remove a link in the place of Jupyter's copy: Jupyter would overwrite the file that it leads to."""
    copy = copy_beside(target)
    with suppress(OSError):
        if copy.is_symlink():
            copy.unlink()


def is_replaceable(target: Path) -> bool:
    """Return whether a file can be replaced without losing a second hard link or its owner."""
    try:
        status = target.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    plain = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
    is_ours = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
    return plain and is_ours and os.access(target.parent, os.W_OK)
