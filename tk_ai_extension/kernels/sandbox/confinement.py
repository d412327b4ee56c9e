"""One kernel's sandbox: its project, the folder of its sockets, and the command that runs it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tk_ai_extension.kernels.sandbox.detection import (
    find_sandbox,
    program_environment,
)
from tk_ai_extension.kernels.sandbox.interpreter import ENVIRONMENT, resolve_program
from tk_ai_extension.kernels.sandbox.view import SCRATCH, Command, Sandbox, View
from tk_ai_extension.kernels.socket_folders import (
    make_folder,
    remove_folder,
    restore_folder,
)
from tk_ai_extension.model.errors import SandboxUnavailable

REPLACED_VARIABLES = {"HOME": SCRATCH, "TMPDIR": SCRATCH}
"""Variables that would name folders that do not exist in the sandbox."""

PACKAGES = frozenset({"site-packages", "dist-packages", "node_modules", "__pycache__"})
"""Folders of installed packages: many files, and no projects to hide."""

OWN_PACKAGE = Path(__file__).parents[2]
"""This package."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """The sandbox of one kernel, from its first start to its end.

    Attributes:
        sandbox: The program that runs the kernel.
        project: The only folder of the machine that the kernel can write.
        hidden: Folders in the project that it cannot see: ``.nb``, with the server's socket and other
            kernels' keys.
        folder: A private folder for its sockets, its only way out of the sandbox. The path is short:
            a socket's path is limited to about 100 bytes.
        names: Names of folders that it cannot see anywhere: the ``.nb`` of nested projects, and of a
            project that contains its packages.
    """

    sandbox: Sandbox
    project: Path
    hidden: tuple[Path, ...]
    folder: Path
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, project: Path, *, hidden: Sequence[Path] = (), names: Sequence[str] = ()) -> Self:
        """Return a sandbox for a new kernel. Blocks for about a second to try it.

        Args:
            project: The folder that the kernel can write.
            hidden: Folders in the project that it must not see; others are ignored.
            names: Names of folders that it must not see anywhere.

        Raises:
            SandboxUnavailable: no sandbox works here, the project contains the home folder, or this
                process imports modules from it.
        """
        project = project.resolve()
        if Path.home().resolve().is_relative_to(project):
            raise SandboxUnavailable(
                f"A sandbox for {project} would expose your whole home folder.",
                hint="Move the notebook into a folder of its own, and open it there.",
            )
        _own_folders(project)
        sandbox = find_sandbox(project)
        inside = tuple(path for path in map(Path.resolve, hidden) if path.is_relative_to(project))
        return cls(sandbox, project, inside, make_folder(), tuple(names))

    @property
    def address(self) -> str:
        """The ``ip`` of the kernel's connection info for the transport ``ipc``."""
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
        """Return the command that runs a kernel in the sandbox. Blocks.

        Args:
            argv: The kernel's command.
            environment: All variables of the kernel.
            cwd: Its working directory; the project is used if this is outside it.
            connection_file: The file that ``argv`` names; the kernel gets a copy beside its sockets.
            ends_with_parent: Whether it ends with this process.

        Raises:
            OSError: there is no such program, or a folder was replaced at this moment.
            SandboxUnavailable: this process imports modules from the project.
        """
        copy = connection_file_in(self.folder)
        restore_folder(self.folder)
        for folder in (copy.parent, self._root):
            folder.mkdir(mode=0o700, exist_ok=True)
        copy.unlink(missing_ok=True)
        # A process of the previous run that is about to end may put a link there: create, never follow.
        descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(connection_file.read_bytes())
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
        """Return the environment of the sandbox program."""
        return program_environment(self.project)

    def processes(self, pid: int) -> list[int]:
        """Return the ids of the processes to interrupt if the command runs as ``pid``."""
        return self.sandbox.processes(pid)

    def discard(self) -> None:
        """End what remains of a kernel whose process has ended. Blocks."""
        self.sandbox.discard(self._label, self.outside())

    def remove(self) -> None:
        """Remove the sandbox's folder after the kernel's last run."""
        remove_folder(self.folder)

    def _find_masked(self, readable: Iterable[Path]) -> tuple[list[Path], list[Path]]:
        """Return the folders to hide in everything visible, and the read-only ones in the project."""
        hidden: list[Path] = []
        fixed = _own_folders(self.project)
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


def _own_folders(project: Path) -> list[Path]:
    """Return the folders in a project from which this process, and others of its kind, import modules.

    They are read-only for sandboxed code.

    Raises:
        SandboxUnavailable: that code could add modules to one.
    """
    known = (OWN_PACKAGE, *map(Path, (sys.prefix, sys.base_prefix, *sys.path)))
    paths = {found for path in known for found in (path.absolute(), path.resolve())}
    inside = {path for path in paths if path.is_relative_to(project)}
    folders = [path for path in inside if inside.isdisjoint(path.parents)]
    for path in folders:
        if path == project or path != path.resolve() or not path.exists():
            raise SandboxUnavailable(
                f"nb itself imports modules from {path}, where code in a sandbox could put some.",
                hint="Install nb in an environment without this project in editable mode, and without "
                "its folder in PYTHONPATH.",
            )
    return folders


def connection_file_in(folder: Path) -> Path:
    """Return the connection file's path on the command line of a kernel with this sandbox folder."""
    return folder / "s" / "connection.json"
