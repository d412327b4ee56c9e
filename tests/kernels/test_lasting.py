"""Without a Jupyter Server: kernels that outlive the process which started them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from tests.kernels.conftest import PATIENCE
from tk_ai_extension.kernels.environment import InheritedEnvironment
from tk_ai_extension.kernels.lasting import LastingMultiKernelManager
from tk_ai_extension.kernels.service import JupyterKernels
from tk_ai_extension.model.errors import KernelNotFound, KernelStartFailed
from tk_ai_extension.testing import faults
from tk_ai_extension.testing.executor_bench import (
    DEADLINE,
    ExecutorBench,
    happens,
    kernel_events,
    run,
    submit,
)

HOST = """
import asyncio, json, sys
from tk_ai_extension.kernels.lasting import LastingMultiKernelManager
from tk_ai_extension.kernels.service import JupyterKernels
from tk_ai_extension.model.executions import ExecutionRequest

async def main(folder):
    manager = LastingMultiKernelManager(connection_dir=folder)
    kernels = JupyterKernels(manager, capture_stderr=False)
    kernel_id = await kernels.start("python3")
    events = kernels.executor(kernel_id).execute(kernel_id, ExecutionRequest("kept = 41"))
    last = [event async for event in events][-1]
    assert last.status == "ok", last
    servers = [name for name in sys.modules if name.startswith("jupyter_server")]
    print(json.dumps([kernel_id, (await kernels.info(kernel_id)).pid, servers]), flush=True)
    if sys.stdin.readline().strip() == "leave":
        await kernels.close()
        manager.leave()

asyncio.run(main(sys.argv[1]))
"""


async def left_by_a_host(folder: Path, end: str) -> tuple[str, int]:
    """The id and the process of a kernel whose host has been killed, or has left it."""
    host = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOST, str(folder), stdin=-1, stdout=-1
    )
    assert host.stdin is not None
    assert host.stdout is not None
    try:
        async with asyncio.timeout(DEADLINE):
            kernel_id, pid, servers = json.loads(await host.stdout.readline())
            if end == "leaves":
                host.stdin.write(b"leave\n")
                assert await host.wait() == 0
    finally:
        if host.returncode is None:
            host.kill()
            await host.wait()
    assert servers == [], "it needs no Jupyter Server"
    return kernel_id, pid


def files(folder: Path) -> list[str]:
    """The names of what is in a folder."""
    return [path.name for path in folder.iterdir()]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[ExecutorBench]:
    """Kernels without a server, in a folder."""
    manager = LastingMultiKernelManager(connection_dir=str(tmp_path))
    kernels = JupyterKernels(manager, capture_stderr=False, patience=PATIENCE, ready_timeout=20)

    async def request(method: str, path: str) -> None:
        raise AssertionError("there is no server")

    yield ExecutorBench(kernels, manager, "direct", "", kernels.start, request)
    manager.adopt({})  # also those that a test which failed has left
    for kernel_id in kernels.ids():
        await kernels.shutdown(kernel_id)
    await kernels.close()
    manager.leave()


@pytest.mark.proves("kernel:tools")
@pytest.mark.parametrize("end", ["killed", "leaves"])
async def test_a_kernel_is_found_again_with_its_state_when_its_host_is_gone(
    bench: ExecutorBench, tmp_path: Path, end: str
) -> None:
    kernel_id, pid = await left_by_a_host(tmp_path, end)
    assert bench.manager.adopt(InheritedEnvironment().environment("python3", None)) == [kernel_id]
    assert (await bench.kernels.info(kernel_id)).pid == pid
    outcome = await run(bench, "kept + 1", kernel_id)
    assert outcome.outputs[0]["data"]["text/plain"] == "42"
    running = submit(bench, faults.RUN_FOREVER, kernel_id)
    await running.printed()
    await bench.kernels.interrupt(kernel_id)
    assert (await running.outcome()).status == "interrupted"

    await bench.kernels.restart(kernel_id)
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    outcome = await run(bench, "kept", kernel_id)
    assert outcome.execution.error is not None
    assert outcome.execution.error["ename"] == "NameError"

    await bench.kernels.shutdown(kernel_id)
    with pytest.raises(KernelNotFound):
        await run(bench, "1", kernel_id)
    assert files(tmp_path) == []


@pytest.mark.proves("kernel:auto-restart")
async def test_an_adopted_kernel_that_dies_is_noticed_and_started_again(
    bench: ExecutorBench, tmp_path: Path
) -> None:
    kernel_id, pid = await left_by_a_host(tmp_path, "killed")
    bench.manager.adopt(InheritedEnvironment().environment("python3", None))
    running = submit(bench, faults.RUN_FOREVER, kernel_id)
    await running.printed()
    async with kernel_events(bench) as events:
        faults.kill(pid)
        outcome = await running.outcome(deadline=5)
        assert (outcome.status, outcome.text()) == ("kernel_died", "running\n")
        await happens(events, "restarted", kernel_id=kernel_id)
    assert (await run(bench, "1", kernel_id)).execution.execution_count == 1


async def test_what_is_left_of_a_kernel_that_has_ended_is_removed(
    bench: ExecutorBench, tmp_path: Path
) -> None:
    _, pid = await left_by_a_host(tmp_path, "killed")
    faults.kill(pid)
    process = psutil.Process(pid) if psutil.pid_exists(pid) else None
    if process is not None and process.status() != psutil.STATUS_ZOMBIE:
        await asyncio.to_thread(psutil.wait_procs, [process], 10)
    assert bench.manager.adopt({}) == []
    assert files(tmp_path) == []


@pytest.mark.proves("fault:never-ready")
async def test_a_kernel_that_does_not_start_leaves_nothing(
    bench: ExecutorBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = tmp_path / "specs"
    faults.write_broken_kernelspec(specs / "kernels", "exits", faults.EXITS + f"  # {tmp_path}")
    monkeypatch.setenv("JUPYTER_PATH", str(specs))
    with pytest.raises(KernelStartFailed, match="no such module: spam"):
        await bench.kernels.start("exits")
    assert faults.processes_with(f"# {tmp_path}") == []
    assert files(tmp_path) == ["specs"]
