"""Which sandbox this machine has: found by running something in it."""

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
"""Seconds in which a trial must have ended."""

TRIAL_SCRIPT = """
import os, sys
project, outside, hidden = sys.argv[1:]
if os.path.exists(outside):
    sys.exit("it sees files outside of the project")
if os.path.exists(hidden):
    sys.exit("it sees what is hidden in the project")
if len(open("/proc/net/route").readlines()) > 1:
    sys.exit("it has a network")
for setting in ("kernel/core_pattern", "kernel/ns_last_pid", "vm/drop_caches"):
    try:
        os.close(os.open("/proc/sys/" + setting, os.O_WRONLY))
    except OSError:
        continue
    sys.exit("it writes the settings of this machine's kernel")
open(os.path.join(project, "written"), "w").close()
"""
"""Run in the sandbox: what must not be possible there, and what must."""

RUNTIMES = ("crun", "runc")
"""What podman can run containers with; it does not look for another where its own fails."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found out about this machine.

    Attributes:
        name: What was looked at, such as ``bubblewrap``.
        ok: Whether it can be used.
        detail: A sentence: what it is, or why not and what to do.
    """

    name: str
    ok: bool
    detail: str


def find_sandbox(project: Path | None = None) -> Sandbox:
    """The sandbox to use on this machine: bubblewrap, else podman. Each is tried; blocks.

    Args:
        project: Where no program is taken from: what runs in a sandbox writes there.

    Raises:
        SandboxUnavailable: neither works; its details say for each why, and its hint what to do.
    """
    findings: list[Diagnosis] = []
    for sandbox, finding in sandboxes(project):
        if finding.ok and sandbox is not None:
            return sandbox
        findings.append(finding)
    reasons = " ".join(f"{finding.name}: {finding.detail}" for finding in findings)
    raise SandboxUnavailable(
        f"No sandbox works on this machine, and without one nothing was run. {reasons}",
        findings=[{"name": finding.name, "detail": finding.detail} for finding in findings],
    )


def probe(project: Path | None = None) -> list[Diagnosis]:
    """What this machine can do, for ``nb doctor``: each way is tried, whether or not another works.

    Args:
        project: Where no program is taken from.

    Takes up to about a second for each; blocks.
    """
    return [finding for _, finding in sandboxes(project)]


def sandboxes(project: Path | None = None) -> Iterator[tuple[Sandbox | None, Diagnosis]]:
    """Each way there is, tried in turn: the sandbox, or None, and what was found out. Blocks."""
    for kind in ("bubblewrap", "podman"):
        ways = installed(kind, project)
        yield _first_working(ways) if ways else (None, _missing(kind))


def search_path(project: Path | None) -> str:
    """The folders of ``PATH`` that are not in a project: programs there may be anybody's."""
    folders = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if folder]
    if project is not None:
        inside = project.resolve()
        folders = [each for each in folders if not Path(each).resolve().is_relative_to(inside)]
    return os.pathsep.join(folders)


def installed(kind: str, project: Path | None = None) -> Sequence[Sandbox]:
    """The ways to use one kind of sandbox with the programs of this machine, not tried yet."""
    which = partial(shutil.which, path=search_path(project))
    if kind == "bubblewrap" and (bwrap := which("bwrap")):
        # Before 0.8.0, and installed with a set-user-id bit, it does not have those options.
        return [Bubblewrap(bwrap, NO_NAMESPACES), Bubblewrap(bwrap)]
    if kind == "podman" and (podman := which("podman")):
        chosen = [("--runtime", runtime) for runtime in RUNTIMES if which(runtime)]
        return [Podman(podman, options) for options in [(), *chosen]]
    return []


def _missing(name: str) -> Diagnosis:
    if sys.platform != "linux":
        return Diagnosis(name, False, "It is not installed (bubblewrap is for Linux alone).")
    return Diagnosis(name, False, f"It is not installed: `apt install {name}` or the like.")


def _first_working(sandboxes: Sequence[Sandbox]) -> tuple[Sandbox | None, Diagnosis]:
    """The first of several ways to use the same program that works."""
    problems: list[str] = []
    for sandbox in sandboxes:
        problem = trial(sandbox)
        if problem is None:
            return sandbox, Diagnosis(
                sandbox.name,
                True,
                f"{_version(sandbox.executable)}: a program ran in it without network, and saw "
                "nothing outside of its project.",
            )
        if problem not in problems:
            problems.append(problem)
    found = sandboxes[0]
    return None, Diagnosis(
        found.name, False, f"{found.executable} does not work here: {' / '.join(problems)}"
    )


def trial(sandbox: Sandbox) -> str | None:
    """Run this interpreter in a sandbox; return why that does not do, None where it does."""
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
            return "what is written in it does not reach the project."
        return None


def _version(executable: str) -> str:
    asked = subprocess.run(
        [executable, "--version"], capture_output=True, timeout=TRIAL_TIMEOUT, check=False
    )
    return f"{asked.stdout.decode(errors='replace').strip()} ({executable})"
