"""Kernels that outlive the process which started them."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.kernels import persistent_host
from tests.kernels.conftest import TIMEOUTS
from tests.support import faults
from tests.support.executor_bench import (
    DEADLINE,
    ExecutorBench,
    happens,
    kernel_events,
    run,
    submit,
)
from tk_ai_extension.kernels import persistent
from tk_ai_extension.kernels.environment import InheritedEnvironment
from tk_ai_extension.kernels.persistent import PersistentMappingKernelManager
from tk_ai_extension.kernels.persistent_processes import PersistentProvisioner, lock_log
from tk_ai_extension.kernels.service import JupyterKernels
from tk_ai_extension.model import file_locks
from tk_ai_extension.model.errors import KernelNotFound, KernelStartFailed

ROOT = Path(__file__).parents[2]


async def left_by_a_host(folder: Path, end: str) -> tuple[str, int]:
    """The id and the process of a kernel whose host has been killed, or has left it."""
    host = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", persistent_host.__name__, str(folder)),
        cwd=ROOT,
        stdin=-1,
        stdout=-1,
    )
    assert host.stdin is not None
    assert host.stdout is not None
    try:
        async with asyncio.timeout(DEADLINE):
            kernel_id, pid = json.loads(await host.stdout.readline())
            if end == "leaves":
                host.stdin.write(b"leave\n")
                assert await host.wait() == 0
    finally:
        if host.returncode is None:
            host.kill()
            await host.wait()
    return kernel_id, pid


def files(folder: Path) -> list[str]:
    """The names of what is in a folder."""
    return [path.name for path in folder.iterdir()]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[ExecutorBench]:
    """Kernels without a server, in a folder."""
    manager = PersistentMappingKernelManager(connection_dir=str(tmp_path), adopt_on_start=False)
    kernels = JupyterKernels(manager, capture_stderr=False, timeouts=TIMEOUTS, ready_timeout=20)

    async def request(method: str, path: str) -> None:
        raise AssertionError("there is no server")

    yield ExecutorBench(kernels, manager, "direct", "", kernels.start, request)
    manager.adopt({})  # also those that a test which failed has left
    for kernel_id in kernels.ids():
        await kernels.shutdown(kernel_id)
    await kernels.close()
    manager.detach()


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


@pytest.mark.proves("kernel:tools")
async def test_a_kernel_whose_log_was_deleted_restarts_with_a_new_one(
    bench: ExecutorBench, tmp_path: Path
) -> None:
    kernel_id = await bench.kernels.start("python3")
    log = tmp_path / f"kernel-{kernel_id}.log"
    for _ in range(2):
        log.unlink()
        await bench.kernels.restart(kernel_id)
        assert (await run(bench, "1", kernel_id)).status == "ok"
        assert log.exists()
        with log.open("ab") as opened, pytest.raises(BlockingIOError):
            file_locks.lock(opened.fileno(), wait=False)
    await bench.kernels.shutdown(kernel_id)
    assert files(tmp_path) == []


async def test_a_kernel_that_could_not_be_restarted_can_come_back_and_leaves_no_files(
    bench: ExecutorBench, tmp_path: Path
) -> None:
    kernel_id = await bench.kernels.start("python3")
    argv: list[str] = bench.manager.get_kernel(kernel_id).provisioner.kernel_spec.argv
    program = argv[0]
    for comes_back in (True, False):
        argv[0] = str(tmp_path / "missing")
        with pytest.raises(KernelStartFailed):
            await bench.kernels.restart(kernel_id)
        if comes_back:
            argv[0] = program
            await bench.kernels.restart(kernel_id)
            assert (await run(bench, "1", kernel_id)).status == "ok"
    await bench.kernels.shutdown(kernel_id)
    assert files(tmp_path) == []


async def test_files_of_a_kernel_that_has_ended_are_removed(
    bench: ExecutorBench, tmp_path: Path
) -> None:
    _, pid = await left_by_a_host(tmp_path, "killed")
    faults.kill(pid)
    assert bench.manager.adopt({}) == []
    assert files(tmp_path) == []


async def test_a_kernel_that_another_server_restarts_keeps_its_files(
    bench: ExecutorBench, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kernel_id = await bench.kernels.start("python3")
    provisioner = bench.manager.get_kernel(kernel_id).provisioner
    launch: Any = provisioner.pre_launch
    sockets = provisioner.sockets
    before = set(files(tmp_path))

    async def pre_launch(**kwargs: Any) -> Any:
        # The process in the note has ended, and the next one does not run yet.
        assert adopted_in(tmp_path) == []
        assert set(files(tmp_path)) == before
        assert sockets is None or sockets.exists()
        return await launch(**kwargs)

    provisioner.pre_launch = pre_launch
    await bench.kernels.restart(kernel_id)
    assert f"Kernel {kernel_id} is not adopted: ManagedElsewhere" in caplog.text
    assert (await run(bench, "1", kernel_id)).status == "ok"
    await bench.kernels.shutdown(kernel_id)
    assert files(tmp_path) == []


def test_a_kernel_that_is_removed_meanwhile_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = tmp_path / "kernel-1.process"
    note.write_text(noted(tmp_path), encoding="utf-8")

    def lock_later(file: Path) -> Any:
        note.unlink()  # As the server does that managed the kernel.
        return lock_log(file)

    monkeypatch.setattr(persistent, "lock_log", lock_later)
    assert adopted_in(tmp_path) == []
    assert files(tmp_path) == []


def noted(folder: Path, **changes: Any) -> str:
    """A note that somebody has put into a folder of kernels; everything in it can be chosen."""
    status = folder.stat()
    usual = {
        "pid": 1,
        "started": 0,
        "kernel_name": "python3",
        "cwd": str(folder),
        "folder": [status.st_dev, status.st_ino],
    }
    return json.dumps(usual | changes)


def adopted_in(folder: Path) -> list[str]:
    """What a host of its own takes over, and leaves again."""
    manager = PersistentMappingKernelManager(connection_dir=str(folder), adopt_on_start=False)
    adopted = manager.adopt({})
    manager.detach()
    return adopted


SPOILED = {
    "its kernelspec is not here": lambda text: json.dumps(
        json.loads(text) | {"kernel_name": "none"}
    ),
    "its note is cut off": lambda text: text[:20],
    "its note is empty": lambda text: text[:0],
    "its note is no object": lambda text: f"[{text}]",
    "its note lacks the process": lambda text: text.replace('"pid"', '"other"'),
    "its note names no process": lambda text: json.dumps(json.loads(text) | {"pid": None}),
    "its process has no id that there is": lambda text: json.dumps(json.loads(text) | {"pid": -1}),
    "its note is nested too deeply": lambda _: "[" * 100_000,
    "its sandbox is unknown": lambda text: json.dumps(json.loads(text) | {"sandbox": 1}),
}


async def test_a_living_kernel_that_cannot_be_taken_over_keeps_its_files(
    bench: ExecutorBench, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kernel_id, pid = await left_by_a_host(tmp_path, "killed")
    note = tmp_path / f"kernel-{kernel_id}.process"
    text = note.read_text(encoding="utf-8")
    before = sorted(files(tmp_path))
    for reason, spoil in SPOILED.items():
        note.write_text(spoil(text), encoding="utf-8")
        caplog.clear()
        assert bench.manager.adopt({}) == [], reason
        assert f"Kernel {kernel_id} is not adopted" in caplog.text, reason
        assert sorted(files(tmp_path)) == before, reason
    note.write_text(text, encoding="utf-8")
    assert bench.manager.adopt({}) == [kernel_id]
    assert (await bench.kernels.info(kernel_id)).pid == pid
    assert (await run(bench, "kept + 1", kernel_id)).outputs[0]["data"]["text/plain"] == "42"


@pytest.mark.proves("exec:statuses")
async def test_a_defect_while_a_kernel_is_taken_over_is_not_taken_for_an_unusable_note(
    bench: ExecutorBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel_id, _ = await left_by_a_host(tmp_path, "killed")
    with monkeypatch.context() as defect:
        defect.setattr(PersistentProvisioner, "adopt", None)
        with pytest.raises(TypeError, match="not callable"):
            bench.manager.adopt({})
    assert bench.manager.adopt({}) == [kernel_id]


async def test_a_clock_that_is_set_parts_no_kernel_from_its_host(
    bench: ExecutorBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel_id, _ = await left_by_a_host(tmp_path, "killed")
    real = psutil.Process.create_time
    with monkeypatch.context() as clock:
        clock.setattr(psutil.Process, "create_time", lambda process: real(process) + 3600)
        assert bench.manager.adopt({}) == [kernel_id]


def test_a_process_that_is_no_kernel_is_not_taken_for_one(tmp_path: Path) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:
        started = psutil.Process(other.pid).create_time()
        note = noted(tmp_path, pid=other.pid, started=started)
        (tmp_path / "kernel-1.process").write_text(note, encoding="utf-8")
        (tmp_path / "kernel-1.json").write_text("{}", encoding="utf-8")
        assert adopted_in(tmp_path) == []
        assert other.poll() is None
    assert files(tmp_path) == []


@pytest.mark.parametrize("name", ["victim", "nb-victim", "nb-sandbox/../victim"])
def test_a_note_that_was_planted_removes_no_folder(tmp_path: Path, name: str) -> None:
    for folder in ("kernels", "victim", "nb-victim", "nb-sandbox"):
        (tmp_path / folder).mkdir()
    with subprocess.Popen(["true"]) as ended:
        pass
    planted = {
        "kind": "bubblewrap",
        "executable": "/bin/true",
        "options": [],
        "project": str(tmp_path),
        "hidden": [],
        "folder": f"{tmp_path}/{name}",
    }
    note = noted(tmp_path / "kernels", pid=ended.pid, sandbox=planted)
    (tmp_path / "kernels" / "kernel-1.process").write_text(note, encoding="utf-8")
    assert adopted_in(tmp_path / "kernels") == []
    assert sorted(files(tmp_path)) == ["kernels", "nb-sandbox", "nb-victim", "victim"]
    assert files(tmp_path / "kernels") == []


async def test_a_copy_of_the_folder_does_not_own_the_kernels(
    bench: ExecutorBench, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kernel_id, pid = await left_by_a_host(tmp_path, "killed")
    copy = shutil.copytree(tmp_path, tmp_path_factory.mktemp("copy") / "kernels")
    assert adopted_in(copy) == []
    assert files(copy) == []
    assert bench.manager.adopt({}) == [kernel_id]
    assert (await bench.kernels.info(kernel_id)).pid == pid


async def test_a_folder_that_was_moved_still_owns_its_kernels(
    bench: ExecutorBench, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    before = tmp_path_factory.mktemp("before")
    kernel_id, pid = await left_by_a_host(before, "killed")
    before.rename(tmp_path)
    assert bench.manager.adopt({}) == [kernel_id]
    assert (await bench.kernels.info(kernel_id)).pid == pid


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
