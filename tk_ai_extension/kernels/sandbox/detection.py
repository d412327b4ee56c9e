"""Finds a sandbox that works on this machine, by running a program in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from tk_ai_extension.kernels.sandbox.bubblewrap import NO_NAMESPACES, Bubblewrap
from tk_ai_extension.kernels.sandbox.interpreter import resolve_program
from tk_ai_extension.kernels.sandbox.podman import Podman
from tk_ai_extension.kernels.sandbox.view import Sandbox, View
from tk_ai_extension.model.errors import SandboxUnavailable

PROGRAM_VARIABLES = (
    "PATH",
    "HOME",
    "USER",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
)
"""Variables of this process for the sandbox program; the kernel does not get them."""

TRIAL_TIMEOUT = 30
"""Seconds in which a trial must end."""

TRIAL_SCRIPT = """
import os, sys
project, outside, hidden, fixed = sys.argv[1:]
if os.path.exists(outside):
    sys.exit("it can see files outside the project")
if os.path.exists(hidden):
    sys.exit("it can see hidden files of the project")
if len(open("/proc/net/route").readlines()) > 1:
    sys.exit("it has network access")
for setting in ("kernel/core_pattern", "kernel/ns_last_pid", "vm/drop_caches"):
    try:
        os.close(os.open("/proc/sys/" + setting, os.O_WRONLY))
    except OSError:
        continue
    sys.exit("it can write settings of the operating system's kernel")
for process in ("self", "1"):
    opened = f"/proc/{process}/fd"
    if any(os.path.isdir(os.path.join(opened, number)) for number in os.listdir(opened)):
        sys.exit("it has an open folder")
try:
    os.mkdir(os.path.join(fixed, "written"))
except OSError:
    pass
else:
    sys.exit("it can write virtual environments in the project")
open(os.path.join(project, "written"), "w").close()
"""
"""Run in the sandbox: checks what must be impossible and what must be possible there."""

RUNTIMES = ("crun", "runc")
"""Container runtimes to try: podman does not try another one if its default fails."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of checking one kind of sandbox on this machine.

    Attributes:
        name: The kind, such as ``bubblewrap``.
        ok: Whether it can be used.
        detail: A sentence: its version, or why it fails and what to do.
    """

    name: str
    ok: bool
    detail: str


def find_sandbox(project: Path | None = None) -> Sandbox:
    """Return the sandbox to use on this machine: bubblewrap, else podman. Blocks for the trials.

    Args:
        project: A folder from which no program is run, because sandboxed code can write there.

    Raises:
        SandboxUnavailable: neither works; the details give the reason for each.
    """
    findings: list[Diagnosis] = []
    for sandbox, finding in sandboxes(project):
        if finding.ok and sandbox is not None:
            return sandbox
        findings.append(finding)
    reasons = " ".join(f"{finding.name}: {finding.detail}" for finding in findings)
    raise SandboxUnavailable(
        f"No sandbox works on this machine, so nothing was run. {reasons}",
        findings=[{"name": finding.name, "detail": finding.detail} for finding in findings],
    )


def probe(project: Path | None = None) -> list[Diagnosis]:
    """Try each kind of sandbox on this machine, for ``nb doctor``. Blocks for about a second each.

    Args:
        project: A folder from which no program is run.
    """
    return [finding for _, finding in sandboxes(project)]


def sandboxes(project: Path | None = None) -> Iterator[tuple[Sandbox | None, Diagnosis]]:
    """Try each kind of sandbox in turn; yield the sandbox, or None, and the diagnosis. Blocks."""
    for kind in ("bubblewrap", "podman"):
        ways = installed(kind, project)
        yield _first_working(ways, project) if ways else (None, _missing(kind))


def search_path(project: Path | None) -> str:
    """Return ``PATH`` without relative folders and those in a project, whose programs are not trusted."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(
        each for each in folders if Path(each).is_absolute() and not _is_inside(each, project)
    )


def program_environment(project: Path | None) -> dict[str, str]:
    """Return the environment of a sandbox program: `PROGRAM_VARIABLES`, with `search_path`.

    Others, such as ``LD_LIBRARY_PATH``, may name folders in the project.
    """
    environment = {name: os.environ[name] for name in PROGRAM_VARIABLES if name in os.environ}
    return {**environment, "PATH": search_path(project)}


def installed(kind: str, project: Path | None = None) -> Sequence[Sandbox]:
    """Return the ways to use one kind of sandbox with this machine's programs, untried."""
    path = search_path(project)

    def which(name: str) -> str | None:
        found = shutil.which(name, path=path)
        return None if found is None or _is_inside(found, project) else found

    if kind == "bubblewrap" and (bwrap := which("bwrap")):
        # bwrap before 0.8.0, or with the set-user-id bit, lacks those options.
        return [Bubblewrap(bwrap, NO_NAMESPACES), Bubblewrap(bwrap)]
    if kind == "podman" and (podman := which("podman")):
        chosen = [("--runtime", runtime) for runtime in RUNTIMES if which(runtime)]
        return [Podman(podman, options) for options in [(), *chosen]]
    return []


def _is_inside(path: str, project: Path | None) -> bool:
    return project is not None and Path(path).resolve().is_relative_to(project.resolve())


def _missing(name: str) -> Diagnosis:
    if sys.platform != "linux":
        return Diagnosis(name, False, "It is not installed (bubblewrap needs Linux).")
    return Diagnosis(
        name, False, f"It is not installed: run `apt install {name}` or your system's equivalent."
    )


def _first_working(
    sandboxes: Sequence[Sandbox], project: Path | None
) -> tuple[Sandbox | None, Diagnosis]:
    """Return the first of several ways to use the same program that works, and the diagnosis."""
    problems: list[str] = []
    environment = program_environment(project)
    for sandbox in sandboxes:
        problem = trial(sandbox, environment)
        if problem is None:
            return sandbox, Diagnosis(
                sandbox.name,
                True,
                f"{_version(sandbox.executable, environment)}: a program in it had no network access "
                "and could see nothing outside its project.",
            )
        if problem not in problems:
            problems.append(problem)
    found = sandboxes[0]
    return None, Diagnosis(
        found.name, False, f"{found.executable} does not work here: {' / '.join(problems)}"
    )


def trial(sandbox: Sandbox, environment: Mapping[str, str]) -> str | None:
    """Run this interpreter in a sandbox; return why the sandbox is unusable, or None if it works.

    Args:
        sandbox: The sandbox to try.
        environment: The environment of the sandbox program.
    """
    with TemporaryDirectory(prefix="nb-") as folder:
        project, outside, root = (Path(folder, name) for name in ("project", "outside", "root"))
        hidden = project / ".nb" / "connection.json"
        fixed = project / "deep" / "environment"
        for made in (hidden.parent, root, fixed):
            made.mkdir(parents=True)
        for file in (outside, hidden):
            file.touch()
        arguments = map(str, (project, outside, hidden, fixed))
        python = resolve_program(
            [sys.executable, "-I", "-S", "-c", TRIAL_SCRIPT, *arguments], os.environ
        )
        view = View(
            folder=project,
            root=root,
            environment={"PATH": os.defpath},
            writable=(project,),
            readable=(*python.readable, fixed),
            empty=(hidden.parent,),
        )
        label = f"nb-trial-{uuid4().hex}"
        try:
            with sandbox.command(python.argv, view, label) as command:
                tried = subprocess.run(
                    command.argv,
                    env={**environment, **command.environment},
                    pass_fds=command.descriptors,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=TRIAL_TIMEOUT,
                    check=False,
                )
        except subprocess.TimeoutExpired:
            sandbox.discard(label, environment)
            return f"a program in it did not end within {TRIAL_TIMEOUT} s."
        said = tried.stderr.decode(errors="replace").strip()
        if tried.returncode:
            return f"{said or f'exit status {tried.returncode}'}."
        if not (project / "written").exists():
            return "files written in it do not reach the project."
        return None


def _version(executable: str, environment: Mapping[str, str]) -> str:
    asked = subprocess.run(
        [executable, "--version"],
        env=environment,
        capture_output=True,
        timeout=TRIAL_TIMEOUT,
        check=False,
    )
    return f"{asked.stdout.decode(errors='replace').strip()} ({executable})"
