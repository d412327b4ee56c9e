"""Jupyter's own saves made atomic: a contents manager on files replaces what it used to overwrite.

Stock `atomic_writing` copies the file to ``.~NAME`` and overwrites the original: a process that is
killed in between leaves an empty or cut-off notebook. Collaboration rooms, JupyterLab's tabs and
everybody else who saves through the manager get `saving.replacing` instead.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

from tk_ai_extension.notebooks.files.recovery import copy_beside
from tk_ai_extension.notebooks.files.saving import replacing

_STOCK = "jupyter_server.services.contents.fileio"


def missing_parts(contents_manager: Any) -> list[str]:
    """What of `FileManagerMixin` is not as this module expects it; empty where all is."""
    names = ("atomic_writing", "perm_to_403", "use_atomic_writing")
    return [name for name in names if not hasattr(contents_manager, name)]


def replace_on_save(contents_manager: Any, tracks_inodes: Callable[[], bool]) -> bool:
    """Has a contents manager on files replace them at each save.

    Stock writing stays where ``use_atomic_writing`` is off, where a file cannot be replaced without a
    loss (a second hard link, a folder that may not be written) and where file ids follow inodes.

    Args:
        contents_manager: The manager; one that writes in a way of its own is left alone.
        tracks_inodes: Whether a file id manager knows files by their inodes, as
            `LocalFileIdManager` does: it would take a replaced file for another one.

    Returns:
        Whether the manager replaces files now.
    """
    if missing_parts(contents_manager):
        return False
    stock: Any = contents_manager.atomic_writing
    if stock.__module__ != _STOCK:
        return False

    @contextmanager
    def atomic_writing(
        os_path: str, text: bool = True, encoding: str = "utf-8", **options: Any
    ) -> Generator[IO[Any]]:
        target = Path(os.path.realpath(os_path))
        if (
            not contents_manager.use_atomic_writing
            or tracks_inodes()
            or not _is_replaceable(target)
        ):
            with stock(os_path, text, encoding, **options) as file:
                yield file
            return
        with contents_manager.perm_to_403(os_path), replacing(target) as fd:
            options = {"newline": "\n"} | options if text else options
            mode, encoded = ("w", encoding) if text else ("wb", None)
            opened: IO[Any] = os.fdopen(os.dup(fd), mode, encoding=encoded, **cast("Any", options))
            with opened:
                yield opened
        with suppress(OSError):
            # As stock writing does: it is older than what is saved now.
            copy_beside(target).unlink()

    contents_manager.atomic_writing = atomic_writing
    return True


def _is_replaceable(target: Path) -> bool:
    try:
        status = target.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    plain = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
    return plain and os.access(target.parent, os.W_OK)
