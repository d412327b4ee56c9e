"""A kernel that takes long to restart is reconnected to when it answers, however late."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import pytest_asyncio
from jupyter_client.multikernelmanager import AsyncMultiKernelManager

from tests.kernels.conftest import TIMEOUTS, Server
from tests.support import faults
from tests.support.executor_bench import (
    DEADLINE,
    ExecutorBench,
    happens,
    kernel_events,
)
from tk_ai_extension.kernels.base import KernelEvent
from tk_ai_extension.kernels.local_kernel import RETURN_TIMEOUT, LocalKernel
from tk_ai_extension.kernels.service import JupyterKernels
from tk_ai_extension.model.errors import KernelBusy

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.proves("kernel:shared-live")]

BLOCKS = """
import os, sys
pipe = {!r}
if os.path.exists(pipe):
    with open(pipe) as file:
        file.read()
from ipykernel.kernelapp import launch_new_instance
launch_new_instance()
"""
"""Starts ipykernel; if there is a named pipe, once it was written to."""


@pytest.fixture(scope="module")
def backend() -> str:
    return "direct"


@dataclass
class SlowKernel:
    """A kernel whose next incarnations start when they are let."""

    id: str
    pipe: Path
    server: Server
    kernels: JupyterKernels
    events: asyncio.Queue[KernelEvent]

    async def restart(self, watched: LocalKernel | None = None) -> asyncio.Task[None]:
        """Restarts it as a person does.

        Args:
            watched: Who has to notice; the module's service unless given.

        Returns:
            What then waits for the kernel's answer.
        """
        kernel = watched or self.kernels._kernels[self.id]
        restarts = kernel.restarts
        await self.server.request("POST", f"api/kernels/{self.id}/restart")
        async with asyncio.timeout(DEADLINE):
            while kernel.restarts == restarts or kernel.connection is None:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0)
        assert kernel._reconnecting is not None
        return kernel._reconnecting

    async def answers(self) -> None:
        """Lets the present incarnation start; it must be known that it did."""
        await asyncio.to_thread(self.pipe.write_text, "now")
        await happens(self.events, "state", kernel_id=self.id, state="idle")

    async def is_used(self) -> None:
        """Has a person run code; our events must show it."""
        async with faults.person(self.server.kernels, self.id) as client:
            client.execute("x = 1")
            await happens(self.events, "ran", kernel_id=self.id, code="x = 1", ours=False)


@pytest_asyncio.fixture(loop_scope="module")
async def slow(
    server: Server, kernels: JupyterKernels, bench: ExecutorBench, tmp_path: Path
) -> AsyncIterator[SlowKernel]:
    pipe = tmp_path / "pipe"
    argv = [sys.executable, "-c", BLOCKS.format(str(pipe)), "-f", "{connection_file}"]
    name = faults.write_kernelspec(server.specs, tmp_path.name.replace("_", "-"), argv)
    kernel_id = await kernels.start(name)
    os.mkfifo(pipe)
    async with kernel_events(bench) as events:
        yield SlowKernel(kernel_id, pipe, server, kernels, events)
    if kernel_id in kernels.ids():
        await kernels.shutdown(kernel_id)


async def pass_time(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Has the loop's clock go on at once, and all that is due until then happen."""
    loop = asyncio.get_running_loop()
    clock, due = loop.time, loop.create_future()
    monkeypatch.setattr(loop, "time", lambda: clock() + seconds)
    loop.call_soon(lambda: loop.call_later(0, due.set_result, None))
    await due
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_kernel_that_needs_long_is_reconnected_to(
    kernels: JupyterKernels, slow: SlowKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    await slow.restart()
    await pass_time(monkeypatch, 25)
    assert (await kernels.info(slow.id)).state == "starting"
    await slow.answers()
    assert (await kernels.info(slow.id)).state == "idle"
    await slow.is_used()


async def test_so_is_one_that_is_restarted_again_meanwhile(
    slow: SlowKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await slow.restart()
    await pass_time(monkeypatch, 25)
    assert await slow.restart() is first
    await slow.answers()
    await slow.is_used()


async def test_calls_that_give_up_meanwhile_do_not_end_the_wait(
    kernels: JupyterKernels, slow: SlowKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    await slow.restart()
    call = asyncio.create_task(kernels.connection(slow.id))
    await asyncio.sleep(0)
    await pass_time(monkeypatch, 35)
    with pytest.raises(KernelBusy, match="did not answer within 30 s"):
        await call
    await slow.answers()
    await slow.is_used()


async def test_the_wait_outlasts_a_suspended_kernel(
    slow: SlowKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = await slow.restart()
    process = psutil.Process(slow.server.manager.get_kernel(slow.id).provisioner.pid)
    process.suspend()
    await pass_time(monkeypatch, 3600)
    assert not waiting.done()
    process.resume()
    await slow.answers()


async def test_the_wait_ends_with_the_kernel(kernels: JupyterKernels, slow: SlowKernel) -> None:
    waiting = await slow.restart()
    await kernels.shutdown(slow.id)
    assert waiting.done()
    assert slow.id not in kernels._kernels


async def test_the_wait_ends_with_the_service(slow: SlowKernel) -> None:
    manager, specs = slow.server.manager, slow.server.app.kernel_spec_manager
    kernels = JupyterKernels(manager, specs, timeouts=TIMEOUTS, backend="direct")
    await kernels.connection(slow.id)
    waiting = await slow.restart(kernels._kernels[slow.id])
    await kernels.close()
    assert waiting.cancelled()


@pytest.mark.parametrize("returns", [True, False])
async def test_a_kernel_of_another_process_has_a_limit(
    slow: SlowKernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, returns: bool
) -> None:
    owner = slow.server.manager.get_kernel(slow.id)
    info = owner.get_connection_info() | {
        "kernel_name": "python3",
        "key": owner.session.key.decode(),
    }
    (tmp_path / "external").mkdir()
    (tmp_path / "external" / "kernel.json").write_text(json.dumps(info), encoding="utf-8")
    manager = AsyncMultiKernelManager(external_connection_dir=str(tmp_path / "external"))
    kernels = JupyterKernels(manager, slow.server.app.kernel_spec_manager, timeouts=TIMEOUTS)
    (found,) = kernels.ids()
    await kernels.connection(found)
    waiting = await slow.restart(kernels._kernels[found])
    await pass_time(monkeypatch, RETURN_TIMEOUT - 5 if returns else RETURN_TIMEOUT + 5)
    assert waiting.done() != returns
    await slow.answers()
    await asyncio.wait_for(kernels.connection(found), DEADLINE)
    assert (await kernels.info(found)).state == "idle"
    await kernels.close()
