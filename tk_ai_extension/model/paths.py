"""API paths as Jupyter defines them: relative to the root folder, with forward slashes."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path


def moved(path: str, old: str, new: str) -> str | None:
    """Return the new path after ``old`` (the path or a parent) was renamed to ``new``; None if unaffected.

    >>> moved("a/b.ipynb", "a", "c")
    'c/b.ipynb'
    >>> moved("ab.ipynb", "a", "c") is None
    True
    """
    if path == old:
        return new
    return f"{new}/{path.removeprefix(old + '/')}" if path.startswith(f"{old}/") else None


DELETED = " (deleted)"
"""The end of what is stored as the path of a deleted notebook. No notebook has such a path."""


def is_deleted(path: str | None) -> bool:
    """Return whether a stored path is that of a notebook that was deleted since."""
    return path is not None and path.endswith(DELETED)


def has_link(root: Path, path: str) -> bool:
    """Return whether one of the existing parts of a path below the root is a link.

    Usually there is none. This check takes a tenth of the time of resolving the whole path.
    """
    location = str(root)
    for part in path.split("/"):
        location = os.path.join(location, part)  # noqa: PTH118 - ten times faster than Path
        try:
            if stat.S_ISLNK(os.lstat(location).st_mode):
                return True
        except (OSError, ValueError):
            return False
    return False


def aliases(root: Path, path: str, names: Iterable[str]) -> list[str]:
    """Return the other names of a file among ``names``: the two names lead to it through links.

    It costs one call of ``stat`` for each name. A hard link is not such a name: an agent's edit replaces
    the file under one name only, so these are two notebooks.

    Args:
        root: The folder that the paths are relative to.
        path: A path of the file.
        names: Paths that may lead to the same file.
    """
    others = [name for name in names if name != path]
    if not others:
        return []
    own = os.path.join(root, path)  # noqa: PTH118
    try:
        found = os.stat(own)  # noqa: PTH116
    except (OSError, ValueError):
        return []
    return [name for name in others if _leads_to(os.path.join(root, name), own, found)]  # noqa: PTH118


def open_aliases(root: Path, path: str, opened: Mapping[str, bool]) -> list[str]:
    """Return the other names of a file among those of open notebooks; see `aliases`.

    Without a link on the way, a file has one name: only names with a link are compared.

    Args:
        root: The folder that the paths are relative to.
        path: A path of the file.
        opened: For the name of each open notebook, whether a link is on the way to it.
    """
    others = [name for name in opened if name != path]
    if others and not has_link(root, path):
        others = [name for name in others if opened[name]]
    return aliases(root, path, others)


def _leads_to(other: str, own: str, found: os.stat_result) -> bool:
    try:
        is_same = os.path.samestat(os.stat(other), found)  # noqa: PTH116
    except (OSError, ValueError):
        return False
    return is_same and os.path.realpath(other) == os.path.realpath(own)
