"""Starts the processes of all kernels of a server: without its secrets, keeping the end of their stderr."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterable
from importlib.metadata import EntryPoint
from threading import Thread
from typing import TYPE_CHECKING, Any

from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from traitlets import List, Unicode

from tk_ai_extension.kernels.environment_variables import WITHHELD_FROM_KERNELS, exclude_variables

if TYPE_CHECKING:
    from jupyter_client.multikernelmanager import MultiKernelManager

NAME = "tk-ai-provisioner"
"""The name of the provisioner in jupyter_client's factory."""

TAIL_BYTES = 4000
"""Bytes of the end of a kernel's stderr that are kept."""

BLOCK = 65536
"""Bytes of a kernel's stderr that are passed on at a time."""

READ_TIMEOUT = 0.5
"""Seconds to wait for the last lines of an ended kernel; its children may keep its stderr open."""


class StderrTail:
    """A pipe for a process's stderr that is forwarded to this process's stderr, and keeps its end.

    A pipe, not a file: a kernel writes to it throughout its life, and a file would grow. A thread reads it
    until every process that has it has ended.
    """

    def __init__(self) -> None:
        read_end, write_end = os.pipe()
        self.writer = os.fdopen(write_end, "wb", 0)
        self._tail = b""
        self._reader = Thread(target=self._forward, args=(read_end,), daemon=True)
        self._reader.start()

    async def text(self) -> str:
        """Return the end of what an ended process wrote, in whole lines."""
        await asyncio.to_thread(self._reader.join, READ_TIMEOUT)
        text = self._tail.decode("utf-8", "replace").strip()
        return text if len(self._tail) < TAIL_BYTES else text.partition("\n")[2]

    def _forward(self, read_end: int) -> None:
        with os.fdopen(read_end, "rb", 0) as reader:
            while data := reader.read(BLOCK):
                self._tail = (self._tail + data)[-TAIL_BYTES:]
                with contextlib.suppress(OSError):  # this process has no stderr
                    os.write(2, data)


class ServerProvisioner(LocalProvisioner):
    """Jupyter's local provisioner, which removes variables and keeps the end of the kernel's stderr.

    It filters at every launch by any component: Jupyter's session manager restores the server's whole
    environment when a notebook is renamed. Variables that a kernelspec sets (its ``env``) are meant for
    the kernel and stay.
    """

    left_out = List(
        Unicode(),
        list(WITHHELD_FROM_KERNELS),
        help="Names or patterns of environment variables that are hidden from kernels.",
    ).tag(config=True)

    stderr: StderrTail | None = None
    """What the present process has written; None before the first launch."""

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Filter the environment. Called by the kernel manager before each launch of the process."""
        environment = exclude_variables(kwargs.pop("env", os.environ), self.left_out)
        return await super().pre_launch(env=environment, **kwargs)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Start the process. Called by the kernel manager."""
        self.stderr = StderrTail()
        with self.stderr.writer as writer:
            return await super().launch_kernel(cmd, **{"stderr": writer, **kwargs})


def provision_kernels(manager: MultiKernelManager, left_out: Iterable[str]) -> None:
    """Have a `ServerProvisioner` start the kernels of a multi-kernel manager from now on.

    Another default provisioner that an administrator configured, or one that a kernelspec names, is
    not replaced. jupyter_client's factory is shared by all managers of the process: kernels of the others
    are started without `WITHHELD_FROM_KERNELS`.

    Args:
        manager: The multi-kernel manager.
        left_out: Names or patterns of variables that its kernels must not have.
    """
    factory: Any = KernelProvisionerFactory.instance(parent=manager)
    if factory.default_provisioner_name == "local-provisioner":
        address = f"{ServerProvisioner.__module__}:{ServerProvisioner.__qualname__}"
        factory.provisioners[NAME] = EntryPoint(NAME, address, factory.GROUP_NAME)
        factory.default_provisioner_name = NAME
    manager.config.ServerProvisioner.left_out = list(left_out)
