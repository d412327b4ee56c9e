"""What a sandboxed process can see, and the interface of the programs that enforce it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, Self

Access = Literal["read", "write", "empty"]

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


@dataclass(frozen=True, slots=True)
class View:
    """Everything that a sandboxed process can see, in addition to the system.

    Attributes:
        folder: Its working directory.
        root: An empty folder outside the sandbox, for programs that need a root file system.
        environment: All its variables.
        writable: Folders that it may write: the project and the folder of its sockets.
        readable: Files and folders that it may read: the interpreter and its packages.
        empty: Folders that are replaced by empty ones, such as ``.nb``.
        ends_with_parent: Whether it ends with the process that started it.
    """

    folder: Path
    root: Path
    environment: Mapping[str, str]
    writable: tuple[Path, ...]
    readable: tuple[Path, ...] = ()
    empty: tuple[Path, ...] = ()
    ends_with_parent: bool = False

    def system(self) -> list[str]:
        """Return the system's folders and files that exist on this machine."""
        return [path for path in (*SYSTEM, *SETTINGS, PROCESSORS) if os.path.lexists(path)]

    def mounts(self) -> list[tuple[Path, Access]]:
        """Return all other mounts, outer folders before inner ones.

        A virtual environment inside the project is read-only; a project inside a readable folder is
        writable. The folders between a read-only one and the project are mounts of their own, because a
        mount cannot be renamed, and a folder with a mount in it can.
        """
        fixed = {path for path in self.readable if self.outer(path) is not None}
        mounts: dict[Path, Access] = {Path(SCRATCH): "empty"}
        for path in fixed:
            between = [each for each in path.parents if self.outer(each) is not None]
            if fixed.isdisjoint(between):
                mounts |= dict.fromkeys(between, "write")  # pyrefly: ignore[bad-assignment]
        mounts |= dict.fromkeys(self.readable, "read")  # pyrefly: ignore[bad-assignment]
        mounts |= dict.fromkeys(self.writable, "write")  # pyrefly: ignore[bad-assignment]
        mounts |= dict.fromkeys(self.empty, "empty")  # pyrefly: ignore[bad-assignment]
        return sorted(mounts.items(), key=lambda mount: len(mount[0].parts))

    def outer(self, path: Path) -> Path | None:
        """Return the writable folder that a path is below; None if it is in none."""
        return next((folder for folder in self.writable if folder in path.parents), None)


@dataclass(frozen=True, slots=True)
class Command:
    """A command to start once, in a ``with`` block, without secrets in ``argv``.

    Every user of the machine can read the arguments of all processes, and a kernelspec may set a key.

    Attributes:
        argv: The program's absolute path and its arguments.
        environment: Variables that the program needs in addition to its own.
        descriptors: Open file descriptors that it inherits with the same numbers.
    """

    argv: list[str]
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    descriptors: tuple[int, ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)


class Sandbox(Protocol):
    """A program that runs others with a `View` and without network access."""

    @property
    def name(self) -> str:
        """``bubblewrap`` or ``podman``."""
        ...

    @property
    def executable(self) -> str:
        """The path of the program."""
        ...

    @property
    def options(self) -> tuple[str, ...]:
        """Options of the sandbox program that this machine needs."""
        ...

    def command(self, argv: Sequence[str], view: View, label: str) -> Command:
        """Return the command that runs ``argv`` with a view; its argv has no values of variables.

        Args:
            argv: The program's absolute path and its arguments.
            view: What it can see.
            label: A unique name of letters, digits and ``-``.
        """
        ...

    def processes(self, pid: int) -> list[int]:
        """Return the ids of the processes to interrupt if `command` runs as ``pid``."""
        ...

    def discard(self, label: str, environment: Mapping[str, str]) -> None:
        """End what remains of the program after the process of `command` was killed. Blocks.

        Args:
            label: The one of `command`.
            environment: The environment of the sandbox program.
        """
        ...
