"""Runs a program in a sandbox with bubblewrap or podman: without network, with one folder to write."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import psutil

from tk_ai_extension.model.errors import KernelUnsupported

CPUS = "/sys/devices/system/cpu"
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", CPUS)
"""The system's programs and libraries, and where these count processors; read-only."""

SETTINGS = tuple(
    f"/etc/{name}"
    for name in (
        *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "nsswitch.conf", "hosts"),
        *("passwd", "group", "localtime", "timezone", "fonts", "mime.types", "matplotlibrc"),
        *("ipython", "jupyter", "R"),
    )
)
"""Settings that programs read. Not all of ``/etc``: it also holds keys."""

SCRATCH = "/tmp"  # noqa: S108 - a folder inside the sandbox, empty at its start
"""The home folder of a sandboxed process; it is deleted with the sandbox."""

KERNEL_SETTINGS = ("/proc/sys", "/proc/pressure")
"""Settings of the operating system's kernel. Root can write them without capabilities, because root owns
the files; ``bwrap`` itself covers similar ones (``sysrq-trigger``, ``irq``, ``bus``)."""

TIMEOUT = 30
"""Seconds in which a trial, or the removal of a container, must end."""

PROGRAM_VARIABLES = ("HOME", "USER", "TMPDIR", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
"""Variables of this process for the sandbox program, in addition to ``PATH``. Others, such as
``LD_LIBRARY_PATH``, may name folders in the project."""

START = '. "$0"; cd "$1" && shift && exec "$@"'
"""Shell script that sets the variables of a file, enters a folder and becomes a program.

Every user of the machine can read arguments, and a kernelspec may set a key as a variable.
"""

ENVIRONMENT = ("pyvenv.cfg", "conda-meta")
"""Files that mark a virtual environment, which is read-only for code in a sandbox."""

OWN_PACKAGE = Path(__file__).parents[2]
"""This package."""

TRIAL = """
import os, sys
project, outside, hidden, fixed = sys.argv[1:]
def can_write(path):
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
    except OSError:
        return False
    return True
for found, problem in (
    (os.path.exists(outside), "it can see files outside the project"),
    (os.path.exists(hidden), "it can see hidden files of the project"),
    (len(open("/proc/net/route").readlines()) > 1, "it has network access"),
    (any(map(can_write, ("/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches"))),
     "it can write settings of the operating system's kernel"),
    (can_write(os.path.join(fixed, "written")), "it can write virtual environments in the project"),
    (not can_write(os.path.join(project, "written")), "it cannot write the project"),
):
    if found:
        sys.exit(problem)
"""
"""Run in the sandbox: checks what must be impossible and what must be possible there."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """Runs programs that see only the machine's system files, their interpreter and one project.

    Attributes:
        name: The kind: ``bubblewrap`` or ``podman``.
        executable: The path of the sandbox program.
        project: The only folder of the machine that they can write.
        hidden: Folders in the project that they see empty: ``.nb``, with the server's socket and the
            kernels' keys.
    """

    name: str
    executable: str
    project: Path
    hidden: tuple[Path, ...] = ()

    @contextlib.contextmanager
    def command(
        self,
        argv: Sequence[str],
        private: Path,
        *,
        folder: Path,
        environment: Mapping[str, str],
        readable: Sequence[Path] = (),
    ) -> Generator[tuple[list[str], list[int]]]:
        """Yield the command that runs a program in the sandbox, and the descriptors that it inherits.

        Args:
            argv: The program and its arguments.
            private: A folder of mode 0700 of this process alone, with a unique name. Its folder ``s`` is for
                sockets, the only way out of the sandbox; ``given`` is for files to read.
            folder: The working directory.
            environment: All variables of the program.
            readable: Files and folders that it may read, in addition to its installation.

        Raises:
            OSError: there is no such program, or a folder cannot be opened.
        """
        argv, installation = find_program(argv, environment, self.project)
        sockets, given = private / "s", private / "given"
        for made in (sockets, given, private / "root"):
            made.mkdir(mode=0o700, exist_ok=True)
        lines = [
            f"export {name}={shlex.quote(value)}\n"
            for name, value in environment.items()
            if name.isidentifier()
        ]
        file = given / "environment"
        file.touch(mode=0o600)
        file.write_text("".join(lines), encoding="utf-8", errors="surrogateescape")
        mounts = dict.fromkeys((*installation, *readable, given), "ro")
        mounts |= dict.fromkeys((self.project, sockets), "rw")
        mounts |= dict.fromkeys((Path(SCRATCH), *self.hidden), "empty")
        # Outer folders come before inner ones.
        ordered = dict(sorted(mounts.items(), key=lambda mount: len(mount[0].parts)))
        with contextlib.ExitStack() as opened:
            fixed: dict[Path, int] = {}
            for path in fixed_folders(self.project):
                # Code in another kernel may replace it by a link at any time: none is followed.
                fixed[path] = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
                opened.callback(os.close, fixed[path])
            options = PROGRAMS[self.name][1](ordered, fixed, private)
            inside = ["/bin/sh", "-c", START, str(file), str(folder), *argv]
            descriptors = list(fixed.values()) if self.name == "bubblewrap" else []
            yield [self.executable, *options, *inside], descriptors

    def processes(self, pid: int) -> list[int]:
        """Return the processes that an interrupt must reach, from the sandbox program's."""
        if self.name == "podman":  # forwards signals
            return [pid]
        try:
            inside = psutil.Process(pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        # bwrap is two processes, the outer waiting for the inner; a signal would end it.
        return [process.pid for process in inside[1:]]

    def discard(self, private: Path) -> None:
        """Remove podman's container, which outlives its process; bubblewrap leaves nothing."""
        if self.name == "podman":
            subprocess.run(
                [self.executable, "rm", "--force", "--ignore", "--time=0", private.name],
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIMEOUT,
                check=False,
            )

    def environment(self) -> dict[str, str]:
        """Return the environment of the sandbox program, with no folder of the project in ``PATH``."""
        folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
        trusted = [
            path for path in folders if Path(path).is_absolute() and not self.can_write(path)
        ]
        known = {name: os.environ[name] for name in PROGRAM_VARIABLES if name in os.environ}
        return {**known, "PATH": os.pathsep.join(trusted)}

    def can_write(self, path: str) -> bool:
        """Return whether sandboxed code may have written a file."""
        return Path(path).resolve().is_relative_to(self.project.resolve())


def _system() -> list[Path]:
    return [Path(path) for path in (*SYSTEM, *SETTINGS) if os.path.lexists(path)]


def _bubblewrap(mounts: Mapping[Path, str], fixed: Mapping[Path, int], _private: Path) -> list[str]:
    """Return options of ``bwrap``, which makes Linux namespaces and ends with this process."""
    # In a new user namespace, code would have all capabilities.
    options = ["--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"]
    options += ["--clearenv", "--die-with-parent"]
    for path in _system():
        # On most systems /bin is a link to /usr/bin.
        seen = ["--symlink", path.readlink()] if path.is_symlink() else ["--ro-bind", path]
        options += [*map(str, seen), str(path)]
    options += ["--proc", "/proc", "--dev", "/dev"]
    for setting in KERNEL_SETTINGS:
        options += ["--ro-bind-try", setting, setting]
    for path, access in mounts.items():
        if access == "empty":
            options += ["--tmpfs", str(path)]
        else:
            options += ["--ro-bind" if access == "ro" else "--bind", str(path), str(path)]
    for path, descriptor in fixed.items():
        options += ["--ro-bind-fd", str(descriptor), str(path)]
    return [*options, "--remount-ro", "/", "--"]


def _podman(mounts: Mapping[Path, str], fixed: Mapping[Path, int], private: Path) -> list[str]:
    """Return options of ``podman``: a container without an image, which shows the machine's system."""
    options = ["run", "--rm", "--interactive", "--name", private.name, "--network=none"]
    options += ["--cap-drop=all", "--security-opt=no-new-privileges"]
    options += ["--security-opt=label=disable", "--log-driver=none", "--hostname=sandbox"]
    options += ["--no-hosts", "--passwd=false", "--read-only", "--read-only-tmpfs=false"]
    options += ["--env-host=false", "--http-proxy=false", "--unsetenv-all"]
    if os.geteuid() != 0:
        options.append("--userns=keep-id")
    options += [f"--volume={path.resolve()}:{path}:ro" for path in _system()]
    for path, access in (*mounts.items(), *((path, "ro") for path in fixed)):
        if access == "empty":
            options.append(f"--tmpfs={path}:rw,mode=1777,notmpcopyup")
        else:
            options.append(f"--volume={path}:{path}:{access}")
    return [*options, "--rootfs", str(private / "root")]


PROGRAMS = {"bubblewrap": ("bwrap", _bubblewrap), "podman": ("podman", _podman)}
"""For each kind of sandbox, its program, and a function that returns its options for the mounts."""


class SandboxDiagnosis(NamedTuple):
    """The result of checking one kind of sandbox on this machine.

    Attributes:
        name: The kind, such as ``bubblewrap``.
        detail: A sentence: that it works, or why it fails and what to do.
        sandbox: The sandbox if it works, else None.
    """

    name: str
    detail: str
    sandbox: Sandbox | None = None


def find_sandbox(project: Path, *, hidden: Sequence[Path] = ()) -> Sandbox:
    """Return the sandbox for a project: bubblewrap, else podman. Blocks for about a second to try it.

    Args:
        project: The only folder that sandboxed code can write. No program is run from it.
        hidden: Folders in the project that it must not see; others are ignored.

    Raises:
        KernelUnsupported: neither works, the project contains the home folder, or this process imports
            modules from it.
    """
    project = project.resolve()
    if Path.home().resolve().is_relative_to(project):
        raise KernelUnsupported(
            f"A sandbox for {project} would expose your whole home folder.",
            hint="Move the notebook into a separate folder, and open it there.",
        )
    fixed_folders(project)
    inside = tuple(path for path in map(Path.resolve, hidden) if path.is_relative_to(project))
    reasons = ""
    for finding in probe(project):
        if finding.sandbox is not None:
            return replace(finding.sandbox, hidden=inside)
        reasons += f" {finding.name}: {finding.detail}"
    raise KernelUnsupported(
        f"No sandbox works on this machine, so nothing was run.{reasons}",
        hint=(
            "Install bubblewrap or podman (`apt install bubblewrap`), allow user "
            "namespaces, or start the kernel without a sandbox. `nb doctor` shows "
            "what this machine supports."
        ),
    )


def probe(project: Path) -> Iterator[SandboxDiagnosis]:
    """Try each kind of sandbox in turn for a project. Blocks for about a second each."""
    for name, (program, _) in PROGRAMS.items():
        sandbox = Sandbox(name, program, project)
        found = shutil.which(program, path=sandbox.environment()["PATH"])
        if found is None or sandbox.can_write(found):
            yield SandboxDiagnosis(name, f"It is not installed: run `apt install {name}`.")
            continue
        sandbox = replace(sandbox, executable=found)
        problem = _try(sandbox)
        if problem is None:
            saw = "a program in it had no network access and could see nothing outside its project."
            yield SandboxDiagnosis(name, f"{found}: {saw}", sandbox)
        else:
            yield SandboxDiagnosis(name, f"It does not work here: {found}: {problem}")


def _try(sandbox: Sandbox) -> str | None:
    """Run this interpreter in a sandbox; return why the sandbox is unusable, or None if it works."""
    with TemporaryDirectory(prefix="nb-trial-") as folder:
        project, outside = Path(folder, "project"), Path(folder, "outside")
        private = Path(folder, f"{Path(folder).name}-own")  # a container's name must be unique
        hidden, fixed = project / ".nb", project / "environment"
        for made in (project, private, hidden, fixed):
            made.mkdir()
        for file in (outside, hidden / "key", fixed / ENVIRONMENT[0]):
            file.touch()
        arguments = map(str, (project, outside, hidden / "key", fixed))
        trial = replace(sandbox, project=project, hidden=(hidden,)).command(
            [sys.executable, "-I", "-S", "-c", TRIAL, *arguments],
            private,
            folder=project,
            environment={"PATH": os.defpath},
        )
        try:
            with trial as (command, descriptors):
                tried = subprocess.run(
                    command,
                    env=sandbox.environment(),
                    pass_fds=descriptors,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=TIMEOUT,
                    check=False,
                )
        except subprocess.TimeoutExpired:
            sandbox.discard(private)
            return f"a program in it did not end within {TIMEOUT} s."
        said = tried.stderr.decode(errors="replace").strip()
        if tried.returncode:
            return f"{said or f'exit status {tried.returncode}'}."
        return None


def fixed_folders(project: Path) -> tuple[Path, ...]:
    """Return the folders directly in a project that sandboxed code must not write.

    They contain virtual environments, or modules that this process, and others like it, import.

    Raises:
        KernelUnsupported: that code could add modules to what this process imports.
    """
    known = (OWN_PACKAGE, *map(Path, (sys.prefix, sys.base_prefix, *sys.path)))
    fixed: set[Path] = set()
    for path in {found for each in known for found in (each.absolute(), each.resolve())}:
        if path.is_relative_to(project):
            top = project.joinpath(*path.relative_to(project).parts[:1])
            if top == project or top.is_symlink() or not top.is_dir():
                raise KernelUnsupported(
                    f"nb itself imports modules from {path}, where code in a sandbox could put some.",
                    hint="Install nb in an environment without this project in editable mode, and "
                    "without its folder in PYTHONPATH.",
                )
            fixed.add(top)
    environments = {file.parent for name in ENVIRONMENT for file in project.glob(f"*/{name}")}
    fixed.update(folder for folder in environments if not folder.is_symlink())
    return tuple(sorted(fixed))


def find_program(
    argv: Sequence[str], environment: Mapping[str, str], project: Path
) -> tuple[list[str], tuple[Path, ...]]:
    """Return a command with its program's path, and the folders that the program needs to be seen.

    These are its installation (``/opt/julia`` for ``/opt/julia/bin/julia``), and the one under a virtual
    environment. Sandboxed code may have written the project's files: folders that they name are not shown,
    except this process's Python.

    Raises:
        OSError: there is no such program.
    """
    found = shutil.which(argv[0], path=environment.get("PATH"))
    if found is None:
        raise FileNotFoundError(f"There is no program {argv[0]}.")
    program, prefixes = Path(found).absolute(), list[Path]()
    if any(each.is_relative_to(project) for each in (program, program.parent.resolve())):
        prefixes += map(Path, (sys.prefix, sys.base_prefix))
    else:
        settings = program.parents[1] / "pyvenv.cfg"
        if settings.is_file():
            lines = map(str.split, settings.read_text("utf-8", "replace").splitlines())
            prefixes += [Path(words[2]).parent for words in lines if words[:2] == ["home", "="]]
            prefixes.append(program.parents[1])
        else:
            program = program.resolve()
        prefixes.append(program.resolve().parents[1])
    home = Path.home().resolve()
    shown = {each for folder in prefixes for each in (folder, folder.resolve())}
    return [str(program), *argv[1:]], tuple(
        folder
        for folder in sorted(shown)
        if not any(each.is_relative_to(folder.resolve()) for each in (project, home))
        and not folder.is_relative_to(project)
        and not any(map(folder.is_relative_to, SYSTEM))
    )
