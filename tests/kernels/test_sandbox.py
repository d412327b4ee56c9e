"""Kernels in a sandbox, for real: with bubblewrap and with podman, where this machine has them."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import venv
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import psutil
import pytest
import pytest_asyncio
from jupyter_client.manager import AsyncKernelManager

from tests.kernels.guests import DEADLINE, connect, run, until
from tests.support.faults import RUN_FOREVER
from tk_ai_extension.kernels.sandbox import sandbox as sandbox_module
from tk_ai_extension.kernels.sandbox.provisioner import confine
from tk_ai_extension.kernels.sandbox.sandbox import Sandbox, find_program, find_sandbox, probe
from tk_ai_extension.kernels.sharing.kernelspec import share_kernel, unshare_kernel
from tk_ai_extension.model.errors import KernelUnsupported

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.proves("nb:sandbox"),
]

NOWHERE = Path("/nowhere")
KEY = "OPENAI_API_KEY"  # the user has exported one

OF_SPEC = {"SERVICE_TOKEN": "of-the-spec\nof two lines", "HTTP_PROXY": "http://nowhere"}
ENVIRONMENTS = ("env/pyvenv.cfg", "pixi/conda-meta")


@dataclass
class Confined:
    """A kernel in a sandbox, and a client of it."""

    manager: Any
    client: Any
    confinement: Sandbox

    @property
    def project(self) -> Path:
        return self.confinement.project

    @property
    def private(self) -> Path:
        return self.manager.provisioner.private

    @property
    def marker(self) -> str:
        """What is in the command lines of its processes alone."""
        return self.private.name

    async def run(self, code: str) -> str:
        """What code prints in it, or the name of its error."""
        return await run(self.client, code)

    async def close(self) -> None:
        self.client.stop_channels()
        await self.manager.shutdown_kernel(now=True)


async def confined(sandbox: Sandbox, project: Path) -> Confined:
    """Starts an ordinary Python kernel in a sandbox."""
    hidden = project / ".nb"
    hidden.mkdir()
    (hidden / "key").write_text("canary", encoding="utf-8")
    (project / "link").symlink_to(hidden)
    for environment in ENVIRONMENTS:
        (project / environment).parent.mkdir(parents=True)
        (project / environment).touch()
    found = find_sandbox(project, hidden=[hidden, project.parent / ".nb"])
    confinement = replace(found, name=sandbox.name, executable=sandbox.executable)
    manager: Any = AsyncKernelManager(connection_file=str(hidden / "kernel-1.json"))
    manager.kernel_spec.env = OF_SPEC
    confine(manager, str(uuid4()), confinement)
    await manager.start_kernel(
        cwd=str(project),
        env=os.environ | {KEY: "canary", "LC_TIME": "C"},
    )
    return Confined(manager, await connect(manager.get_connection_info()), confinement)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kernel(sandbox: Sandbox) -> AsyncIterator[Confined]:
    """A kernel that tests share and do not harm."""
    with TemporaryDirectory() as project:
        kernel = await confined(sandbox, Path(project))
        yield kernel
        await kernel.close()


@pytest_asyncio.fixture(loop_scope="module")
async def harmed(sandbox: Sandbox) -> AsyncIterator[Confined]:
    """A kernel of the test's own."""
    with TemporaryDirectory() as project:
        kernel = await confined(sandbox, Path(project))
        yield kernel
        await kernel.close()


@pytest.fixture
def outside() -> Iterator[Path]:
    """A file of this machine that is not in the project."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "outside")
        file.write_text("canary", encoding="utf-8")
        yield file


async def test_it_has_no_network(kernel: Confined) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = server.getsockname()
        code = f"import socket; socket.create_connection({here}, 5)"
        assert await kernel.run(code) == "ConnectionRefusedError"
    assert await kernel.run("print(len(open('/proc/net/route').readlines()))") in {"0", "1"}


async def test_it_sees_nothing_of_the_home_folder(kernel: Confined, outside: Path) -> None:
    assert await kernel.run(f"open({str(outside)!r})") == "FileNotFoundError"
    home = Path.home()
    # Only files of the interpreter may be there.
    parts = {
        path.relative_to(home).parts[0]
        for path in map(Path, (sys.prefix, sys.base_prefix, *sys.path))
        if path.is_relative_to(home)
    }
    code = (
        f"import os; print(*(os.listdir({str(home)!r}) if os.path.exists({str(home)!r}) else []))"
    )
    assert set((await kernel.run(code)).split()) <= parts


@pytest.mark.parametrize("path", ["/outside", "/usr/outside", "/etc/outside", f"{sys.prefix}/x"])
async def test_writing_outside_of_the_project_fails(kernel: Confined, path: str) -> None:
    assert await kernel.run(f"open({path!r}, 'w')") in {"OSError", "PermissionError"}


async def test_the_project_is_its_own(kernel: Confined) -> None:
    (kernel.project / "data.csv").write_text("1,2", encoding="utf-8")
    code = "print(open('data.csv').read()); open('result.txt', 'w').write('done').__class__"
    assert await kernel.run(code) == "1,2"
    assert (kernel.project / "result.txt").read_text(encoding="utf-8") == "done"


async def test_it_does_not_see_the_keys_and_sockets_of_the_host(kernel: Confined) -> None:
    assert (kernel.project / ".nb" / "kernel-1.json").exists()
    assert await kernel.run("import os; print(os.listdir('.nb'), os.listdir('link'))") == "[] []"


@pytest.mark.parametrize("folder", ["env", "pixi"])
async def test_it_does_not_write_programs_that_are_run_outside(
    kernel: Confined, folder: str
) -> None:
    assert await kernel.run(f"open('{folder}/python', 'w')") == "OSError"
    assert await kernel.run(f"import os; os.rename('{folder}', 'away')") == "OSError"


@pytest.mark.proves("threat:secrets")
async def test_its_environment_is_a_short_list_without_keys(kernel: Confined) -> None:
    environ = await kernel.run("import os; print(*os.environ.items(), sep='\\n')")
    assert "('LC_TIME', 'C')" in environ
    assert KEY not in environ
    assert "canary" not in environ
    assert "('HOME', '/tmp')" in environ


@pytest.mark.proves("threat:secrets")
async def test_variables_of_its_kernelspec_are_set_and_hidden_from_other_processes(
    kernel: Confined,
) -> None:
    assert (
        await kernel.run(f"import os; print(dict(os.environ).items() >= {OF_SPEC}.items())")
        == "True"
    )
    assert _processes_with(kernel.marker)
    assert _processes_with("of-the-spec") == []


async def test_tracing_its_first_process_leaves_nothing_behind(harmed: Confined) -> None:
    # podman may refuse it.
    marker = harmed.marker
    await harmed.run("import ctypes; ctypes.CDLL(None).ptrace(16, 1, None, None)")
    await harmed.manager.shutdown_kernel()
    assert _processes_with(marker) == []


async def test_an_interrupt_reaches_it(harmed: Confined) -> None:
    listener = await connect(harmed.manager.get_connection_info())
    running = asyncio.ensure_future(harmed.run(RUN_FOREVER))
    await until(listener, "running")
    await harmed.manager.interrupt_kernel()
    assert "KeyboardInterrupt" in await running
    assert await harmed.run("print('goes on')") == "goes on"
    listener.stop_channels()


async def test_a_restart_does_not_leave_the_sandbox(harmed: Confined, outside: Path) -> None:
    await harmed.run("X = 1")
    await harmed.manager.restart_kernel(now=True)
    harmed.client.stop_channels()
    harmed.client = await connect(harmed.manager.get_connection_info())
    assert await harmed.run("print('X' in globals())") == "False"
    assert await harmed.run(f"open({str(outside)!r})") == "FileNotFoundError"


async def test_a_killed_kernel_leaves_nothing(harmed: Confined) -> None:
    marker, folder = harmed.marker, harmed.private
    assert _processes_with(marker)
    await harmed.manager.shutdown_kernel(now=True)
    async with asyncio.timeout(DEADLINE):
        await asyncio.to_thread(psutil.wait_procs, _processes_with(marker), DEADLINE)
    assert _processes_with(marker) == []
    assert not folder.exists()


@pytest.mark.proves("nb:serve")
async def test_it_is_shared_like_any_kernel(
    kernel: Confined, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    installed = share_kernel(kernel.project / ".nb", Path(kernel.manager.connection_file))
    guest: Any = AsyncKernelManager(
        kernel_name=installed["kernelspec"],
        connection_file=str(tmp_path / "guest.json"),
    )
    await kernel.run("X = 42")
    await guest.start_kernel()
    client = await connect(guest.get_connection_info())
    assert await run(client, "print(X)") == "42"
    client.stop_channels()
    await guest.shutdown_kernel()
    assert await kernel.run("print(X)") == "42"
    unshare_kernel(kernel.project / ".nb")


def _processes_with(marker: str) -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(marker in part for part in process.info["cmdline"] or ())
    ]


class TestWithoutASandbox:
    """If no sandbox works, nothing runs: tested on every machine."""

    @pytest.fixture(autouse=True)
    def programs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir()
        monkeypatch.setenv("PATH", str(folder))
        return folder

    async def test_it_is_refused_with_what_to_do(self, tmp_path: Path) -> None:
        with pytest.raises(KernelUnsupported, match="It is not installed") as refused:
            find_sandbox(tmp_path)
        assert "Install bubblewrap or podman" in refused.value.hint

    async def test_one_that_is_in_the_project_is_not_run(
        self, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(programs)
        monkeypatch.setenv("PATH", f"{programs}{os.pathsep}.{os.pathsep}")
        for name in ("bwrap", "podman"):
            _program(programs / name, "touch ran")
        with pytest.raises(KernelUnsupported, match="It is not installed"):
            find_sandbox(tmp_path)
        assert not any(finding.sandbox for finding in probe(tmp_path))
        assert not (programs / "ran").exists()

    async def test_a_sandbox_that_fails_is_not_used_and_its_message_is_reported(
        self, programs: Path
    ) -> None:
        _program(programs / "bwrap", "echo 'No permissions to create a new namespace' >&2; exit 1")
        assert next(probe(NOWHERE)).detail == (
            f"It does not work here: {programs}/bwrap: No permissions to create a new namespace."
        )

    @pytest.mark.parametrize(
        ("name", "until_program"), [("bwrap", '[ "$1" != -- ]'), ("podman", '[ "$1" != --rootfs ]')]
    )
    async def test_one_that_hides_nothing_is_found_out(
        self, programs: Path, name: str, until_program: str
    ) -> None:
        skip = "shift 2" if name == "podman" else "shift"
        _program(programs / name, f'while {until_program}; do shift; done; {skip}; exec "$@"')
        finding = list(probe(NOWHERE))[0 if name == "bwrap" else 1]
        assert not finding.sandbox
        assert "it can see files outside the project" in finding.detail


def _program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


async def test_a_project_that_holds_the_home_folder_is_refused() -> None:
    for project in (Path.home(), Path.home().parent):
        with pytest.raises(KernelUnsupported, match="your whole home folder"):
            find_sandbox(project)


@pytest.mark.parametrize("place", ["venv outside", "venv in the project", "system"])
async def test_an_interpreter_works_and_shows_nothing_but_itself(
    sandbox: Sandbox, place: str, tmp_path: Path
) -> None:
    project, out = tmp_path / "project", tmp_path / "out"
    for folder in (project, out):
        folder.mkdir()
    (out / "secret").write_text("canary")
    python = shutil.which("python3", path="/usr/bin:/bin") or ""
    prefix = None
    if place != "system":
        made = (project if "project" in place else out) / "venv"
        venv.create(made, symlinks=True, with_pip=False)
        prefix, python = str(made), str(made / "bin" / "python")
    elif not python:
        pytest.skip("this machine has no system Python")
    code = f"import os, json, sys; print(os.path.exists({str(out / 'secret')!r}), sys.prefix)"
    private = tmp_path / "nb-private"
    private.mkdir()
    started = replace(sandbox, project=project).command(
        [python, "-c", code], private, folder=project, environment={}
    )
    with started as (command, descriptors):
        ran = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, pass_fds=descriptors, check=False
        )
    assert ran.stdout.split()[:1] == [b"False"], ran.stderr.decode()
    assert prefix in (None, ran.stdout.decode().split()[1])


async def test_files_of_the_project_show_nothing_of_the_machine(tmp_path: Path) -> None:
    project, secret = tmp_path / "project", tmp_path / "secret"
    (secret / "bin").mkdir(parents=True)
    python = secret / "bin" / "python"
    python.write_text("")
    python.chmod(0o755)
    binaries = project / "env" / "bin"
    binaries.mkdir(parents=True)
    (project / "env" / "pyvenv.cfg").write_text(f"home = {secret / 'bin'}\n")
    (binaries / "python").symlink_to(python)
    own = find_program([sys.executable], os.environ, project)[1]
    assert set(find_program([str(binaries / "python")], os.environ, project)[1]) <= set(own)
    (project / "away").symlink_to(secret)
    (project / "away" / "pyvenv.cfg").write_text("")
    away = str(project / "away" / "bin" / "python")
    assert set(find_program([away], os.environ, project)[1]) <= set(own)


async def test_a_folder_that_is_replaced_by_a_link_is_not_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, private = tmp_path / "project", tmp_path / "private"
    for folder in (project, private):
        folder.mkdir()
    (project / "env").symlink_to(tmp_path)
    monkeypatch.setattr(sandbox_module, "fixed_folders", lambda project: (project / "env",))
    sandbox = Sandbox("bubblewrap", "bwrap", project)
    started = sandbox.command([sys.executable], private, folder=project, environment={})
    with pytest.raises(OSError, match="env"), started:
        pass


async def test_a_project_with_modules_that_nb_imports_has_no_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KernelUnsupported, match="nb itself imports modules"):
        find_sandbox(tmp_path)
