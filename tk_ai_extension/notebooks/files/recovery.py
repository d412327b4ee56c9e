"""A notebook that a killed save emptied, recovered from the copy that Jupyter left beside it.

Stock Jupyter copies a notebook to ``.~NAME`` before it overwrites it, and removes the copy after.
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
"""Seconds by which the copy may be older than the moment at which the notebook was emptied."""

_QUIET = 5.0
"""Seconds without a write after which nobody writes, where the system cannot say it."""


def copy_beside(file: Path) -> Path:
    """Where Jupyter keeps the copy of a file that it is about to overwrite."""
    return file.with_name(f".~{file.name}")


def find_copy(file: Path) -> Path | None:
    """The copy beside a notebook, where it is itself a whole notebook."""
    copy = copy_beside(file)
    return copy if _notebook_in(copy) is not None else None


def recover(file: Path) -> Path | None:
    """Replace an empty notebook by the copy beside it, where that is surely what was in it.

    It is where the file is empty, nobody has it open for writing, and the copy is a whole notebook
    that was made for that save. A file with anything in it is never touched.

    Returns:
        Where the copy was; None where nothing was recovered.
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
    log.warning("%s was empty, as after a save that was cut off: recovered from %s", file, copy)
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
    """Return whether a process is about to write the file: a read lease is not granted then."""
    if sys.platform == "linux":
        import fcntl

        fd = os.open(file, os.O_RDONLY)
        try:
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except BlockingIOError:
            return True
        except OSError:
            pass  # Not its owner, or a file system without leases.
        else:
            return False
        finally:
            os.close(fd)
    return time.time() - file.stat().st_mtime < _QUIET
