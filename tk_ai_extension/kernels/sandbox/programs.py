"""Runs a program in a sandbox with bubblewrap or podman: without network, with one folder to write."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from tk_ai_extension.model.errors import KernelUnsupported

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
"""The system's programs and libraries, read-only."""

SETTINGS = tuple(
    f"/etc/{name}"
    for name in (
        *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "nsswitch.conf", "hosts"),
        *("passwd", "group", "localtime", "timezone", "fonts", "mime.types", "matplotlibrc"),
        *("ipython", "jupyter", "R"),
    )
)
"""Settings that programs read. Not all of ``/etc``: it also holds keys."""

PROCESSORS = "/sys/devices/system/cpu"
"""Where libraries count processors."""

SCRATCH = "/tmp"  # noqa: S108 - a folder inside the sandbox, empty at its start
"""The home folder of a sandboxed process; it is deleted with the sandbox."""

KERNEL_SETTINGS = ("/proc/sys", "/proc/pressure")
"""Settings of the operating system's kernel. Root can write them without capabilities, because root owns
the files; ``bwrap`` itself covers similar ones (``sysrq-trigger``, ``irq``, ``bus``)."""

NO_NAMESPACES = ("--unshare-user", "--disable-userns")
"""Keeps sandboxed code from creating user namespaces, in which it would have all capabilities."""

MAX_FILES = 16_384
"""Maximum open files, and maximum processes, of a program in a container."""

TIMEOUT = 30
"""Seconds in which a trial, or the removal of a container, must end."""

PROGRAM_VARIABLES = ("HOME", "USER", "TMPDIR", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
"""Variables of this process for the sandbox program, beside ``PATH``. Others, such as
``LD_LIBRARY_PATH``, may name folders in the project."""

START = '. "$0"; exec "$@"'
"""Shell script that sets the variables of a file and becomes a program. Variables are not in the arguments,
which every user of the machine can read, and a kernelspec may set a key."""

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
class View:
    """Everything that a sandboxed process can see, in addition to the system.

    Attributes:
        project: The only folder of the machine that it can write.
        private: A folder of mode 0700 that belongs to this process alone; its name is unique.
        folder: Its working directory.
        environment: All its variables.
        readable: Files and folders that it may read: its interpreter.
        fixed: Folders directly in the project that are read-only: virtual environments.
        hidden: Folders in the project that are replaced by empty ones, such as ``.nb``.
    """

    project: Path
    private: Path
    folder: Path
    environment: Mapping[str, str]
    readable: tuple[Path, ...] = ()
    fixed: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()

    @property
    def sockets(self) -> Path:
        """The folder of its sockets, its only way out of the sandbox."""
        return self.private / "s"

    @property
    def given(self) -> Path:
        """The folder of files for it to read, outside of what it can write."""
        return self.private / "given"

    def mounts(self) -> list[tuple[Path, str]]:
        """Return all mounts but `fixed`, outer folders before inner ones: ``ro``, ``rw`` or ``empty``."""
        mounts = dict.fromkeys((*self.readable, self.given), "ro")
        mounts |= dict.fromkeys((self.project, self.sockets), "rw")
        mounts |= dict.fromkeys((Path(SCRATCH), *self.hidden), "empty")
        return sorted(mounts.items(), key=lambda mount: len(mount[0].parts))

    def prepare(self, argv: Sequence[str]) -> list[str]:
        """Make the private folders and the file of variables; return the command to run inside."""
        for folder in (self.sockets, self.given, self.private / "root"):
            folder.mkdir(mode=0o700, exist_ok=True)
        lines = [
            f"export {name}={shlex.quote(value)}\n"
            for name, value in self.environment.items()
            if name.isidentifier()
        ]
        file = self.given / "environment"
        file.touch(mode=0o600)
        file.write_text("".join(lines), encoding="utf-8", errors="surrogateescape")
        return ["/bin/sh", "-c", START, str(file), *argv]


def _system() -> list[Path]:
    return [Path(path) for path in (*SYSTEM, *SETTINGS, PROCESSORS) if os.path.lexists(path)]


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """Runs programs with ``bwrap``: Linux namespaces that an ordinary user can create.

    It stays as two processes, the outer waiting for the inner, and ends with this process.
    """

    executable: str
    options: tuple[str, ...] = ()
    name: str = "bubblewrap"

    @contextlib.contextmanager
    def command(self, argv: Sequence[str], view: View) -> Generator[tuple[list[str], list[int]]]:
        """Give ``bwrap`` with the view as options."""
        command = [self.executable, *self.options, "--unshare-all", "--cap-drop", "ALL"]
        command += ["--clearenv", "--die-with-parent"]
        for path in _system():
            # On most systems /bin is a link to /usr/bin.
            seen = ["--symlink", path.readlink()] if path.is_symlink() else ["--ro-bind", path]
            command += [*map(str, seen), str(path)]
        command += ["--proc", "/proc", "--dev", "/dev"]
        for path in KERNEL_SETTINGS:
            command += ["--ro-bind-try", path, path]
        for path, access in view.mounts():
            if access == "empty":
                command += ["--tmpfs", str(path)]
            else:
                command += ["--ro-bind" if access == "ro" else "--bind", str(path), str(path)]
        inside = view.prepare(argv)
        with contextlib.ExitStack() as opened:
            descriptors: list[int] = []
            for path in view.fixed:
                # Code in another kernel may replace it by a link at any time: none is followed.
                flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
                descriptors.append(os.open(path, flags))
                opened.callback(os.close, descriptors[-1])
                command += ["--ro-bind-fd", str(descriptors[-1]), str(path)]
            command += ["--remount-ro", "/", "--chdir", str(view.folder), "--", *inside]
            yield command, descriptors

    def processes(self, pid: int) -> list[int]:
        """Return the program and its children, without ``bwrap``, which a signal would end."""
        try:
            inner = psutil.Process(pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [process.pid for process in inner[1:]]

    def discard(self, private: Path, environment: Mapping[str, str]) -> None:
        """Do nothing: all processes end with ``bwrap``."""


@dataclass(frozen=True, slots=True)
class Podman:
    """Runs programs with ``podman run``, in a container without an image, which shows the machine's system.

    Podman forwards signals.
    """

    executable: str
    options: tuple[str, ...] = ()
    name: str = "podman"

    @contextlib.contextmanager
    def command(self, argv: Sequence[str], view: View) -> Generator[tuple[list[str], list[int]]]:
        """Give ``podman run`` with the view as options."""
        import resource  # Not on Windows, which has no podman sandbox.

        command = [self.executable, *self.options, "run", "--rm", "--interactive"]
        command += ["--name", view.private.name, "--network=none", "--cap-drop=all"]
        command += ["--security-opt=no-new-privileges", "--security-opt=label=disable"]
        command += ["--log-driver=none", "--hostname=sandbox", "--no-hosts", "--passwd=false"]
        command += ["--read-only", "--read-only-tmpfs=false"]
        command += ["--env-host=false", "--http-proxy=false", "--unsetenv-all"]
        if os.geteuid() != 0:
            command.append("--userns=keep-id")
        limits = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
        for name, limit in limits.items():
            # By default podman requests more than the hard limit, and fails.
            hard = resource.getrlimit(limit)[1]
            number = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
            command.append(f"--ulimit={name}={number}:{number}")
        command += [f"--volume={path.resolve()}:{path}:ro" for path in _system()]
        for path, access in (*view.mounts(), *((path, "ro") for path in view.fixed)):
            if access == "empty":
                command.append(f"--tmpfs={path}:rw,mode=1777,notmpcopyup")
            else:
                command.append(f"--volume={path}:{path}:{access}")
        inside = view.prepare(argv)
        command += [f"--workdir={view.folder}", "--rootfs", str(view.private / "root")]
        yield [*command, *inside], []

    def processes(self, pid: int) -> list[int]:
        """Return podman's own process, which forwards the signal."""
        return [pid]

    def discard(self, private: Path, environment: Mapping[str, str]) -> None:
        """Remove the container, which outlives podman's process."""
        subprocess.run(
            [
                self.executable,
                *self.options,
                *["rm", "--force", "--ignore", "--time=0"],
                private.name,
            ],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            timeout=TIMEOUT,
            check=False,
        )


Sandbox = Bubblewrap | Podman


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
        KernelUnsupported: neither works; the details give the reason for each.
    """
    findings: list[Diagnosis] = []
    for sandbox, finding in sandboxes(project):
        if sandbox is not None:
            return sandbox
        findings.append(finding)
    reasons = " ".join(f"{finding.name}: {finding.detail}" for finding in findings)
    raise KernelUnsupported(
        f"No sandbox works on this machine, so nothing was run. {reasons}",
        findings=[{"name": finding.name, "detail": finding.detail} for finding in findings],
        hint=(
            "Install bubblewrap or podman (`apt install bubblewrap`), allow user "
            "namespaces, or start the kernel without a sandbox. `nb doctor` shows "
            "what this machine supports."
        ),
    )


def probe(project: Path | None = None) -> list[Diagnosis]:
    """Try each kind of sandbox on this machine, for ``nb doctor``. Blocks for about a second each."""
    return [finding for _, finding in sandboxes(project)]


def sandboxes(project: Path | None = None) -> Iterator[tuple[Sandbox | None, Diagnosis]]:
    """Try each kind of sandbox in turn; yield the sandbox, or None, and the diagnosis. Blocks."""
    environment = program_environment(project)
    for name, program in (("bubblewrap", "bwrap"), ("podman", "podman")):
        found = shutil.which(program, path=environment["PATH"])
        if found is None or _is_in(found, project):
            yield None, Diagnosis(name, False, f"It is not installed: run `apt install {name}`.")
            continue
        # bwrap before 0.8.0, or with the set-user-id bit, lacks the options.
        ways: tuple[Sandbox, ...] = (Bubblewrap(found, NO_NAMESPACES), Bubblewrap(found))
        problems: dict[str, None] = {}
        for sandbox in ways if name == "bubblewrap" else (Podman(found),):
            problem = _try(sandbox, environment)
            if problem is None:
                saw = "a program in it had no network access and could see nothing outside its project."
                yield sandbox, Diagnosis(name, True, f"{found}: {saw}")
                break
            problems[f"{found}: {problem}"] = None
        else:
            yield None, Diagnosis(name, False, f"It does not work here: {' / '.join(problems)}")


def program_environment(project: Path | None) -> dict[str, str]:
    """Return the environment of a sandbox program, whose ``PATH`` has nothing of the project."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    trusted = [each for each in folders if Path(each).is_absolute() and not _is_in(each, project)]
    known = {name: os.environ[name] for name in PROGRAM_VARIABLES if name in os.environ}
    return {**known, "PATH": os.pathsep.join(trusted)}


def _is_in(path: str, project: Path | None) -> bool:
    return project is not None and Path(path).resolve().is_relative_to(project.resolve())


def _try(sandbox: Sandbox, environment: Mapping[str, str]) -> str | None:
    """Run this interpreter in a sandbox; return why the sandbox is unusable, or None if it works."""
    with TemporaryDirectory(prefix="nb-trial-") as folder:
        project, outside = Path(folder, "project"), Path(folder, "outside")
        private = Path(folder, f"{Path(folder).name}-own")  # a container's name must be unique
        hidden, fixed = project / ".nb", project / "environment"
        for made in (project, private, hidden, fixed):
            made.mkdir()
        for file in (outside, hidden / "key"):
            file.touch()
        arguments = map(str, (project, outside, hidden / "key", fixed))
        argv, readable = find_program(
            [sys.executable, "-I", "-S", "-c", TRIAL, *arguments], os.environ, project
        )
        view = View(
            project,
            private,
            folder=project,
            environment={"PATH": os.defpath},
            readable=readable,
            fixed=(fixed,),
            hidden=(hidden,),
        )
        try:
            with sandbox.command(argv, view) as (command, descriptors):
                tried = subprocess.run(
                    command,
                    env=environment,
                    pass_fds=descriptors,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=TIMEOUT,
                    check=False,
                )
        except subprocess.TimeoutExpired:
            sandbox.discard(private, environment)
            return f"a program in it did not end within {TIMEOUT} s."
        said = tried.stderr.decode(errors="replace").strip()
        if tried.returncode:
            return f"{said or f'exit status {tried.returncode}'}."
        if not (project / "written").exists():
            return "files written in it do not reach the project."
        return None


def find_program(
    argv: Sequence[str], environment: Mapping[str, str], project: Path
) -> tuple[list[str], tuple[Path, ...]]:
    """Return a command with its program's path, and the folders that the program needs to be seen.

    These are its installation (``/opt/julia`` for ``/opt/julia/bin/julia``), and the one under a virtual
    environment. Sandboxed code may have written the files of the project: what they name is not shown,
    except this process's own Python.

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
