"""A start that is cancelled, at whatever moment, leaves no kernel behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager

from tests.support import faults
from tk_ai_extension.kernels.persistent import PersistentMappingKernelManager
from tk_ai_extension.kernels.service import JupyterKernels

pytestmark = [pytest.mark.asyncio, pytest.mark.proves("fault:never-ready", "kernel:readiness")]

Launched = asyncio.Queue[int]


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> Launched:
    """The process ids of the kernels that Jupyter launches."""
    launched: Launched = asyncio.Queue()
    launch = LocalProvisioner.launch_kernel

    async def launch_kernel(provisioner: Any, *args: Any, **options: Any) -> Any:
        info = await launch(provisioner, *args, **options)
        launched.put_nowait(provisioner.pid)
        return info

    monkeypatch.setattr(LocalProvisioner, "launch_kernel", launch_kernel)
    return launched


@pytest_asyncio.fixture(params=[AsyncMappingKernelManager, PersistentMappingKernelManager])
async def kernels(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[JupyterKernels]:
    """A service whose kernels never answer."""
    specs = tmp_path / "specs"
    faults.write_kernelspec(specs, "silent", ["tail", "-f", "{connection_file}"])
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    manager = request.param(
        root_dir=str(tmp_path),
        connection_dir=str(runtime),
        kernel_spec_manager=KernelSpecManager(kernel_dirs=[str(specs)], ensure_native_kernel=False),
        default_kernel_name="silent",
    )
    service = JupyterKernels(manager)
    yield service
    await service.close()
    manager.context.destroy(linger=0)


def files_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def cancelled(starting: asyncio.Task[str], kernels: JupyterKernels, *, times: int) -> None:
    for _ in range(times):
        starting.cancel()
        await asyncio.sleep(0)
    await asyncio.wait({starting})
    assert starting.cancelled()
    async with asyncio.timeout(20):
        await kernels._starts.join()


async def test_a_start_that_is_cancelled_at_any_moment_leaves_nothing(
    kernels: JupyterKernels, launched: Launched, tmp_path: Path
) -> None:
    manager = kernels._manager
    for iterations in (*range(12), *range(100, 108)):
        starting = asyncio.create_task(kernels.start())
        if iterations >= 100:
            await launched.get()
        for _ in range(iterations % 100):
            await asyncio.sleep(0)
        await cancelled(starting, kernels, times=1 + iterations % 2)
        assert kernels.ids() == []
        assert not manager._pending_kernels
        assert not kernels._starter._tails
    assert faults.processes_with(str(tmp_path)) == []
    assert files_in(tmp_path / "runtime") == []


async def test_a_service_that_closes_completes_its_launches(
    kernels: JupyterKernels, launched: Launched, tmp_path: Path
) -> None:
    starting = asyncio.create_task(kernels.start())
    await launched.get()
    starting.cancel()
    await kernels.close()
    assert kernels.ids() == []
    assert faults.processes_with(str(tmp_path)) == []
