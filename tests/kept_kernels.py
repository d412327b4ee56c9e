"""Kernels that outlive their test.

To start a kernel takes half a processor second, most of it for imports. One that still runs when a server
of the test's process ends is kept, and cleared for the next test that starts a kernel. Whatever shuts
down, restarts or kills a kernel within a test does so.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.asynchronous import AsyncKernelClient
from jupyter_client.multikernelmanager import AsyncMultiKernelManager
from jupyter_client.provisioning import LocalProvisioner

COMMAND = [sys.executable, "-m", "ipykernel_launcher", "-f"]
"""Kernels with this command and a connection file are kept."""
MAX_KEPT = 3
CLEARED_WITHIN = 2.0
"""Seconds. A kernel that still runs code is not cleared, and ends."""
CLEAR = """
import os, sys
os.chdir({folder!r})
os.environ.clear()
os.environ.update({environment!r})
# What a kernel sets itself.
os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
get_ipython().init_environment()
sys.path[:] = [path for path in sys.path if "/pytest-of-" not in path]
sys.modules.pop("tool_bridge", None)
for name, module in list(sys.modules.items()):
    if "/pytest-of-" in (getattr(module, "__file__", None) or ""):
        del sys.modules[name]
for callbacks in get_ipython().events.callbacks.values():
    callbacks[:] = [each for each in callbacks if each.__module__ != "__main__"]
if pyplot := sys.modules.get("matplotlib.pyplot"):
    pyplot.close("all")
get_ipython().reset(new_session=True)
"""


def read_at_start(environment: Mapping[str, str]) -> tuple[bool, str | None]:
    """What a kernel reads at its start: it serves only tests with the same.

    IPython's folder is another in each test, and empty.
    """
    return "IPYTHONDIR" in environment, environment.get("PYTHONPATH")


launch = LocalProvisioner.launch_kernel
shutdown_all = AsyncMultiKernelManager.shutdown_all


@dataclass
class KeptKernel:
    """A kernel that no server has.

    Attributes:
        provisioner: Has its process and its connection.
        read: What it read at its start.
    """

    provisioner: LocalProvisioner
    read: tuple[bool, str | None]

    async def clear(self, folder: Path, environment: Mapping[str, str]) -> bool:
        """Remove the variables and modules of the last test, and return whether the kernel did so."""
        client = AsyncKernelClient()
        client.load_connection_info(self.provisioner.connection_info)
        client.start_channels(iopub=False, stdin=False, hb=False, control=False)
        code = CLEAR.format(folder=str(folder), environment=dict(environment))
        try:
            asked: Any = client.execute(code, silent=True, reply=True, timeout=CLEARED_WITHIN)
            return (await asked)["content"]["status"] == "ok"
        except TimeoutError:
            return False
        finally:
            client.stop_channels()
            client.context.destroy(linger=0)

    async def end(self) -> None:
        """Kill it and wait for its end."""
        await self.provisioner.kill()
        await asyncio.wait_for(self.provisioner.wait(), 30)


class KeptKernels:
    """The kernels that no server has, and what each kernel was started with."""

    def __init__(self) -> None:
        self._kept: list[KeptKernel] = []
        self._read: dict[int | None, tuple[bool, str | None]] = {}

    async def launch(self, provisioner: Any, cmd: list[str], **options: Any) -> Any:
        """Launch a kernel, or give a provisioner one that is kept."""
        # A copy: to launch a kernel adds a variable.
        environment = dict(options.get("env") or os.environ)
        is_restart = provisioner.pid is not None
        kept = None
        if cmd[:-1] == COMMAND and not is_restart:
            kept = await self._take(options.get("cwd") or Path.cwd(), environment)
        if kept is None:
            await launch(provisioner, cmd, **options)
        else:
            for name in ("process", "pid", "pgid", "connection_info"):
                setattr(provisioner, name, getattr(kept.provisioner, name))
            provisioner.cwd = options.get("cwd")
        self._read[provisioner.pid] = read_at_start(environment)
        return provisioner.connection_info

    async def _take(self, folder: Path, environment: Mapping[str, str]) -> KeptKernel | None:
        read = read_at_start(environment)
        for kept in [each for each in self._kept if each.read == read]:
            self._kept.remove(kept)
            if await kept.clear(folder, environment):
                return kept
            await kept.end()
        return None

    async def shutdown_all(self, manager: Any, now: bool = False) -> None:
        """Shut down the kernels of a server that ends, and keep some of them."""
        for kernel_id in manager.list_kernel_ids():
            kernel = manager.get_kernel(kernel_id)
            provisioner = kernel.provisioner
            read = self._read.get(provisioner.pid)
            if read is not None and await is_kept(provisioner):
                self._kept.append(KeptKernel(provisioner, read))
                kernel.stop_restarter()
                manager.stop_watching_activity(kernel_id)
                manager.stop_buffering(kernel_id)
                await kernel.cleanup_resources()
                manager.remove_kernel(kernel_id)
        # The oldest: it may have variables that no other test has.
        while len(self._kept) > MAX_KEPT:
            await self._kept.pop(0).end()
        await shutdown_all(manager, now=now)

    async def close(self) -> None:
        """End the kernels that are left."""
        for kept in self._kept:
            await kept.end()


async def is_kept(provisioner: Any) -> bool:
    """Whether the kernel of a provisioner runs and is like any other."""
    return (
        isinstance(provisioner, LocalProvisioner)
        and await provisioner.poll() is None
        and provisioner.process is not None
        and provisioner.process.args[:-1] == COMMAND
    )


@contextmanager
def keeping_kernels() -> Generator[None]:
    """Keep the kernels of the servers of this process."""
    kernels = KeptKernels()

    async def launch_kernel(self: Any, cmd: list[str], **options: Any) -> Any:
        return await kernels.launch(self, cmd, **options)

    async def shut_all_down(self: Any, now: bool = False) -> None:
        await kernels.shutdown_all(self, now)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalProvisioner, "launch_kernel", launch_kernel)
        patch.setattr(AsyncMultiKernelManager, "shutdown_all", shut_all_down)
        yield
    asyncio.run(kernels.close())
