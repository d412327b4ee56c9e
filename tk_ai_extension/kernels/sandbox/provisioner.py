"""Starts kernels in sandboxes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import site
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traitlets import Instance

from tk_ai_extension.kernels.environment_variables import allowed
from tk_ai_extension.kernels.provisioner import ServerProvisioner
from tk_ai_extension.kernels.sandbox.sandbox import SCRATCH, Sandbox
from tk_ai_extension.model.errors import KernelUnsupported

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from jupyter_client.manager import KernelManager


class SandboxedProvisioner(ServerProvisioner):
    """Starts a kernel's process in a sandbox, at the first start and at each restart.

    The kernel has no network: its manager's transport becomes ``ipc``, with sockets in a private folder.
    Its environment is what `environment.allowed` permits and what its kernelspec sets.

    `confine` assigns it to a kernel manager before the start.
    """

    parent: KernelManager  # the kernel manager  # pyrefly: ignore[bad-override]
    pid: int | None

    confinement: Any = Instance(Sandbox, help="The kernel's sandbox.")

    @property
    def private(self) -> Path:
        """The folder of its sockets, and of the files for it to read."""
        return private_folder(str(self.kernel_id))

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Prepare transport and environment. Called by the kernel manager before each launch."""
        self.private.mkdir(mode=0o700, exist_ok=True)
        self.parent.transport = "ipc"
        self.parent.ip = str(self.private / "s" / "k")
        prepared = await super().pre_launch(**kwargs)
        prepared["env"] = allowed(prepared["env"], more=self.kernel_spec.env)
        return prepared

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Start the process in the sandbox. Called by the kernel manager."""
        with contextlib.ExitStack() as opened:
            try:
                sandboxed = self._command(cmd, **kwargs)
                command, descriptors = await asyncio.to_thread(opened.enter_context, sandboxed)
                started = {"env": self.confinement.environment(), "pass_fds": descriptors}
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
        for pid in self.confinement.processes(self.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signum)

    async def cleanup(self, restart: bool = False) -> None:
        """Remove the sandbox. Called by the kernel manager when the process has ended."""
        await super().cleanup(restart=restart)
        await asyncio.to_thread(self.confinement.discard, self.private)
        if not restart:
            await self._remove()

    def _command(
        self, cmd: list[str], *, env: dict[str, str], **kwargs: Any
    ) -> AbstractContextManager[tuple[list[str], list[int]]]:
        project: Path = self.confinement.project
        # Packages of the user (pip install --user): the home folder is hidden.
        base = Path(site.getuserbase())
        readable = list(base.glob("lib/python*/site-packages"))
        if readable:
            env = {**env, "PYTHONUSERBASE": str(base)}
        spec = Path(self.kernel_spec.resource_dir).resolve()
        if spec.is_dir() and not project.is_relative_to(spec):
            readable.append(spec)
        folder = Path(kwargs.get("cwd") or project).resolve()
        file = Path(self.parent.connection_file)
        copy = self.private / "given" / "connection.json"
        copy.parent.mkdir(mode=0o700, exist_ok=True)
        copy.touch(mode=0o600)
        copy.write_bytes(file.read_bytes())
        names = {str(file), str(file.resolve())}
        return self.confinement.command(
            [str(copy) if part in names else part for part in cmd],
            self.private,
            folder=folder if folder.is_relative_to(project) else project,
            environment={**env, "HOME": SCRATCH, "TMPDIR": SCRATCH},
            readable=readable,
        )

    async def _remove(self) -> None:
        await asyncio.to_thread(shutil.rmtree, self.private, ignore_errors=True)


def private_folder(kernel_id: str) -> Path:
    """Return the folder of a sandboxed kernel's sockets; a killed server leaves it behind.

    A socket's path has 104 to 108 bytes in all, too few for some folders in TMPDIR.
    """
    return Path(f"/tmp/nb-{kernel_id}")  # noqa: S108 - the id is random


def confine(manager: Any, kernel_id: str, confinement: Sandbox) -> None:
    """Have a `KernelManager` start its kernel in a sandbox.

    Raises:
        KernelUnsupported: the kernelspec names a provisioner, which cannot run in a sandbox.
    """
    if "kernel_provisioner" in manager.kernel_spec.metadata:
        raise KernelUnsupported(
            f"The kernelspec `{manager.kernel_name}` has its own provisioner, which starts kernels "
            "outside the sandbox.",
            hint="Choose another kernelspec; list_kernels shows the installed ones.",
        )
    manager.provisioner = SandboxedProvisioner(
        confinement=confinement,
        kernel_id=kernel_id,
        kernel_spec=manager.kernel_spec,
        parent=manager,
    )
