"""The bubblewrap sandbox: Linux namespaces that an ordinary user can create."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tk_ai_extension.kernels.sandbox.view import Access, Command, View

OPTIONS: dict[Access, str] = {"read": "--ro-bind", "write": "--bind"}
"""Options for a path. With the suffix ``-fd``, for an open folder, they need bubblewrap 0.10 or a security
update of an older one."""

READ_ONLY = ("/proc/sys", "/proc/pressure")
"""Settings of the operating system's kernel. Root can write them without capabilities, because root owns
the files; ``bwrap`` itself covers similar ones (``sysrq-trigger``, ``irq``, ``bus``)."""

NO_NAMESPACES = ("--unshare-user", "--disable-userns")
"""Keeps sandboxed code from creating user namespaces, in which it would have all capabilities."""


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """Runs programs with ``bwrap``.

    It stays as two processes, the outer waiting for the inner. All are in one process group, so that a
    signal to the group ends all of them.

    Attributes:
        executable: The path of ``bwrap``.
        options: Options in addition to those that make the sandbox.
    """

    executable: str
    options: tuple[str, ...] = ()
    name: str = "bubblewrap"

    def command(self, argv: Sequence[str], view: View, label: str) -> Command:  # noqa: ARG002 - podman's
        """Return ``bwrap`` with the view as options; variables are passed through a descriptor."""
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
            # On most systems /bin is a link to /usr/bin.
            seen = ["--symlink", path.readlink()] if path.is_symlink() else ["--ro-bind", path]
            command += [*map(str, seen), str(path)]
        command += ["--proc", "/proc", "--dev", "/dev"]
        for path in READ_ONLY:
            command += ["--ro-bind-try", path, path]
        with contextlib.ExitStack() as opened:
            descriptors: list[int] = []
            for path, access in view.mounts():
                top = view.outer(path)
                if access == "empty":
                    command += ["--tmpfs", str(path)]
                elif top is None:
                    command += [OPTIONS[access], str(path), str(path)]
                else:
                    descriptors.append(_open_below(top, path))
                    opened.callback(os.close, descriptors[-1])
                    command += [f"{OPTIONS[access]}-fd", str(descriptors[-1]), str(path)]
            command += ["--remount-ro", "/"]
            variables = _readable(
                word for entry in view.environment.items() for word in ("--setenv", *entry)
            )
            command += ["--args", str(variables), "--chdir", str(view.folder), "--", *argv]
            opened.pop_all()
        return Command(command, descriptors=(*descriptors, variables))

    def processes(self, pid: int) -> list[int]:
        """Return the program and its children, without ``bwrap``, which a signal would end."""
        try:
            inner = psutil.Process(pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [process.pid for process in inner[1:]]

    def discard(self, label: str, environment: Mapping[str, str]) -> None:  # noqa: ARG002 - podman's
        """End what remains of ``bwrap``: code in it can stop the inner process with ptrace."""
        for process in psutil.process_iter(["cmdline"]):
            # None or empty for another user's process or one that has ended.
            words: list[str] = process.info["cmdline"] or []
            if words[:1] == [self.executable] and any(label in Path(w).parts for w in words):
                with contextlib.suppress(psutil.Error):
                    process.kill()


def _open_below(top: Path, path: Path) -> int:
    """Return a descriptor of a folder below a writable one.

    Code in another sandbox may replace a folder by a link at any time. No link is followed, and
    ``bwrap`` checks that it has mounted the same folder.

    Raises:
        OSError: it is no longer there, or there is a link in its place.
    """
    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    descriptor = os.open(top, flags)
    for name in path.relative_to(top).parts:
        above = descriptor
        try:
            descriptor = os.open(name, flags | os.O_NOFOLLOW, dir_fd=above)
        finally:
            os.close(above)
    return descriptor


def _readable(words: Iterable[str]) -> int:
    """Return an in-memory file's descriptor from which ``bwrap --args`` reads these words."""
    descriptor = os.memfd_create("bwrap")
    with os.fdopen(descriptor, "wb", closefd=False) as file:
        file.write(b"".join(os.fsencode(word) + b"\0" for word in words))
        file.seek(0)
    return descriptor
