"""The files that a kernel's program needs in order to run: its interpreter and its packages."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tk_ai_extension.kernels.sandbox.view import SYSTEM

ENVIRONMENT = ("pyvenv.cfg", "conda-meta")
"""Files that mark a virtual environment, which is read-only for code in a sandbox."""

LOCATE_TIMEOUT = 30
"""Seconds in which a Python interpreter must report its paths."""

LOCATE_SCRIPT = """
import json, site, sys
user = site.getuserbase() if site.ENABLE_USER_SITE else None
seen = [sys.executable, sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix]
print(json.dumps([sys.executable, seen + [path for path in sys.path if path], user]))
"""


@dataclass(frozen=True, slots=True)
class Program:
    """A program to run in a sandbox.

    Attributes:
        argv: Its absolute path and its arguments.
        readable: The files and folders that it needs in addition to the system's.
        environment: Variables that it needs, such as the location of the user's packages.
    """

    argv: tuple[str, ...]
    readable: tuple[Path, ...]
    environment: Mapping[str, str]


def resolve_program(
    argv: Sequence[str], environment: Mapping[str, str], project: Path | None = None
) -> Program:
    """Determine what a program needs, by running a Python interpreter outside the sandbox.

    The result never contains the home folder or a folder above it. Blocks.

    Args:
        argv: The program and its arguments.
        environment: All its variables.
        project: The folder that sandboxed code can write. An interpreter in it is run only from a
            virtual environment, which that code cannot write.

    Raises:
        OSError: there is no such program, it is not trusted, or it does not report its paths.
    """
    executable = shutil.which(argv[0], path=environment.get("PATH"))
    if executable is None:
        raise FileNotFoundError(f"There is no program {argv[0]}.")
    if project is not None and _is_untrusted(Path(executable), project):
        raise PermissionError(
            f"{executable} is in the project but not in a virtual environment: sandboxed code may "
            "have written it. Use an interpreter outside the project."
        )
    extra: dict[str, str] = {}
    if Path(executable).name.startswith(("python", "pypy")):
        executable, seen, user = _locate_python(executable, environment)
        if user is not None:
            extra["PYTHONUSERBASE"] = user
    else:
        # /opt/julia/bin/julia needs /opt/julia.
        target = Path(executable).resolve()
        seen = [executable, str(target.parent), str(target.parent.parent)]
    return Program((executable, *argv[1:]), _outermost(seen), extra)


def _is_untrusted(executable: Path, project: Path) -> bool:
    """Return whether sandboxed code can write a program."""
    for path in (executable.absolute(), executable.resolve()):
        if path.is_relative_to(project):
            above = path.relative_to(project).parents
            folders = [project / folder for folder in above if folder.name]
            if not any(Path(f, mark).exists() for f in folders for mark in ENVIRONMENT):
                return True
    return False


def _locate_python(
    executable: str, environment: Mapping[str, str]
) -> tuple[str, list[str], str | None]:
    asked = subprocess.run(
        [executable, "-E", "-c", LOCATE_SCRIPT],
        cwd="/",
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=LOCATE_TIMEOUT,
        check=False,
    )
    if asked.returncode:
        raise OSError(f"{executable} does not run: {asked.stderr.decode(errors='replace')}")
    itself, seen, user = json.loads(asked.stdout)
    return itself, seen, user


def _outermost(seen: Sequence[str]) -> tuple[Path, ...]:
    """Return the outermost existing paths, without the system's and without the home folder."""
    home = Path.home().resolve()
    # Not resolved: a virtual environment's interpreter is a link, and is run by the link's path.
    paths = {Path(path).absolute() for path in seen if Path(path).exists()}
    allowed = {
        path
        for path in paths
        if not any(path.is_relative_to(folder) for folder in SYSTEM)
        and not home.is_relative_to(path.resolve())
    }
    return tuple(sorted(path for path in allowed if not allowed & set(path.parents)))
