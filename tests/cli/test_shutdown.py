"""`nb shutdown` leaves no kernel behind, and other commands that run at the same time are carried out."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import DEADLINE, Nb, hosts, once
from tk_ai_extension.cli.project import HOST_LOCK, KERNELS, LAUNCH_LOCK, OWN_FILES, Project
from tk_ai_extension.cli.project_services import ProjectServices
from tk_ai_extension.model.errors import KernelStartFailed

pytestmark = pytest.mark.proves("nb:starts")

SLOW = """
import sys
open(sys.argv[1]).read()
from ipykernel.kernelapp import IPKernelApp
IPKernelApp.launch_instance(sys.argv[2:])
"""
"""A kernel that starts when its pipe has been written to."""


async def writer_of(pipe: Path) -> int:
    """The pipe, open for writing; once it is read."""
    try:
        return await asyncio.wait_for(asyncio.to_thread(os.open, pipe, os.O_WRONLY), DEADLINE)
    except BaseException:
        os.close(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))  # ends the thread
        raise


def is_locked(file: Path) -> bool:
    with file.open("r+b") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


async def test_what_is_opened_during_a_shutdown_is_opened_after_it(nb: Nb) -> None:
    pipe = nb.root / "a.go"
    os.mkfifo(pipe)
    nb.notebook("a.ipynb", f"import atexit; atexit.register(lambda: open({str(pipe)!r}).read())")
    nb.notebook("b.ipynb")
    await asyncio.to_thread(nb, "open", "a.ipynb")
    await asyncio.to_thread(nb, "exec", "0")
    (before,) = hosts(nb)
    shutdown = await nb.start("shutdown")
    kernel = await writer_of(pipe)
    opening = await nb.start("open", "b.ipynb")
    ended = asyncio.create_task(opening.wait())
    await once(lambda: ended.done() or is_locked(nb.root / ".nb" / LAUNCH_LOCK))
    os.close(kernel)
    out, err = await asyncio.wait_for(shutdown.communicate(), DEADLINE)
    assert (shutdown.returncode, out, err) == (0, b"1 kernel stopped, and the server.\n", b"")
    await asyncio.wait_for(opening.communicate(), DEADLINE)
    assert opening.returncode == 0
    (after,) = hosts(nb)
    assert after.pid != before.pid
    kernels = (await asyncio.to_thread(nb, "ps", "--json")).json["kernels"]
    assert [each["notebooks"] for each in kernels] == [["b.ipynb"]]


def add_slow_kernel(nb: Nb, pipe: Path) -> None:
    spec = Path(nb.environment["JUPYTER_DATA_DIR"], "kernels", "slow", "kernel.json")
    spec.parent.mkdir(parents=True)
    argv = [sys.executable, "-c", SLOW, str(pipe), "-f", "{connection_file}"]
    spec.write_text(json.dumps({"argv": argv, "display_name": "slow", "language": "python"}))


async def test_a_shutdown_stops_a_kernel_that_is_starting_and_the_next_server_starts_it_again(
    nb: Nb,
) -> None:
    pipe = nb.root / "b.go"
    os.mkfifo(pipe)
    add_slow_kernel(nb, pipe)
    nb.notebook("b.ipynb")
    opening = await nb.start("open", "b.ipynb", "--kernel", "slow")
    first = await writer_of(pipe)
    await asyncio.to_thread(nb, "shutdown")
    os.close(first)
    ended = asyncio.create_task(opening.communicate())
    starting = asyncio.create_task(writer_of(pipe))
    await asyncio.wait({ended, starting}, return_when=asyncio.FIRST_COMPLETED, timeout=DEADLINE)
    if ended.done():
        starting.cancel()
    os.close(await starting)
    await asyncio.wait_for(ended, DEADLINE)
    assert opening.returncode == 0
    assert len(hosts(nb)) == 1


async def test_a_server_that_is_stopping_starts_no_kernel(tmp_path: Path) -> None:
    stopped: list[bool] = []
    project = Project(str(tmp_path))
    services = ProjectServices(project, tmp_path, stop_listening=lambda: stopped.append(True))
    assert await services.confinement(None) is None
    services.refuse()
    assert (services.stopping, services.is_done, stopped) == (True, False, [True])
    with pytest.raises(KernelStartFailed):
        await services.confinement(None)


def test_the_lock_of_a_server_is_removed_after_the_lock_of_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(str(tmp_path))
    project.make()
    Path(project.folder, KERNELS).mkdir()
    for name in (HOST_LOCK, LAUNCH_LOCK):
        Path(project.folder, name).touch()
    removed: list[str] = []
    unlink = os.unlink

    def note(path: str) -> None:
        unlink(path)
        removed.append(Path(path).name)

    monkeypatch.setattr(os, "unlink", note)
    project.clean()
    assert removed == [LAUNCH_LOCK, ".gitignore", HOST_LOCK]
    assert len(OWN_FILES) == len(set(OWN_FILES))
    assert not Path(project.folder).exists()
