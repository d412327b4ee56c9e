"""Path containment: the one place where a path from outside becomes a path below the root.

Pure but for the ``lstat`` calls that resolving symbolic links takes. Whoever can swap a link
between this check and the opening of the file already runs code as the server's user; this is not
a defence against them.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from tk_ai_extension.model.errors import NotANotebook, PathRefused

MAX_PATH = 4096
"""Bytes of a whole path (PATH_MAX of Linux)."""
MAX_COMPONENT = 255
"""Bytes of one component (NAME_MAX of the usual file systems)."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_DRIVE = re.compile(r"[A-Za-z]:")


def contain(
    root: Path | None, path: str, *, allow_hidden: bool = False, linked: Sequence[Path] = ()
) -> str:
    r"""The API path of ``path``: relative to ``root``, with forward slashes between its parts.

    What would leave the root is refused, by name or through a link. Containment is decided
    component by component, so a sibling whose name merely begins like the root's is outside:

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

    Everything else is kept as it is; nothing is decoded or expanded:

    >>> contain(root, "./notes//a.ipynb")
    'notes/a.ipynb'
    >>> contain(root, "/srv/work/notes/a.ipynb")
    'notes/a.ipynb'
    >>> contain(root, "%2e%2e/~/a.ipynb")
    '%2e%2e/~/a.ipynb'

    Args:
        root: The server's root folder; None for a contents manager that is not on files: then the
            rules on names alone hold, and a slash in front means nothing.
        path: Relative to the root, or absolute inside it.
        allow_hidden: Whether components may begin with a dot, here and behind links.
        linked: Folders outside the root that links in it may lead to.

    Raises:
        PathRefused: it is none, or not below the root. Nothing outside the root is revealed.
    """
    contained = _contain(root, path, allow_hidden, linked)
    if not contained:
        raise PathRefused(f"{_shown(path)} names the root folder itself, not something in it.")
    return contained


def is_contained(root: Path | None, path: str) -> bool:
    """Return whether `contain` takes a path: what it refuses is in no listing."""
    try:
        contain(root, path)
    except PathRefused:
        return False
    return True


def notebook_path(
    root: Path | None, path: str, *, allow_hidden: bool = False, linked: Sequence[Path] = ()
) -> str:
    """`contain`, for a path that must end in ``.ipynb``.

    Raises:
        PathRefused: as `contain` says.
        NotANotebook: it ends in something else.
    """
    contained = contain(root, path, allow_hidden=allow_hidden, linked=linked)
    if not contained.endswith(".ipynb") or PurePosixPath(contained).name == ".ipynb":
        raise NotANotebook(f"{_shown(path)} does not end in .ipynb.")
    return contained


def folder_path(
    root: Path | None, path: str, *, allow_hidden: bool = False, linked: Sequence[Path] = ()
) -> str:
    """`contain`, for a folder: an empty path, ``.``, ``/`` and the root itself are ``""``.

    Raises:
        PathRefused: as `contain` says.
    """
    return "" if path in ("", ".", "/") else _contain(root, path, allow_hidden, linked)


def _contain(root: Path | None, path: str, allow_hidden: bool, linked: Sequence[Path]) -> str:
    _check_form(path)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if root is not None and path.startswith("/"):
        parts = _below(Path(os.path.realpath(root)), root, path, parts)
    # A drive (like a backslash) means nothing on the systems we run on, and on Windows a way out.
    if parts and _DRIVE.match(parts[0]):
        raise PathRefused(f"{_shown(path)} begins with a drive.")
    if not allow_hidden and any(part.startswith(".") for part in parts):
        raise PathRefused(f"{_shown(path)} is hidden.")
    if root is not None and _has_link(root, parts):
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
    # There is no working folder here that `..` could be relative to, and behind a link it means
    # something else than it seems to: it is never resolved, always refused.
    if ".." in parts:
        raise PathRefused(f"{_shown(path)} has a `..` in it.")
    if len(path.encode()) > MAX_PATH or any(len(part.encode()) > MAX_COMPONENT for part in parts):
        raise PathRefused(f"{_shown(path)} is too long.")


def _below(real_root: Path, root: Path, path: str, parts: list[str]) -> list[str]:
    """The parts of an absolute path below the root, by whatever name it calls the root."""
    absolute = PurePosixPath("/", *parts)
    for name in (root, real_root):
        if absolute.is_relative_to(name):
            return list(absolute.relative_to(name).parts)
    for ancestor in reversed([absolute, *absolute.parents]):
        if Path(os.path.realpath(ancestor)) == real_root:
            return list(absolute.relative_to(ancestor).parts)
    raise PathRefused(f"{_shown(path)} is outside the root.")


def _has_link(root: Path, parts: list[str]) -> bool:
    """Return whether there is a link on the way from the root to the last of the parts that exists.

    Mostly there is none, and then the path is what it says, wherever the root itself is: to look at
    these few parts costs a tenth of resolving the whole path, which each call would have to do.
    """
    place = str(root)
    for part in parts:
        place = os.path.join(place, part)  # noqa: PTH118 - a tenth of a Path's time
        try:
            if stat.S_ISLNK(os.lstat(place).st_mode):
                return True
        except OSError:
            return False
    return False


def _resolved(real_root: Path, path: str, parts: list[str]) -> Path:
    """Where a path leads through links; refuses a circle of them."""
    lexical = real_root.joinpath(*parts)
    try:
        return Path(os.path.realpath(lexical, strict=True))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise PathRefused(f"{_shown(path)} is a circle of links.") from error
        # What does not exist yet, or may not be looked at, is resolved as far as it goes.
        return Path(os.path.realpath(lexical))


def _check_target(
    real_root: Path, path: str, resolved: Path, allow_hidden: bool, linked: Sequence[Path]
) -> None:
    """Refuse what links lead out of the root and the folders they may lead to, or to what is hidden."""
    places = (real_root, *(Path(os.path.realpath(folder)) for folder in linked))
    place = next((place for place in places if resolved.is_relative_to(place)), None)
    if place is None:
        raise PathRefused(
            f"{_shown(path)} leads outside the root through a link.",
            hint="An administrator can allow its target: TkAIExtensionApp.linked_folders.",
        )
    if not allow_hidden and any(part.startswith(".") for part in resolved.relative_to(place).parts):
        raise PathRefused(f"{_shown(path)} leads to something hidden through a link.")


def _shown(path: str) -> str:
    """The path as an error may repeat it: escaped, and never long."""
    text = repr(path)[1:-1]
    return f"`{text[:200]}…`" if len(text) > 200 else f"`{text}`"
