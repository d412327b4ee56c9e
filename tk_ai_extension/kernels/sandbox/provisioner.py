"""The kernel provisioner that starts a kernel in its sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from traitlets import Instance

from tk_ai_extension.kernels.environment import allowed
from tk_ai_extension.kernels.sandbox.confinement import Confinement
from tk_ai_extension.model.errors import SandboxUnavailable

if TYPE_CHECKING:
    from jupyter_client.manager import KernelManager


class SandboxedProvisioner(LocalProvisioner):
    """Starts a kernel's process in a sandbox, at the first start and at each restart.

    The kernel has no network: its manager's transport becomes ``ipc``. Its environment is what
    `environment.allowed` permits and what its kernelspec sets.

    Assign it to a kernel manager before the start (``manager.provisioner = ...``).
    """

    parent: KernelManager  # the kernel manager  # pyrefly: ignore[bad-override]
    pid: int | None

    confinement: Any = Instance(Confinement, help="The kernel's sandbox.")

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Prepare transport and environment. Called by the kernel manager before each launch."""
        self.parent.transport = "ipc"
        self.parent.ip = self.confinement.address
        await asyncio.to_thread(Path(self.confinement.address).parent.mkdir, exist_ok=True)
        prepared = await super().pre_launch(**kwargs)
        prepared["env"] = allowed(prepared["env"], more=self.kernel_spec.env)
        return prepared

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Start the process in the sandbox. Called by the kernel manager."""
        command = await asyncio.to_thread(
            self.confinement.command,
            cmd,
            kwargs["env"],
            cwd=Path(kwargs["cwd"]) if kwargs.get("cwd") else None,
            connection_file=Path(self.parent.connection_file),
            ends_with_parent=not kwargs.get("independent", False),
        )
        with command:
            started = {
                "env": {**self.confinement.outside(), **command.environment},
                "pass_fds": command.descriptors,
            }
            return await super().launch_kernel(command.argv, **kwargs | started)

    async def send_signal(self, signum: int) -> None:
        """Interrupt the kernel and not the sandbox program, which SIGINT would end."""
        if signum != signal.SIGINT or self.pid is None:
            await super().send_signal(signum)
            return
        for pid in self.confinement.processes(self.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signum)

    async def kill(self, restart: bool = False) -> None:
        """Kill the process and the sandbox. Called by the kernel manager."""
        await super().kill(restart=restart)
        await asyncio.to_thread(self.confinement.discard)

    async def cleanup(self, restart: bool = False) -> None:
        """Remove the sandbox. Called by the kernel manager when the process has ended."""
        await super().cleanup(restart=restart)
        await asyncio.to_thread(self.confinement.discard)
        if not restart:
            await asyncio.to_thread(self.confinement.remove)


class ConfiningKernelManager(AsyncMappingKernelManager):
    """A Jupyter Server's kernel manager that can start kernels in sandboxes."""

    def pre_start_kernel(
        self, kernel_name: str | None, kwargs: Any
    ) -> tuple[KernelManager, str, str]:
        """Give a new kernel its provisioner. Called with the arguments of each start.

        In addition to Jupyter's arguments, ``confinement`` is the `Confinement` of a sandboxed kernel.

        Raises:
            SandboxUnavailable: the kernelspec names a provisioner, which cannot run in a sandbox.
        """
        confinement: Confinement | None = kwargs.pop("confinement", None)
        manager, name, kernel_id = cast("Any", super()).pre_start_kernel(kernel_name, kwargs)
        if confinement is None:
            return manager, name, kernel_id
        if "kernel_provisioner" in manager.kernel_spec.metadata:
            raise SandboxUnavailable(
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
