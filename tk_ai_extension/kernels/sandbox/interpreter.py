"""What a kernel's program needs to see to run: its interpreter and its packages."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tk_ai_extension.kernels.sandbox.view import SYSTEM

ENVIRONMENT = ("pyvenv.cfg", "conda-meta")
"""What is in a folder that is a virtual environment: code in a sandbox does not write there."""

LOCATE_TIMEOUT = 30
"""Seconds in which a Python interpreter says where it is."""

LOCATE_SCRIPT = """
import json, site, sys
user = site.getuserbase() if site.ENABLE_USER_SITE else None
seen = [sys.executable, sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix]
print(json.dumps([sys.executable, seen + [path for path in sys.path if path], user]))
"""


@dataclass(frozen=True, slots=True)
class Program:
    """A program as it is run in a sandbox.

    Attributes:
        argv: Its path, absolute, and its arguments.
        readable: The files and folders that it needs, beside the system's.
        environment: Variables that it needs, such as where its user's packages are.
    """

    argv: tuple[str, ...]
    readable: tuple[Path, ...]
    environment: Mapping[str, str]


def resolve_program(
    argv: Sequence[str], environment: Mapping[str, str], project: Path | None = None
) -> Program:
    """Find out what a program needs; a Python interpreter is asked, outside of any sandbox.

    Neither the home folder nor one above it is among it, whatever the interpreter says. Blocks.

    Args:
        argv: The program and its arguments.
        environment: All its variables.
        project: Where code in a sandbox writes: only a virtual environment, which it does not write,
            is asked there.

    Raises:
        OSError: there is no such program, it may be somebody else's, or cannot say where it is.
    """
    executable = shutil.which(argv[0], path=environment.get("PATH"))
    if executable is None:
        raise FileNotFoundError(f"There is no program {argv[0]}.")
    if project is not None and _is_untrusted(Path(executable), project):
        raise PermissionError(
            f"{executable} is in the project and in no virtual environment there: code in a sandbox "
            "may have written it."
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
    """Return whether a program is where code in a sandbox writes."""
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
    """Without what is missing, is the system's, or is in another one; without the home folder."""
    home = Path.home().resolve()
    # Not resolved: the interpreter of a virtual environment is a link, and is asked for by its name.
    paths = {Path(path).absolute() for path in seen if Path(path).exists()}
    allowed = {
        path
        for path in paths
        if not any(path.is_relative_to(folder) for folder in SYSTEM)
        and not home.is_relative_to(path.resolve())
    }
    return tuple(sorted(path for path in allowed if not allowed & set(path.parents)))
