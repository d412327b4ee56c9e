"""One kernel's sandbox: where its project is, where its sockets are, and the command that runs it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tk_ai_extension.kernels.sandbox.detection import find_sandbox, installed, search_path
from tk_ai_extension.kernels.sandbox.interpreter import ENVIRONMENT, resolve_program
from tk_ai_extension.kernels.sandbox.view import SCRATCH, Command, Sandbox, View
from tk_ai_extension.kernels.socket_folders import (
    is_own,
    make_folder,
    remove_folder,
    restore_folder,
)
from tk_ai_extension.model.errors import SandboxUnavailable

PROGRAM_VARIABLES = (
    "PATH",
    "HOME",
    "USER",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
)
"""What the sandbox's own program gets of this process's environment; the kernel gets none of it."""

REPLACED_VARIABLES = {"HOME": SCRATCH, "TMPDIR": SCRATCH}
"""Variables that would name folders that are not there."""

PACKAGES = frozenset({"site-packages", "dist-packages", "node_modules", "__pycache__"})
"""Folders that hold what was installed, and nobody's project: many files, which nothing is hidden in."""

OWN_PACKAGE = Path(__file__).parents[2]
"""This package: a project that holds it is that of its developers."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """The sandbox of one kernel, from its first start to its end.

    Attributes:
        sandbox: What runs it.
        project: The only folder of the machine that it writes, and sees the files of.
        hidden: Folders in it that it does not see: ``.nb``, with the server's socket and other
            kernels' keys.
        folder: A folder of its own: its sockets, which are all that leads out of it. The path is
            short, since that of a socket may not be longer than about 100 bytes.
        names: Names of folders that it does not see wherever they are in what it sees: the ``.nb``
            of projects below this one, and of one that its packages are in.
    """

    sandbox: Sandbox
    project: Path
    hidden: tuple[Path, ...]
    folder: Path
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, project: Path, *, hidden: Sequence[Path] = (), names: Sequence[str] = ()) -> Self:
        """A sandbox for a new kernel. Blocks for about a second: the sandbox is tried first.

        Args:
            project: The folder to write in.
            hidden: What it does not see in it; what is elsewhere is not there anyway.
            names: Names of folders that it does not see wherever they are.

        Raises:
            SandboxUnavailable: none works here, or the project holds the home folder.
        """
        project = project.resolve()
        if Path.home().resolve().is_relative_to(project):
            raise SandboxUnavailable(
                f"In a sandbox for {project} everything in your home folder would be visible.",
                hint="Work in a folder of its own: move the notebook into one, and open it there.",
            )
        sandbox = find_sandbox(project)
        inside = tuple(path for path in map(Path.resolve, hidden) if path.is_relative_to(project))
        return cls(sandbox, project, inside, make_folder(), tuple(names))

    @classmethod
    def from_note(cls, note: Mapping[str, Any]) -> Self:
        """The sandbox of a kernel that was started before, by what `as_note` said of it.

        Anybody may have written the note, so it names neither programs nor their options: it only
        chooses among those of this machine. They are not tried again: where they do not work any
        more, starting the kernel fails.

        Raises:
            KeyError, TypeError, ValueError: it is no such note, or its folder is not of a sandbox.
            SandboxUnavailable: this machine does not have the sandbox any more.
        """
        kind, options, folder = note["kind"], tuple(note["options"]), Path(note["folder"])
        if not is_own(folder):
            raise ValueError(f"{folder} is not the folder of a sandbox.")
        project = Path(note["project"])
        for sandbox in installed(kind, project):
            if sandbox.options == options:
                hidden = tuple(map(Path, note["hidden"]))
                names = tuple(map(str, note["names"]))
                return cls(sandbox, project, hidden, folder, names)
        raise SandboxUnavailable(f"The kernel's sandbox, {kind}, is not on this machine any more.")

    def as_note(self) -> dict[str, Any]:
        """What to keep, as JSON, to start the kernel again in the same sandbox."""
        return {
            "kind": self.sandbox.name,
            "options": list(self.sandbox.options),
            "project": str(self.project),
            "hidden": [str(path) for path in self.hidden],
            "names": list(self.names),
            "folder": str(self.folder),
        }

    @property
    def address(self) -> str:
        """The ``ip`` of the kernel's connection, with the transport ``ipc``."""
        return str(self._sockets / "k")

    def command(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        *,
        cwd: Path | None,
        connection_file: Path,
        ends_with_parent: bool,
    ) -> Command:
        """The command that runs a kernel in the sandbox. Blocks.

        Args:
            argv: The kernel's own.
            environment: All variables of the kernel.
            cwd: Where it starts; in the project, where that is elsewhere.
            connection_file: What ``argv`` names; the kernel gets a copy beside its sockets.
            ends_with_parent: Whether it ends with this process.

        Raises:
            OSError: there is no such program.
        """
        copy = connection_file_in(self.folder)
        restore_folder(self.folder)
        for folder in (copy.parent, self._root):
            folder.mkdir(mode=0o700, exist_ok=True)
        copy.unlink(missing_ok=True)
        shutil.copy(connection_file, copy)  # with its mode, 0600
        needed = resolve_program(argv, environment, self.project)
        hidden, fixed = self._find_masked(needed.readable)
        names = {str(connection_file), str(connection_file.resolve())}
        here = (cwd or self.project).resolve()
        view = View(
            folder=here if here.is_relative_to(self.project) else self.project,
            root=self._root,
            environment={**environment, **needed.environment, **REPLACED_VARIABLES},
            writable=(self.project, self._sockets),
            readable=(*needed.readable, *fixed),
            empty=(*self.hidden, *hidden),
            ends_with_parent=ends_with_parent,
        )
        inside = [str(copy) if part in names else part for part in needed.argv]
        return self.sandbox.command(inside, view, self._label)

    def outside(self) -> dict[str, str]:
        """The environment of the sandbox's own program."""
        environment = {name: os.environ[name] for name in PROGRAM_VARIABLES if name in os.environ}
        return {**environment, "PATH": search_path(self.project)}

    def processes(self, pid: int) -> list[int]:
        """The processes to interrupt where the command runs as ``pid``."""
        return self.sandbox.processes(pid)

    def discard(self) -> None:
        """End what is left of a kernel whose process has ended. Blocks."""
        self.sandbox.discard(self._label)

    def remove(self) -> None:
        """Remove its own folder, when the kernel is to run no more."""
        remove_folder(self.folder)

    def _find_masked(self, readable: Iterable[Path]) -> tuple[list[Path], list[Path]]:
        """What is hidden in all that it is to see, and what is not to be written in the project, now."""
        hidden: list[Path] = []
        fixed = [OWN_PACKAGE] if OWN_PACKAGE.is_relative_to(self.project) else []
        for top in (self.project, *readable):
            for folder, below, files in os.walk(top):
                for name in set(self.names).intersection(below):
                    below.remove(name)
                    found = Path(folder, name)
                    if not found.is_symlink():
                        hidden.append(found)
                if top != self.project:
                    below[:] = [name for name in below if name not in PACKAGES]
                elif folder != str(top) and not {*below, *files}.isdisjoint(ENVIRONMENT):
                    fixed.append(Path(folder))
        return hidden, fixed

    @property
    def _sockets(self) -> Path:
        return connection_file_in(self.folder).parent

    @property
    def _root(self) -> Path:
        return self.folder / "root"

    @property
    def _label(self) -> str:
        return self.folder.name


def connection_file_in(folder: Path) -> Path:
    """What the command line of a kernel names whose sandbox has this folder of its own."""
    return folder / "s" / "connection.json"
