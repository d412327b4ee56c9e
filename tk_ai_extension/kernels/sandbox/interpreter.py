"""The files that a kernel's program needs in order to run: its interpreter and its packages.

Nothing is run to find them: an interpreter that sandboxed code can write, or one that imports modules
from where that code can write, would run that code outside the sandbox. Links and settings are read.
What they say in a folder that the code can write leads outside only to installations of Python, and
nothing in that folder is evidence that another one is an installation.
"""

from __future__ import annotations

import os
import re
import shutil
import site
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tk_ai_extension.kernels.sandbox.view import SYSTEM

VENV = "pyvenv.cfg"
"""The settings of a virtual environment."""

ENVIRONMENT = (VENV, "conda-meta")
"""Files that mark a virtual environment, which is read-only for code in a sandbox."""

PYTHON = re.compile(r"(python|pypy)[\d.]*\w?")
"""Names of Python interpreters."""

MAX_LINKS = 40
"""Maximum links from one to the next, as Linux has it."""

MAX_FILE = 100_000
"""Maximum bytes of a file with settings that are read."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program to run in a sandbox.

    Attributes:
        argv: Its absolute path and its arguments.
        readable: The files and folders outside the project that it needs in addition to the system's.
        environment: Variables that it needs, such as the location of the user's packages.
    """

    argv: tuple[str, ...]
    readable: tuple[Path, ...]
    environment: Mapping[str, str]


def resolve_program(
    argv: Sequence[str], environment: Mapping[str, str], project: Path | None = None
) -> Program:
    """Determine what a program needs. Blocks.

    The result never contains the home folder or a folder above it.

    Args:
        argv: The program and its arguments.
        environment: All its variables.
        project: The folder that sandboxed code can write, without links in its path.

    Raises:
        OSError: there is no such program.
    """
    found = shutil.which(argv[0], path=environment.get("PATH"))
    if found is None:
        raise FileNotFoundError(f"There is no program {argv[0]}.")
    links = list(_links(Path(found).absolute(), project))
    user: dict[str, str] = {}
    installed = [link for link in links if _is_environment(_prefix(link.path), project)]
    if installed and PYTHON.fullmatch(installed[0].path.name):
        # A link to an interpreter from elsewhere, such as ~/.local/bin/python3, is not needed.
        links = links[links.index(installed[0]) :]
        seen, user = _needed_by_python(links, project)
    else:
        # /opt/julia/bin/julia needs /opt/julia.
        target = links[-1].path
        seen = [links[0].path, target.parent, target.parent.parent] if links[-1].is_trusted else []
    return Program((str(links[0].path), *argv[1:]), _outermost(seen, project), user)


@dataclass(frozen=True, slots=True)
class _Link:
    """A path that leads to a program; trusted unless the project, or a link in it, was on the way."""

    path: Path
    is_trusted: bool


def _links(path: Path, project: Path | None, is_trusted: bool = True) -> Iterator[_Link]:
    """Yield a path and what it links to, in turn; no path has links to folders in the project."""
    for _ in range(MAX_LINKS):
        folder, is_writable = _follow(path.parent, project)
        real = folder / path.name
        is_writable = is_writable or _is_inside(real, project)
        is_trusted = is_trusted and not is_writable
        path = real if is_writable or _is_inside(path, project) else path
        yield _Link(path, is_trusted)
        try:
            path = Path(os.path.normpath(path.parent / path.readlink()))
        except OSError:
            return


def _follow(path: Path, project: Path | None) -> tuple[Path, bool]:
    """Return a path without links, and whether code that can write the project determines it.

    It does if the path ends in the project, or a link in the project is on the way.
    """
    place, is_writable, links = Path("/"), False, 0
    parts = [*reversed(path.absolute().parts[1:])]
    while parts:
        part = parts.pop()
        place = place.parent if part == ".." else place / part
        try:
            target = place.readlink()
        except OSError:
            continue  # no link
        links += 1
        if links > MAX_LINKS:
            return place, True
        is_writable = is_writable or _is_inside(place, project)
        parts += reversed(target.parts[target.is_absolute() :])
        place = Path("/") if target.is_absolute() else place.parent
    return place, is_writable or _is_inside(place, project)


def _needed_by_python(
    links: Sequence[_Link], project: Path | None
) -> tuple[list[Path], dict[str, str]]:
    """Return what an interpreter needs, and its variables.

    Args:
        links: The interpreter's path in its environment, and what it links to, in turn.
        project: The folder that sandboxed code can write.
    """
    program = links[0]
    file = _prefix(program.path) / VENV
    settings = _settings(file)
    is_trusted = program.is_trusted and not _follow(file, project)[1]
    home = settings.get("home")
    bases = islice(_links(Path(home, "python"), project, is_trusted), 1) if home else ()
    is_isolated = bool(settings) and settings.get("include-system-site-packages") != "true"
    seen: list[Path] = []
    for link in (*links, *bases):
        prefix = _prefix(link.path)
        if _is_needed(prefix, project, link.is_trusted):
            seen.append(prefix)
        elif PYTHON.fullmatch(link.path.name) and link.path.is_file():
            seen.append(link.path)
        if link.is_trusted and (link == program or (is_trusted and not is_isolated)):
            seen += _added(_site_folders(prefix), project)
    if is_isolated:
        return seen, {}
    base = Path(site.getuserbase())
    versions = {file.parent.name for path in seen for file in _standard_library(path, project)}
    packages = [folder for folder in _site_folders(base) if folder.parent.name in versions]
    seen += [*packages, *(_added(packages, project) if is_trusted else ())]
    return seen, {"PYTHONUSERBASE": str(base)} if packages else {}


def _prefix(executable: Path) -> Path:
    """Return the folder of the installation or environment that an interpreter is in."""
    above = executable.parent
    return above.parent if above.name == "bin" else above


def _standard_library(prefix: Path, project: Path | None) -> list[Path]:
    """Return files that show that a folder is an installation of Python; none that code can make."""
    found = prefix.glob("lib*/py*/os.py")
    return [file for file in found if not _follow(file, project)[1]]


def _is_environment(prefix: Path, project: Path | None) -> bool:
    """Return whether a folder is an installation or an environment of Python; in the project any is."""
    is_environment = _is_inside(prefix, project) or (prefix / VENV).is_file()
    return is_environment or bool(_standard_library(prefix, project))


def _is_needed(prefix: Path, project: Path | None, is_trusted: bool) -> bool:
    """Return whether an interpreter needs the folder that it is in.

    Code that can write the project may have named it unless it is trusted. Then it is visible only as
    an installation, and never with the folders beside the project.
    """
    if is_trusted:
        return _is_environment(prefix, project)
    is_above = project is not None and project.is_relative_to(_follow(prefix, project)[0])
    return not is_above and bool(_standard_library(prefix, project))


def _is_inside(path: Path, project: Path | None) -> bool:
    return project is not None and path.is_relative_to(project)


def _settings(file: Path) -> dict[str, str]:
    """Return the settings of a virtual environment; none if it is not one."""
    lines = (line.partition("=") for line in _read(file).splitlines())
    return {
        name.strip().lower(): value.strip()
        for name, equals, value in lines
        if equals and "\0" not in value
    }


def _site_folders(prefix: Path) -> list[Path]:
    """Return the folders with the packages of an installation or environment."""
    return [
        folder
        for top in (prefix, prefix / "local")  # Debian's
        for folder in top.glob("lib*/py*/*-packages")
    ]


def _added(folders: Iterable[Path], project: Path | None) -> list[Path]:
    """Return the folders that ``.pth`` files in folders with packages add: those in editable mode.

    Lines with code are ignored.
    """
    return [
        Path(os.path.normpath(folder / line.rstrip()))
        for folder in folders
        for file in sorted(folder.glob("*.pth"))
        if not _follow(file, project)[1]
        for line in _read(file).splitlines()
        if line.strip() and not line.startswith(("#", "import ", "import\t")) and "\0" not in line
    ]


def _read(file: Path) -> str:
    """Return the text of a regular file; an empty string if it cannot be read.

    Sandboxed code may have put a FIFO in its place, on which opening would block.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, ValueError):
        return ""
    try:
        is_regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return os.read(descriptor, MAX_FILE).decode(errors="replace") if is_regular else ""
    finally:
        os.close(descriptor)


def _outermost(seen: Iterable[Path], project: Path | None) -> tuple[Path, ...]:
    """Return the outermost existing paths, without those of the system, the project and the home folder."""
    home = Path.home().resolve()
    # Not resolved: a virtual environment's interpreter is a link, and is run by the link's path.
    allowed = {
        path
        for path in map(Path.absolute, seen)
        if path.exists()
        and not any(path.is_relative_to(folder) for folder in SYSTEM)
        and not _is_inside(path, project)
        and not _follow(path, project)[1]
        and not home.is_relative_to(_follow(path, project)[0])
    }
    return tuple(sorted(path for path in allowed if not allowed & set(path.parents)))
