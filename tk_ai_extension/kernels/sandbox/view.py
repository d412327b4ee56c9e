"""What a sandboxed process sees, and what makes it see no more."""

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
"""What programs read of the system's settings; no more of ``/etc``: it holds keys, too."""

PROCESSORS = "/sys/devices/system/cpu"
"""Where libraries count processors."""

SCRATCH = "/tmp"  # noqa: S108 - a folder of the sandbox's own, empty at its start
"""The home of a sandboxed process: its own, gone with it."""


@dataclass(frozen=True, slots=True)
class View:
    """All that a sandboxed process sees, beside the system.

    Attributes:
        folder: The folder that it starts in.
        root: An empty folder outside of the sandbox, for those that mount all this on one.
        environment: All of its variables.
        writable: Folders that it may write: the project, and that of its sockets.
        readable: Files and folders that it may read: the interpreter and its packages.
        empty: Folders that it sees as empty ones of its own, such as ``.nb``.
        ends_with_parent: Whether it ends with the process that has started it.
    """

    folder: Path
    root: Path
    environment: Mapping[str, str]
    writable: tuple[Path, ...]
    readable: tuple[Path, ...] = ()
    empty: tuple[Path, ...] = ()
    ends_with_parent: bool = False

    def system(self) -> list[str]:
        """What this machine has of the system's folders and files."""
        return [path for path in (*SYSTEM, *SETTINGS, PROCESSORS) if os.path.lexists(path)]

    def mounts(self) -> list[tuple[Path, Access]]:
        """Everything else, the outer before the inner.

        A virtual environment inside the project is read-only; a project inside of what is readable
        is writable.
        """
        mounts: dict[Path, Access] = {Path(SCRATCH): "empty"}
        mounts |= dict.fromkeys(self.readable, "read")
        mounts |= dict.fromkeys(self.writable, "write")
        mounts |= dict.fromkeys(self.empty, "empty")
        return sorted(mounts.items(), key=lambda mount: len(mount[0].parts))


@dataclass(frozen=True, slots=True)
class Command:
    """A command to start once, in a ``with`` block; what is secret in it does not stand in ``argv``.

    Everybody on the machine can read the arguments of everybody's processes, and a kernelspec may
    set a key.

    Attributes:
        argv: The program, by its absolute path, and its arguments.
        environment: Variables that it needs beside those of its own.
        descriptors: Open files that it inherits under the same numbers.
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
    """A program of this machine that runs others with a `View`, and without network."""

    @property
    def name(self) -> str:
        """What it is called: ``bubblewrap`` or ``podman``."""
        ...

    @property
    def executable(self) -> str:
        """The path of the program."""
        ...

    @property
    def options(self) -> tuple[str, ...]:
        """Options of the program's own, as this machine needs them."""
        ...

    def command(self, argv: Sequence[str], view: View, label: str) -> Command:
        """The command that runs ``argv`` with this view; the values of variables are not in its argv.

        Args:
            argv: The program, by its absolute path, and its arguments.
            view: What it sees.
            label: A name of its own, of letters, digits and ``-``.
        """
        ...

    def processes(self, pid: int) -> list[int]:
        """The processes to interrupt where `command` runs as ``pid``."""
        ...

    def discard(self, label: str) -> None:
        """End what is left of the program where the process of `command` was killed. Blocks."""
        ...
