"""Starts kernels in sandboxes: the sandbox of a project, its provisioner and its kernel manager."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import site
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import TYPE_CHECKING, Any, Self, cast

from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from traitlets import Instance

from tk_ai_extension.kernels.environment import allowed
from tk_ai_extension.kernels.sandbox.programs import (
    SCRATCH,
    Sandbox,
    View,
    find_program,
    find_sandbox,
    program_environment,
)
from tk_ai_extension.model.errors import KernelUnsupported

if TYPE_CHECKING:
    from jupyter_client.manager import KernelManager

LONGEST_BASE = 75
"""Maximum bytes of the path of the temporary folder: a socket's path has 104 to 108 in all."""

ENVIRONMENT = ("pyvenv.cfg", "conda-meta")
"""Files that mark a virtual environment, which is read-only for code in a sandbox."""

OWN_PACKAGE = Path(__file__).parents[2]
"""This package."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """The sandbox of a project's kernels.

    Attributes:
        sandbox: The program that runs kernels.
        project: The only folder of the machine that they can write.
        hidden: Folders in the project that they cannot see: ``.nb``, with the server's socket and the
            kernels' keys.
    """

    sandbox: Sandbox
    project: Path
    hidden: tuple[Path, ...]

    @classmethod
    def of(cls, project: Path, *, hidden: Sequence[Path] = ()) -> Self:
        """Return a sandbox for new kernels. Blocks for about a second to try it.

        Args:
            project: The folder that they can write.
            hidden: Folders in the project that they must not see; others are ignored.

        Raises:
            KernelUnsupported: no sandbox works here, the project contains the home folder, or this
                process imports modules from it.
        """
        project = project.resolve()
        if Path.home().resolve().is_relative_to(project):
            raise KernelUnsupported(
                f"A sandbox for {project} would expose your whole home folder.",
                hint="Move the notebook into a folder of its own, and open it there.",
            )
        fixed_folders(project)
        inside = tuple(path for path in map(Path.resolve, hidden) if path.is_relative_to(project))
        return cls(find_sandbox(project), project, inside)


def fixed_folders(project: Path) -> tuple[Path, ...]:
    """Return the folders directly in a project that sandboxed code must not write.

    They contain virtual environments, or modules that this process, and others of its kind, import.

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


class SandboxedProvisioner(LocalProvisioner):
    """Starts a kernel's process in a sandbox, at the first start and at each restart.

    The kernel has no network: its manager's transport becomes ``ipc``, with sockets in a private folder.
    Its environment is what `environment.allowed` permits and what its kernelspec sets.

    Assign it to a kernel manager before the start (``manager.provisioner = ...``).
    """

    parent: KernelManager  # the kernel manager  # pyrefly: ignore[bad-override]
    pid: int | None

    confinement: Any = Instance(Confinement, help="The kernel's sandbox.")

    private: Path | None = None
    """The folder of its sockets, and of the files for it to read."""

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Prepare transport and environment. Called by the kernel manager before each launch."""
        if self.private is None:
            base = gettempdir()
            base = base if len(os.fsencode(base)) <= LONGEST_BASE else "/tmp"  # noqa: S108
            self.private = Path(await asyncio.to_thread(mkdtemp, prefix="nb-", dir=base))
            (self.private / "s").mkdir(mode=0o700)
        self.parent.transport = "ipc"
        self.parent.ip = str(self.private / "s" / "k")
        prepared = await super().pre_launch(**kwargs)
        prepared["env"] = allowed(prepared["env"], more=self.kernel_spec.env)
        return prepared

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Start the process in the sandbox. Called by the kernel manager."""
        try:
            argv, view = await asyncio.to_thread(self._view, cmd, **kwargs)
            with self.confinement.sandbox.command(argv, view) as (command, descriptors):
                started = {"env": self._outside(), "pass_fds": descriptors}
                return await super().launch_kernel(command, **kwargs | started)
        except BaseException:
            if self.process is None:
                await self._remove()
            raise

    async def send_signal(self, signum: int) -> None:
        """Interrupt the kernel and not the sandbox program, which SIGINT would end."""
        if signum != signal.SIGINT or self.pid is None:
            await super().send_signal(signum)
            return
        for pid in self.confinement.sandbox.processes(self.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signum)

    async def kill(self, restart: bool = False) -> None:
        """Kill the process and the sandbox. Called by the kernel manager."""
        await super().kill(restart=restart)
        await self._discard()

    async def cleanup(self, restart: bool = False) -> None:
        """Remove the sandbox. Called by the kernel manager when the process has ended."""
        await super().cleanup(restart=restart)
        await self._discard()
        if not restart:
            await self._remove()

    def _view(self, cmd: list[str], *, env: dict[str, str], **kwargs: Any) -> tuple[Any, View]:
        project: Path = self.confinement.project
        assert self.private is not None
        argv, readable = find_program(cmd, env, project)
        # Packages of the user (pip install --user), whose home folder is hidden.
        base = Path(site.getuserbase())
        user = tuple(base.glob("lib/python*/site-packages"))
        if user:
            env = {**env, "PYTHONUSERBASE": str(base)}
        spec = Path(self.kernel_spec.resource_dir).resolve()
        shown = spec.is_dir() and not project.is_relative_to(spec)
        folder = Path(kwargs.get("cwd") or project).resolve()
        view = View(
            project,
            self.private,
            folder=folder if folder.is_relative_to(project) else project,
            environment={**env, "HOME": SCRATCH, "TMPDIR": SCRATCH},
            readable=(*readable, *user, *((spec,) if shown else ())),
            fixed=fixed_folders(project),
            hidden=self.confinement.hidden,
        )
        view.given.mkdir(mode=0o700, exist_ok=True)
        file = Path(self.parent.connection_file)
        copy = view.given / "connection.json"
        copy.touch(mode=0o600)
        copy.write_bytes(file.read_bytes())
        names = {str(file), str(file.resolve())}
        return [str(copy) if part in names else part for part in argv], view

    def _outside(self) -> dict[str, str]:
        return program_environment(self.confinement.project)

    async def _discard(self) -> None:
        if self.private is not None:
            await asyncio.to_thread(self.confinement.sandbox.discard, self.private, self._outside())

    async def _remove(self) -> None:
        private, self.private = self.private, None
        if private is not None:
            await asyncio.to_thread(shutil.rmtree, private, ignore_errors=True)


class ConfiningKernelManager(AsyncMappingKernelManager):
    """A Jupyter Server's kernel manager that can start kernels in sandboxes."""

    def pre_start_kernel(
        self, kernel_name: str | None, kwargs: Any
    ) -> tuple[KernelManager, str, str]:
        """Give a new kernel its provisioner. Called with the arguments of each start.

        In addition to Jupyter's arguments, ``confinement`` is the `Confinement` of a sandboxed kernel.

        Raises:
            KernelUnsupported: the kernelspec names a provisioner, which cannot run in a sandbox.
        """
        confinement: Confinement | None = kwargs.pop("confinement", None)
        manager, name, kernel_id = cast("Any", super()).pre_start_kernel(kernel_name, kwargs)
        if confinement is None:
            return manager, name, kernel_id
        if "kernel_provisioner" in manager.kernel_spec.metadata:
            raise KernelUnsupported(
                f"The kernelspec `{name}` has its own provisioner, which starts kernels outside "
                "the sandbox.",
                hint="Choose another kernelspec; list_kernels shows the installed ones.",
            )
        manager.provisioner = SandboxedProvisioner(
            confinement=confinement,
            kernel_id=kernel_id,
            kernel_spec=manager.kernel_spec,
            parent=manager,
        )
        return manager, name, kernel_id
