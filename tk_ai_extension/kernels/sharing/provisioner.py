"""Attaching programs of jupyter_client to a shared kernel: JupyterLab, nbclient, consoles."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

from jupyter_client.connect import LocalPortCache
from jupyter_client.provisioning.provisioner_base import KernelProvisionerBase
from traitlets import Unicode

from tk_ai_extension.kernels.sharing.gate import ControlGate
from tk_ai_extension.kernels.sharing.share import CHANNELS, Connection, NoConnection, Share
from tk_ai_extension.kernels.socket_folders import make_folder, remove_folder


class SharedKernelProvisioner(KernelProvisionerBase):
    """Gives a guest's kernel manager the shared kernel, instead of a process.

    The guest's clients reach the kernel's own sockets. Nothing that a guest does ends the kernel or
    takes it from others:

    - on the control channel there is a gate that keeps ``shutdown_request`` back;
    - signals end nothing. An interrupt is sent on, except the one that a manager sends before it
      shuts down: it would stop what somebody else runs;
    - a manager deletes the files of IPC sockets when it is done: it gets links of its own.

    A guest's restart attaches it anew, to the kernel that is shared then: variables stay.
    """

    share = Unicode(help="The path of the share, in .nb/shared.").tag(config=True)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.connection_info: Any = {}
        self._kernel: Connection | None = None
        self._gate: ControlGate | None = None
        self._folder: Path | None = None
        self._attached = False

    @property
    def has_process(self) -> bool:
        """Whether it is attached."""
        return self._attached

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Finds the kernel; there is nothing to launch.

        Raises:
            NoConnection: none is shared.
        """
        # The kernelspec says `message` to those that launch the relay. This manager is to ask the
        # provisioner, who knows whether it is shutting down.
        self.kernel_spec.interrupt_mode = "signal"
        self._kernel_shared().read()
        return await super().pre_launch(cmd=[], **kwargs)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:  # noqa: ARG002 - the base's
        """Attaches to the kernel that is shared now, and returns how clients reach it.

        Raises:
            NoConnection: none is shared any more.
        """
        kernel = self._kernel_shared().read()
        await self._close_gate()
        front = self._front(kernel, again=kernel == self._kernel)
        gate = ControlGate(front, self._kernel_shared())
        await asyncio.to_thread(gate.open)
        self._gate, self._kernel, self._attached = gate, kernel, True
        self.connection_info = front.info()
        return self.connection_info

    async def poll(self) -> int | None:
        """None while it is attached to a living kernel; 1 where that is gone or was replaced."""
        if not self._attached:
            return 0
        gone = self._gate is None or not self._gate.is_open or self._is_replaced()
        return 1 if gone else None

    async def wait(self) -> int | None:
        """Lets go; the kernel itself is not waited for."""
        status = await self.poll()
        self._attached = False
        return status

    async def send_signal(self, signum: int) -> None:
        """Interrupts the kernel, unless the manager is only about to shut down."""
        leaving = getattr(self.parent, "shutting_down", False)
        if signum == signal.SIGINT and self._attached and self._gate is not None and not leaving:
            self._gate.interrupt()

    async def kill(self, restart: bool = False) -> None:  # noqa: ARG002 - the base's
        """Lets go; the kernel goes on."""
        self._attached = False

    async def terminate(self, restart: bool = False) -> None:  # noqa: ARG002 - the base's
        """Lets go; the kernel goes on."""
        self._attached = False

    async def shutdown_requested(self, restart: bool = False) -> None:  # noqa: ARG002 - the base's
        """Lets go: there is no process whose end the manager had to wait for."""
        self._attached = False

    async def cleanup(self, restart: bool = False) -> None:
        """Closes the gate, and removes what is the guest's own."""
        if restart:
            return
        await self._close_gate()
        if self._folder is not None:
            remove_folder(self._folder)
            self._folder = None

    def _kernel_shared(self) -> Share:
        return Share.at(Path(self.share))

    def _is_replaced(self) -> bool:
        try:
            return self._kernel_shared().read() != self._kernel
        except NoConnection:
            return False  # it restarts, or is gone: the gate knows after a while

    def _front(self, kernel: Connection, *, again: bool) -> Connection:
        """Where the guest's clients find the kernel; the same again where the kernel is the same."""
        if kernel.transport == "ipc":
            return replace(kernel, ip=self._own_sockets(kernel))
        if again:
            port: int = self.connection_info["control_port"]
        else:
            port = LocalPortCache.instance().find_available_port(kernel.ip)
        return replace(kernel, ports={**kernel.ports, "control": port})

    def _own_sockets(self, kernel: Connection) -> str:
        """Links to the kernel's sockets, in a folder of the guest's own, where the gate makes its own.

        The path is short: that of a socket must not be longer than about 100 bytes.
        """
        if self._folder is None:
            self._folder = make_folder()
        own = replace(kernel, ip=str(self._folder / "k"))
        for channel in CHANNELS:
            link = Path(own.socket_file(channel))
            link.unlink(missing_ok=True)
            if channel != "control":
                link.symlink_to(kernel.socket_file(channel))
        return own.ip

    async def _close_gate(self) -> None:
        gate, self._gate = self._gate, None
        if gate is not None:
            await asyncio.to_thread(gate.close)
