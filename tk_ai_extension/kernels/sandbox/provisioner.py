"""Starts kernels in sandboxes: the provisioner and the kernel manager."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import site
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, cast

from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from traitlets import Instance

from tk_ai_extension.kernels.environment import allowed
from tk_ai_extension.kernels.sandbox.programs import SCRATCH, Sandbox
from tk_ai_extension.model.errors import KernelUnsupported

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from jupyter_client.manager import KernelManager


class SandboxedProvisioner(LocalProvisioner):
    """Starts a kernel's process in a sandbox, at the first start and at each restart.

    The kernel has no network: its manager's transport becomes ``ipc``, with sockets in a private folder.
    Its environment is what `environment.allowed` permits and what its kernelspec sets.

    Assign it to a kernel manager before the start (``manager.provisioner = ...``).
    """

    parent: KernelManager  # the kernel manager  # pyrefly: ignore[bad-override]
    pid: int | None

    confinement: Any = Instance(Sandbox, help="The kernel's sandbox.")

    private: Path | None = None
    """The folder of its sockets, and of the files for it to read."""

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Prepare transport and environment. Called by the kernel manager before each launch."""
        if self.private is None:
            # A socket's path has 104 to 108 bytes in all, too few for some folders in TMPDIR.
            self.private = Path(await asyncio.to_thread(mkdtemp, prefix="nb-", dir="/tmp"))  # noqa: S108
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
        if self.private is not None:
            await asyncio.to_thread(self.confinement.discard, self.private)
        if not restart:
            await self._remove()

    def _command(
        self, cmd: list[str], *, env: dict[str, str], **kwargs: Any
    ) -> AbstractContextManager[tuple[list[str], list[int]]]:
        project: Path = self.confinement.project
        assert self.private is not None
        # Packages of the user (pip install --user), whose home folder is hidden.
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
        private, self.private = self.private, None
        if private is not None:
            await asyncio.to_thread(shutil.rmtree, private, ignore_errors=True)


class ConfiningKernelManager(AsyncMappingKernelManager):
    """A Jupyter Server's kernel manager that can start kernels in sandboxes."""

    def pre_start_kernel(
        self, kernel_name: str | None, kwargs: Any
    ) -> tuple[KernelManager, str, str]:
        """Give a new kernel its provisioner. Called with the arguments of each start.

        In addition to Jupyter's arguments, ``confinement`` is the `Sandbox` of a sandboxed kernel.

        Raises:
            KernelUnsupported: the kernelspec names a provisioner, which cannot run in a sandbox.
        """
        confinement: Sandbox | None = kwargs.pop("confinement", None)
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
