"""Finds a sandbox that works on this machine, by running a program in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from tk_ai_extension.kernels.sandbox.bubblewrap import NO_NAMESPACES, Bubblewrap
from tk_ai_extension.kernels.sandbox.interpreter import resolve_program
from tk_ai_extension.kernels.sandbox.podman import Podman
from tk_ai_extension.kernels.sandbox.view import Sandbox, View
from tk_ai_extension.model.errors import SandboxUnavailable

TRIAL_TIMEOUT = 30
"""Seconds in which a trial must end."""

TRIAL_SCRIPT = """
import os, sys
project, outside, hidden = sys.argv[1:]
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
        yield _first_working(ways) if ways else (None, _missing(kind))


def search_path(project: Path | None) -> str:
    """Return ``PATH`` without folders in a project, whose programs are not trusted."""
    folders = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if folder]
    if project is not None:
        inside = project.resolve()
        folders = [each for each in folders if not Path(each).resolve().is_relative_to(inside)]
    return os.pathsep.join(folders)


def installed(kind: str, project: Path | None = None) -> Sequence[Sandbox]:
    """Return the ways to use one kind of sandbox with this machine's programs, untried."""
    which = partial(shutil.which, path=search_path(project))
    if kind == "bubblewrap" and (bwrap := which("bwrap")):
        # bwrap before 0.8.0, or with the set-user-id bit, lacks those options.
        return [Bubblewrap(bwrap, NO_NAMESPACES), Bubblewrap(bwrap)]
    if kind == "podman" and (podman := which("podman")):
        chosen = [("--runtime", runtime) for runtime in RUNTIMES if which(runtime)]
        return [Podman(podman, options) for options in [(), *chosen]]
    return []


def _missing(name: str) -> Diagnosis:
    if sys.platform != "linux":
        return Diagnosis(name, False, "It is not installed (bubblewrap needs Linux).")
    return Diagnosis(
        name, False, f"It is not installed: run `apt install {name}` or your system's equivalent."
    )


def _first_working(sandboxes: Sequence[Sandbox]) -> tuple[Sandbox | None, Diagnosis]:
    """Return the first of several ways to use the same program that works, and the diagnosis."""
    problems: list[str] = []
    for sandbox in sandboxes:
        problem = trial(sandbox)
        if problem is None:
            return sandbox, Diagnosis(
                sandbox.name,
                True,
                f"{_version(sandbox.executable)}: a program in it had no network access and could "
                "see nothing outside its project.",
            )
        if problem not in problems:
            problems.append(problem)
    found = sandboxes[0]
    return None, Diagnosis(
        found.name, False, f"{found.executable} does not work here: {' / '.join(problems)}"
    )


def trial(sandbox: Sandbox) -> str | None:
    """Run this interpreter in a sandbox; return why the sandbox is unusable, or None if it works."""
    with TemporaryDirectory(prefix="nb-") as folder:
        project, outside, root = (Path(folder, name) for name in ("project", "outside", "root"))
        hidden = project / ".nb" / "connection.json"
        for made in (hidden.parent, root):
            made.mkdir(parents=True)
        for file in (outside, hidden):
            file.touch()
        arguments = map(str, (project, outside, hidden))
        python = resolve_program(
            [sys.executable, "-I", "-S", "-c", TRIAL_SCRIPT, *arguments], os.environ
        )
        view = View(
            folder=project,
            root=root,
            environment={"PATH": os.defpath},
            writable=(project,),
            readable=python.readable,
            empty=(hidden.parent,),
        )
        label = f"nb-trial-{uuid4().hex}"
        try:
            with sandbox.command(python.argv, view, label) as command:
                tried = subprocess.run(
                    command.argv,
                    env={**os.environ, **command.environment},
                    pass_fds=command.descriptors,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=TRIAL_TIMEOUT,
                    check=False,
                )
        except subprocess.TimeoutExpired:
            sandbox.discard(label)
            return f"a program in it did not end within {TRIAL_TIMEOUT} s."
        said = tried.stderr.decode(errors="replace").strip()
        if tried.returncode:
            return f"{said or f'exit status {tried.returncode}'}."
        if not (project / "written").exists():
            return "files written in it do not reach the project."
        return None


def _version(executable: str) -> str:
    asked = subprocess.run(
        [executable, "--version"], capture_output=True, timeout=TRIAL_TIMEOUT, check=False
    )
    return f"{asked.stdout.decode(errors='replace').strip()} ({executable})"
