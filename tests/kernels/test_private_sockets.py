"""Other users of the machine reach no socket of a kernel that a project's server has started."""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.kernels.conftest import TIMEOUTS
from tests.kernels.guests import connect, connection_info
from tests.kernels.guests import run as run_as_guest
from tests.kernels.test_persistent_kernels import left_by_a_host
from tests.support import faults
from tk_ai_extension.kernels import socket_folders
from tk_ai_extension.kernels.persistent import PersistentMappingKernelManager
from tk_ai_extension.kernels.service import JupyterKernels
from tk_ai_extension.kernels.socket_folders import supports_ipc
from tk_ai_extension.model.errors import KernelStartFailed


def types_of_tcp_sockets(pid: int) -> list[str]:
    """The ZeroMQ types of the sockets with which a kernel's processes listen on TCP."""
    process = psutil.Process(pid)
    return [
        socket_type(connection.laddr)
        for part in (process, *process.children(recursive=True))
        for connection in part.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    ]


def socket_type(address: Any) -> str:
    """The type that a ZeroMQ socket names in its handshake (ZMTP 3.0, mechanism NULL)."""
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
    named = b"\x0bSocket-Type"
    answered = b""
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(greeting)
        while named not in answered or len(answered.partition(named)[2]) < 8:
            received = connection.recv(4096)
            assert received, answered
            answered += received
    value = answered.partition(named)[2]
    length = int.from_bytes(value[:4], "big")
    return value[4 : 4 + length].decode()


def folders(base: Path) -> list[Path]:
    """The folders of sockets that are left."""
    return list(base.glob(f"{socket_folders.PREFIX}*"))


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The folder of temporary files, empty at the start of the test and short."""
    with tempfile.TemporaryDirectory(dir=socket_folders.FALLBACK) as base:
        monkeypatch.setenv("TMPDIR", base)
        monkeypatch.setattr(tempfile, "tempdir", base)
        yield Path(base)


@pytest.mark.proves("threat:secrets")
async def test_a_kernel_of_a_project_is_reached_by_its_owner_alone(
    tmp_path: Path, temporary: Path
) -> None:
    deep = tmp_path / ("deep" * 30)
    deep.mkdir()
    manager = PersistentMappingKernelManager(connection_dir=str(deep), adopt_on_start=False)
    kernels = JupyterKernels(manager, capture_stderr=False, timeouts=TIMEOUTS, ready_timeout=20)
    kernel_id = await kernels.start("python3")
    guests: list[Any] = []
    try:
        for started in ("first", "again"):
            if started == "again":
                await kernels.restart(kernel_id)
            pid = (await kernels.info(kernel_id)).pid
            assert pid is not None
            # ipykernel's pipe from forked children sends nothing, and receives by a random key.
            assert types_of_tcp_sockets(pid) in ([], ["PULL"]), started
            (folder,) = folders(temporary)
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            assert len(list(folder.iterdir())) == 5, "a socket for each channel"
            for value in (1, 2):
                # What another program knows is the connection file.
                guests.append(await connect(connection_info(file_of(deep))))
                assert await run_as_guest(guests[-1], f"print({value})") == str(value)
    finally:
        for guest in guests:
            guest.stop_channels()
        await kernels.shutdown(kernel_id)
        await kernels.close()
        manager.detach()
    assert folders(temporary) == []
    assert list(deep.iterdir()) == []


def make(folder: Path) -> Path:
    """Make a folder of mode 0700."""
    folder.mkdir(mode=0o700)
    return folder


def age(base: Path, but: Path) -> None:
    """Make all in a folder, but what is in another one, as old as if nobody were starting in it."""
    long_ago = time.time() - 2 * socket_folders.STARTING
    for path in base.rglob("*"):
        if not path.is_relative_to(but):
            os.utime(path, (long_ago, long_ago))


def file_of(folder: Path) -> Path:
    """The connection file of the only kernel."""
    (file,) = folder.glob("kernel-*.json")
    return file


async def test_the_sockets_of_a_kernel_that_was_killed_with_its_host_are_removed(
    tmp_path: Path, temporary: Path
) -> None:
    _, pid = await left_by_a_host(tmp_path, "killed")
    assert len(folders(temporary)) == 1
    faults.kill(pid)
    manager = PersistentMappingKernelManager(connection_dir=str(tmp_path), adopt_on_start=False)
    assert manager.adopt({}) == []
    manager.detach()
    assert folders(temporary) == []


async def test_a_server_removes_the_folders_of_kernels_that_have_ended_and_no_others(
    tmp_path: Path, temporary: Path
) -> None:
    _, killed = await left_by_a_host(make(tmp_path / "killed"), "killed")
    faults.kill(killed)
    (stale,) = folders(temporary)
    _, running = await left_by_a_host(make(tmp_path / "running"), "killed")
    confined = socket_folders.make_folder()  # of a sandbox: its sockets are in a folder in it
    (confined / "s").mkdir()
    with socket.socket(socket.AF_UNIX) as ended:
        ended.bind(str(confined / "s" / "k-1"))
    starting = socket_folders.make_folder()
    of_another_machine = make(temporary / f"{socket_folders.PREFIX}0123-abcdefgh")
    age(temporary, starting)
    linked = temporary / f"{socket_folders.prefix()}linked"
    linked.symlink_to(tmp_path)
    before = set(folders(temporary))
    manager = PersistentMappingKernelManager(connection_dir=str(make(tmp_path / "new")))
    manager.detach()
    assert before - set(folders(temporary)) == {stale, confined}
    assert {starting, of_another_machine, linked} < set(folders(temporary))
    faults.kill(running)
    assert linked.exists()


async def test_a_kernel_that_cannot_be_launched_leaves_no_folder(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = tmp_path / "kernels" / "missing" / "kernel.json"
    spec.parent.mkdir(parents=True)
    argv = [str(tmp_path / "python3"), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec.write_text(json.dumps({"argv": argv, "display_name": "missing", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    manager = PersistentMappingKernelManager(
        connection_dir=str(tmp_path / "state"), adopt_on_start=False
    )
    kernels = JupyterKernels(manager, capture_stderr=False)
    (tmp_path / "state").mkdir()
    with pytest.raises(KernelStartFailed):
        await kernels.start("missing")
    await kernels.close()
    manager.detach()
    assert folders(temporary) == []


@pytest.mark.parametrize(
    ("argv", "private"),
    [
        ([sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], True),
        (["python", "-Xfrozen_modules=off", "-m", "ipykernel", "-f", "{connection_file}"], True),
        (["R", "--slave", "-e", "IRkernel::main()", "--args", "{connection_file}"], False),
        (["python", "-m", "bash_kernel", "-f", "{connection_file}"], False),
        (["python", "-m", "runner", "python", "-m", "ipykernel_launcher"], False),
        (["docker", "run", "image", "python", "-m", "ipykernel_launcher"], False),
        (["python", "-m"], False),
        (["python"], False),
        ([], False),
    ],
)
def test_only_kernels_that_are_known_to_serve_them_get_private_sockets(
    argv: list[str], private: bool
) -> None:
    assert supports_ipc(argv) is private


def test_a_long_temporary_folder_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("long" * 20)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    folder = socket_folders.make_folder()
    try:
        assert len(f"{folder}/s/k-5") < 100
        assert socket_folders.is_own(folder)
    finally:
        socket_folders.remove_folder(folder)
    assert not folder.exists()


def test_a_folder_that_another_has_made_is_not_restored(tmp_path: Path, temporary: Path) -> None:
    folder = temporary / f"{socket_folders.PREFIX}mine"
    folder.symlink_to(tmp_path)
    with pytest.raises(FileExistsError):
        socket_folders.restore_folder(folder)
    folder.unlink()
    socket_folders.restore_folder(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    socket_folders.restore_folder(folder)
