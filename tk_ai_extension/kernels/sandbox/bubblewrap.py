"""The sandbox by bubblewrap: namespaces of the kernel's own, made by an ordinary user."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tk_ai_extension.kernels.sandbox.view import Access, Command, View

OPTIONS: dict[Access, str] = {"read": "--ro-bind", "write": "--bind", "empty": "--tmpfs"}

READ_ONLY = ("/proc/sys", "/proc/pressure")
"""Settings of the machine's kernel. A process of root writes them without any capability, since their
files are root's; ``bwrap`` itself covers the rest of their kind (``sysrq-trigger``, ``irq``, ``bus``)."""

NO_NAMESPACES = ("--unshare-user", "--disable-userns")
"""Keeps code in the sandbox from namespaces of its own, in which it would have all capabilities."""


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
        for path in READ_ONLY:
            command += ["--ro-bind-try", path, path]
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
        """End what is left of ``bwrap``: code in it can stop the inner one by tracing it."""
        for process in psutil.process_iter(["cmdline"]):
            # None or empty: of another user, or ended meanwhile.
            words: list[str] = process.info["cmdline"] or []
            if words[:1] == [self.executable] and any(label in Path(w).parts for w in words):
                with contextlib.suppress(psutil.Error):
                    process.kill()


def _readable(words: Iterable[str]) -> int:
    """A descriptor from which ``bwrap --args`` reads these words; in memory alone."""
    descriptor = os.memfd_create("bwrap")
    with os.fdopen(descriptor, "wb", closefd=False) as file:
        file.write(b"".join(os.fsencode(word) + b"\0" for word in words))
        file.seek(0)
    return descriptor
