"""The sandbox by bubblewrap: namespaces of the kernel's own, made by an ordinary user."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tk_ai_extension.kernels.sandbox.base import Access, Command, View

OPTIONS: dict[Access, str] = {"read": "--ro-bind", "write": "--bind", "empty": "--tmpfs"}


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """Runs programs by ``bwrap``.

    It runs on as two processes, the outer one waiting for the inner: all are of one process group,
    so that a signal that kills the group leaves none.

    Attributes:
        executable: The path of ``bwrap``.
        options: Options beside those that make the sandbox.
    """

    executable: str
    options: tuple[str, ...] = ()
    name: str = "bubblewrap"

    def command(self, argv: Sequence[str], view: View, label: str) -> Command:  # noqa: ARG002 - podman's
        """``bwrap`` with all of the view as options; it reads those with variables from a descriptor."""
        command = [
            self.executable,
            *self.options,
            "--unshare-all",
            "--cap-drop",
            "ALL",
            "--clearenv",
        ]
        if view.ends_with_parent:
            command.append("--die-with-parent")
        for path in map(Path, view.system()):
            # /bin is a link to /usr/bin on most systems.
            seen = ["--symlink", path.readlink()] if path.is_symlink() else ["--ro-bind", path]
            command += [*map(str, seen), str(path)]
        command += ["--proc", "/proc", "--dev", "/dev"]
        for path, access in view.mounts():
            command += [OPTIONS[access], *([] if access == "empty" else [str(path)]), str(path)]
        command += ["--remount-ro", "/"]
        variables = _readable(
            word for entry in view.environment.items() for word in ("--setenv", *entry)
        )
        command += ["--args", str(variables), "--chdir", str(view.folder), "--", *argv]
        return Command(command, descriptors=(variables,))

    def processes(self, pid: int) -> list[int]:
        """The program and its children: not ``bwrap`` itself, which a signal would end."""
        try:
            inner = psutil.Process(pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [process.pid for process in inner[1:]]

    def discard(self, label: str) -> None:
        """Nothing is left: its processes are in the group that was killed."""


def _readable(words: Iterable[str]) -> int:
    """A descriptor from which ``bwrap --args`` reads these words; in memory alone."""
    descriptor = os.memfd_create("bwrap")
    with os.fdopen(descriptor, "wb", closefd=False) as file:
        file.write(b"".join(os.fsencode(word) + b"\0" for word in words))
        file.seek(0)
    return descriptor
