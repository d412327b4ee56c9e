"""The files that a kernel's program needs in order to run: its interpreter and its packages.

Nothing is run to find them: an interpreter that sandboxed code can write, or one that imports modules
from where that code can write, would run that code outside the sandbox. Links and settings are read.
What they say in a folder that the code can write leads outside only to installations of Python.
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
    installed = [path for path in links if _is_environment(_prefix(path), project)]
    if installed and PYTHON.fullmatch(installed[0].name):
        # A link to an interpreter from elsewhere, such as ~/.local/bin/python3, is not needed.
        program, *further = links[links.index(installed[0]) :]
        seen, user = _needed_by_python(program, further, project)
    else:
        # /opt/julia/bin/julia needs /opt/julia.
        program, target = links[0], links[-1]
        is_trusted = not any(_is_inside(path, project) for path in links)
        seen = [program, target.parent, target.parent.parent] if is_trusted else []
    return Program((str(program), *argv[1:]), _outermost(seen, project), user)


def _links(path: Path, project: Path | None) -> Iterator[Path]:
    """Yield a path and what it links to, in turn; paths in the project are without links to folders."""
    for _ in range(MAX_LINKS):
        real = path.parent.resolve() / path.name
        path = real if _is_inside(real, project) or _is_inside(path, project) else path
        yield path
        try:
            path = Path(os.path.normpath(path.parent / path.readlink()))
        except OSError:
            return


def _needed_by_python(
    program: Path, links: Iterable[Path], project: Path | None
) -> tuple[list[Path], dict[str, str]]:
    """Return what an interpreter needs, and its variables.

    Args:
        program: The interpreter's path in its environment.
        links: What it links to, in turn.
        project: The folder that sandboxed code can write.
    """
    settings = _settings(_prefix(program) / VENV)
    home = settings.get("home")
    bases = islice(_links(Path(home, "python"), project), 1) if home else ()
    is_isolated = bool(settings) and settings.get("include-system-site-packages") != "true"
    is_trusted = not _is_inside(program, project)
    seen: list[Path] = []
    for path in (program, *links, *bases):
        prefix = _prefix(path)
        is_trusted = is_trusted and not _is_inside(path, project)
        if _is_installation(prefix) or (is_trusted and _is_environment(prefix, project)):
            seen.append(prefix)
        elif PYTHON.fullmatch(path.name) and path.is_file():
            seen.append(path)
        if is_trusted and (path == program or not is_isolated):
            seen += _added(_site_folders(prefix), project)
    if is_isolated:
        return seen, {}
    base = Path(site.getuserbase())
    versions = {file.parent.name for path in seen for file in path.glob("lib*/py*/os.py")}
    packages = [folder for folder in _site_folders(base) if folder.parent.name in versions]
    seen += [*packages, *_added(packages, project)]
    return seen, {"PYTHONUSERBASE": str(base)} if packages else {}


def _prefix(executable: Path) -> Path:
    """Return the folder of the installation or environment that an interpreter is in."""
    above = executable.parent
    return above.parent if above.name == "bin" else above


def _is_installation(prefix: Path) -> bool:
    """Return whether a folder is an installation of Python, with the standard library."""
    return any(prefix.glob("lib*/py*/os.py"))


def _is_environment(prefix: Path, project: Path | None) -> bool:
    """Return whether a folder is an installation or an environment of Python; in the project any is."""
    return _is_inside(prefix, project) or (prefix / VENV).is_file() or _is_installation(prefix)


def _is_inside(path: Path, project: Path | None) -> bool:
    return project is not None and path.is_relative_to(project)


def _settings(file: Path) -> dict[str, str]:
    """Return the settings of a virtual environment; none if it is not one."""
    lines = (line.partition("=") for line in _read(file).splitlines())
    return {name.strip().lower(): value.strip() for name, equals, value in lines if equals}


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
        if not _is_inside(file.resolve(), project)
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
        and not any(_is_inside(each, project) for each in (path, path.resolve()))
        and not home.is_relative_to(path.resolve())
    }
    return tuple(sorted(path for path in allowed if not allowed & set(path.parents)))
