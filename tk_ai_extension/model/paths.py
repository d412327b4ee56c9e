"""API paths as Jupyter defines them: relative to the root folder, with forward slashes.

`contain` is the only place that converts a caller's path to a path inside the root. It calls ``lstat`` to
resolve symbolic links. A process that can replace a link between this check and the opening of the file
already runs as the server's user, so that race is not defended against. But `notebooks.notebook_files` never
opens a link, a FIFO or a device in its place.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from tk_ai_extension.model.errors import InvalidArguments, PathRefused

MAX_PATH = 4096
"""Maximum bytes of a path (PATH_MAX of Linux)."""
MAX_COMPONENT = 255
"""Maximum bytes of a component (NAME_MAX of common file systems)."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_DRIVE = re.compile(r"[A-Za-z]:")


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
"""The suffix of the stored path of a deleted notebook. No notebook has such a path."""


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


def contain(
    root: Path | None, path: str, *, allow_hidden: bool = False, linked: Sequence[Path] = ()
) -> str:
    r"""Return the API path of ``path``: relative to ``root``, with forward slashes.

    Paths that lead outside the root, directly or through a link, are refused. Components are compared
    as a whole, so a sibling with a name that begins with the root's name is outside:

    >>> root = Path("/srv/work")
    >>> contain(root, "../work-secret/a.ipynb")
    Traceback (most recent call last):
    tk_ai_extension.model.errors.PathRefused: `../work-secret/a.ipynb` has a `..` in it.
    >>> contain(root, "/srv/work-secret/a.ipynb")
    Traceback (most recent call last):
    tk_ai_extension.model.errors.PathRefused: `/srv/work-secret/a.ipynb` is outside the root.
    >>> contain(root, "notes/.env")
    Traceback (most recent call last):
    tk_ai_extension.model.errors.PathRefused: `notes/.env` is hidden.
    >>> contain(root, "a\0.ipynb")
    Traceback (most recent call last):
    tk_ai_extension.model.errors.PathRefused: `a\x00.ipynb` has a control character in it.
    >>> contain(root, r"C:\a.ipynb")
    Traceback (most recent call last):
    tk_ai_extension.model.errors.PathRefused: `C:\\a.ipynb` has a backslash in it.

    Everything else is kept unchanged; nothing is decoded or expanded:

    >>> contain(root, "./notes//a.ipynb")
    'notes/a.ipynb'
    >>> contain(root, "/srv/work/notes/a.ipynb")
    'notes/a.ipynb'
    >>> contain(root, "%2e%2e/~/a.ipynb")
    '%2e%2e/~/a.ipynb'

    Args:
        root: The server's root folder; None for a contents manager that does not use files. Then
            only the rules for names apply, and a leading slash is ignored.
        path: The path, relative to the root or absolute inside it.
        allow_hidden: Whether components may begin with a dot, also after resolving links.
        linked: Folders outside the root that links may lead to.

    Raises:
        PathRefused: The path is invalid or not inside the root. The error reveals nothing outside
            the root.
    """
    contained = _contain(root, path, allow_hidden, linked)
    if not contained:
        raise PathRefused(f"{_shown(path)} is the root folder itself.")
    return contained


def notebook_path(
    root: Path | None, path: str, *, allow_hidden: bool = False, linked: Sequence[Path] = ()
) -> str:
    """Return the API path of a notebook; see `contain`.

    Raises:
        PathRefused: See `contain`.
        InvalidArguments: The path does not end in ``.ipynb``.
    """
    contained = contain(root, path, allow_hidden=allow_hidden, linked=linked)
    if not contained.endswith(".ipynb") or PurePosixPath(contained).name == ".ipynb":
        raise InvalidArguments(
            f"{_shown(path)} does not end in .ipynb.",
            hint="Use a path that ends in .ipynb. For other text files, call read_file.",
        )
    return contained


def folder_path(
    root: Path | None, path: str, *, allow_hidden: bool = False, linked: Sequence[Path] = ()
) -> str:
    """Return the API path of a folder; see `contain`. The root (also ``.`` and ``/``) is ``""``.

    Raises:
        PathRefused: See `contain`.
    """
    return "" if path in ("", ".", "/") else _contain(root, path, allow_hidden, linked)


def _contain(root: Path | None, path: str, allow_hidden: bool, linked: Sequence[Path]) -> str:
    _check_form(path)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if root is not None and path.startswith("/"):
        parts = _below(Path(os.path.realpath(root)), root, path, parts)
    # On Windows, a drive letter (like a backslash) would lead outside the root.
    if parts and _DRIVE.match(parts[0]):
        raise PathRefused(f"{_shown(path)} begins with a drive letter.")
    if not allow_hidden and any(part.startswith(".") for part in parts):
        raise PathRefused(f"{_shown(path)} is hidden.")
    if root is not None and has_link(root, "/".join(parts)):
        resolved = _resolved(Path(os.path.realpath(root)), path, parts)
        _check_target(Path(os.path.realpath(root)), path, resolved, allow_hidden, linked)
    return "/".join(parts)


def _check_form(path: str) -> None:
    if not path:
        raise PathRefused("The path is empty.")
    if _CONTROL.search(path):
        raise PathRefused(f"{_shown(path)} has a control character in it.")
    if "\\" in path:
        raise PathRefused(f"{_shown(path)} has a backslash in it.", hint="Use forward slashes.")
    parts = path.split("/")
    # `..` is always refused: there is no working directory to resolve it against, and after a link
    # it refers to the parent of the link's target.
    if ".." in parts:
        raise PathRefused(f"{_shown(path)} has a `..` in it.")
    if len(path.encode()) > MAX_PATH or any(len(part.encode()) > MAX_COMPONENT for part in parts):
        raise PathRefused(f"{_shown(path)} is too long.")


def _below(real_root: Path, root: Path, path: str, parts: list[str]) -> list[str]:
    """Return the parts of an absolute path below the root; the path may reach the root by a link."""
    absolute = PurePosixPath("/", *parts)
    for name in (root, real_root):
        if absolute.is_relative_to(name):
            return list(absolute.relative_to(name).parts)
    for ancestor in reversed([absolute, *absolute.parents]):
        if Path(os.path.realpath(ancestor)) == real_root:
            return list(absolute.relative_to(ancestor).parts)
    raise PathRefused(f"{_shown(path)} is outside the root.")


def _resolved(real_root: Path, path: str, parts: list[str]) -> Path:
    """Resolve the links of a path; refuse a loop."""
    lexical = real_root.joinpath(*parts)
    try:
        return Path(os.path.realpath(lexical, strict=True))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise PathRefused(f"{_shown(path)} is a loop of links.") from error
        # A path that does not exist or is not accessible is resolved up to its last existing part.
        return Path(os.path.realpath(lexical))


def _check_target(
    real_root: Path, path: str, resolved: Path, allow_hidden: bool, linked: Sequence[Path]
) -> None:
    """Refuse a link that leads outside the root and the linked folders, or to a hidden file."""
    allowed = (real_root, *(Path(os.path.realpath(folder)) for folder in linked))
    base = next((folder for folder in allowed if resolved.is_relative_to(folder)), None)
    if base is None:
        raise PathRefused(
            f"{_shown(path)} leads outside the root through a link.",
            hint="An administrator can allow its target: TkAIExtensionApp.linked_folders.",
        )
    if not allow_hidden and any(part.startswith(".") for part in resolved.relative_to(base).parts):
        raise PathRefused(f"{_shown(path)} leads to a hidden file or folder through a link.")


def _shown(path: str) -> str:
    """Return the path for an error message: escaped and shortened."""
    text = repr(path)[1:-1]
    return f"`{text[:200]}…`" if len(text) > 200 else f"`{text}`"
