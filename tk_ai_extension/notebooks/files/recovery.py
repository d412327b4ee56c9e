"""Recovers a notebook that a killed save emptied, from the copy that Jupyter left beside it.

Jupyter copies a notebook to ``.~NAME`` before it overwrites it, and then removes the copy. No caller
names the copy, so nothing has checked it: it is read as `files.opening` does, and only up to a size.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from tk_ai_extension.notebooks.base import FileChanged
from tk_ai_extension.notebooks.files.indexing import FileVersion
from tk_ai_extension.notebooks.files.opening import open_descriptor, open_regular
from tk_ai_extension.notebooks.files.saving import read_span, replace_file

log = logging.getLogger(__name__)

_BEFORE = 60.0
"""Seconds by which the copy may be older than the empty notebook."""

MAX_COPY = 256 << 20
"""Maximum bytes of a copy: a sparse file of any size costs nothing to create."""


def copy_beside(file: Path) -> Path:
    """Return the path of Jupyter's copy of a file that it is about to overwrite."""
    return file.with_name(f".~{file.name}")


def find_copy(file: Path) -> Path | None:
    """Return the path of a notebook's copy if the copy is a complete notebook, else None."""
    copy = copy_beside(file)
    return copy if _read_notebook(copy) is not None else None


def recover(file: Path) -> Path | None:
    """Replace an empty notebook by its copy if the copy certainly is its last content.

    That is so if the file is empty, certainly no process has it open for writing, and the copy is a
    complete notebook that was made for that save. A file with content is never changed.

    Returns:
        The path of the copy; None if nothing was recovered.
    """
    copy = copy_beside(file)
    try:
        status = file.stat()
        if status.st_size or (found := _read_notebook(copy)) is None:
            return None
        data, created = found
        if created < status.st_mtime - _BEFORE or not _has_no_writer(file):
            return None
        # A save that starts now truncates the file, so that it has another version. A lease that is
        # still held would have the save wait, and then write to the file that was replaced.
        replace_file(file, [data], None, FileVersion.of(status))
    except (OSError, FileChanged):
        return None
    with suppress(OSError):
        copy.unlink()
    log.warning("%s was empty after an interrupted save: recovered from %s", file, copy)
    return copy


def _read_notebook(file: Path) -> tuple[bytes, float] | None:
    """Return a complete notebook's content and its ctime; None if the file is something else."""
    try:
        with open_regular(file) as opened:
            status = os.fstat(opened.fileno())
            data = b"" if status.st_size > MAX_COPY else read_span(opened, (0, status.st_size))
        found: Any = json.loads(data)
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(cast("Any", found).get("nbformat"), int):
        return None
    return data, status.st_ctime


def _has_no_writer(file: Path) -> bool:
    """Return whether certainly no process has the file open for writing: a read lease needs that.

    Only Linux has leases, for the user's own files, and not on all file systems. Elsewhere nothing
    distinguishes an interrupted save from one that was suspended or waits for a slow disk.
    """
    if sys.platform != "linux":
        return False
    import fcntl
    import signal

    fd = open_descriptor(file)
    try:
        # Sent to this process if the file is opened for writing at this moment. The default, SIGIO,
        # would end the process; SIGURG is ignored.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True
