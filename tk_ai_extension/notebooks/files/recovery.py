"""Recovers a notebook that a killed save emptied, from the copy that Jupyter left beside it.

Jupyter copies a notebook to ``.~NAME`` before it overwrites it, and then removes the copy.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from tk_ai_extension.notebooks.base import FileChanged
from tk_ai_extension.notebooks.files.indexing import FileVersion
from tk_ai_extension.notebooks.files.saving import replace_file

log = logging.getLogger(__name__)

_BEFORE = 60.0
"""Seconds by which the copy may be older than the empty notebook."""

_QUIET = 5.0
"""Seconds after the last write in which a writer is assumed, if the system has no leases."""


def copy_beside(file: Path) -> Path:
    """Return the path of Jupyter's copy of a file that it is about to overwrite."""
    return file.with_name(f".~{file.name}")


def find_copy(file: Path) -> Path | None:
    """Return the path of a notebook's copy if the copy is a complete notebook, else None."""
    copy = copy_beside(file)
    return copy if _notebook_in(copy) is not None else None


def recover(file: Path) -> Path | None:
    """Replace an empty notebook by its copy if the copy certainly is its last content.

    That is so if the file is empty, no process has it open for writing, and the copy is a complete
    notebook that was made for that save. A file with content is never changed.

    Returns:
        The path of the copy; None if nothing was recovered.
    """
    copy = copy_beside(file)
    try:
        status, copied = file.stat(), copy.stat()
        made_for_it = copied.st_ctime >= status.st_mtime - _BEFORE
        if status.st_size or not made_for_it or _is_open_for_writing(file):
            return None
        data = _notebook_in(copy)
        if data is None:
            return None
        replace_file(file, [data], None, FileVersion.of(status))
    except (OSError, FileChanged):
        return None
    with suppress(OSError):
        copy.unlink()
    log.warning("%s was empty after an interrupted save: recovered from %s", file, copy)
    return copy


def _notebook_in(file: Path) -> bytes | None:
    try:
        data = file.read_bytes()
        found: Any = json.loads(data)
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(cast("Any", found).get("nbformat"), int):
        return None
    return data


def _is_open_for_writing(file: Path) -> bool:
    """Return whether a process has the file open for writing: a read lease is refused then."""
    if sys.platform == "linux":
        import fcntl

        fd = os.open(file, os.O_RDONLY)
        try:
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except BlockingIOError:
            return True
        except OSError:
            pass  # Another user's file, or a file system without leases.
        else:
            return False
        finally:
            os.close(fd)
    return time.time() - file.stat().st_mtime < _QUIET
