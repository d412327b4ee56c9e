"""A kernel's interpreter in the project: code in the sandbox has nothing of its own run outside."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from jupyter_client.ioloop.manager import AsyncIOLoopKernelManager
from jupyter_client.ioloop.restarter import AsyncIOLoopKernelRestarter
from jupyter_client.kernelspec import KernelSpec

import tk_ai_extension
from tk_ai_extension.kernels.sandbox.bubblewrap import Bubblewrap
from tk_ai_extension.kernels.sandbox.confinement import Confinement
from tk_ai_extension.kernels.sandbox.detection import probe
from tk_ai_extension.kernels.sandbox.interpreter import resolve_program
from tk_ai_extension.kernels.sandbox.provisioner import SandboxedProvisioner
from tk_ai_extension.kernels.sandbox.view import Sandbox, View
from tk_ai_extension.kernels.socket_folders import make_folder
from tk_ai_extension.model.errors import SandboxUnavailable

pytestmark = pytest.mark.proves("nb:sandbox", "threat:sandbox-escapes")

BASE = Path(sys.base_prefix)
LIBRARY = Path("lib", f"python{sys.version_info.major}.{sys.version_info.minor}", "site-packages")

WAYS = ("rename", "recreate", "link", "fresh")

ATTACK = """
import contextlib, os, sys
way, ancestor, environment, current, canary = sys.argv[1:]

def plant(folder):
    os.makedirs(folder + "/bin", exist_ok=True)
    os.makedirs(folder + "/conda-meta", exist_ok=True)
    with open(folder + "/pyvenv.cfg", "w") as file:
        file.write("home = /\\n")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(folder + "/bin/python")
    with open(folder + "/bin/python", "w") as file:
        file.write("#!/bin/sh\\necho $0 >> " + canary + "\\n")
    os.chmod(folder + "/bin/python", 0o755)

def away(folder):
    with contextlib.suppress(OSError):
        os.rename(folder, folder + "-away")

if way == "fresh":
    plant(ancestor + "/fresh")
    os.unlink(current)
    os.symlink(ancestor + "/fresh", current)
else:
    away(ancestor)
    if way != "rename":
        target = ancestor + "-own" if way == "link" else ancestor
        with contextlib.suppress(OSError):
            plant(target + environment.removeprefix(ancestor))
            if way == "link":
                os.symlink(target, ancestor)
with open(current + "-attacked", "w"):
    pass
"""
"""What a kernel does first: it puts a program of its own in the place of its interpreter."""

CASES = [
    (depth, above, way) for depth in (1, 2, 3) for above in range(1, depth + 1) for way in WAYS
]
"""The depth of the environment in the project, which of its ancestors is changed, and how."""


NAMED = {
    "home": "{outside}",
    "home in bin": "{outside}/bin",
    "home that begins twice": "/{outside}",
    "home by the project": "{outside}/{name}/..",
    "home by another folder": "{outside}/neighbour/..",
    "home by a link": "{outside}/{name}/lib/..",
    "home of a neighbour": "{outside}/neighbour/env/bin",
    "home that cannot be": "{outside}\0",
    "interpreter": "{outside}/neighbour/env/bin/python",
    "folder of the interpreter": "{outside}/neighbour/env",
}
"""Ways in which code in a project can name folders outside."""


@pytest.fixture
def outside() -> Iterator[Path]:
    """A folder outside of all projects, where pytest's temporary folders are not."""
    with TemporaryDirectory(prefix="out-") as folder:
        yield Path(folder)


def make_environment(folder: Path, *, copies: bool = False) -> Path:
    """Makes a virtual environment of this interpreter, as `venv` does; its interpreter's path."""
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    real = Path(sys.executable).resolve()
    if copies:
        shutil.copy(real, python)
    else:
        python.symlink_to(real)
    (folder / "pyvenv.cfg").write_text(f"home = {real.parent}\n", encoding="utf-8")
    (folder / LIBRARY).mkdir(parents=True)
    (folder / LIBRARY / "installed.py").touch()
    return python


def in_sandbox(sandbox: Sandbox, project: Path, argv: Sequence[str]) -> str:
    """What a program prints that is started as a kernel is."""
    folder = make_folder()
    confinement = Confinement(sandbox, project, (), folder)
    file = folder / "kernel.json"
    file.touch()
    try:
        with confinement.command(
            argv, {}, cwd=None, connection_file=file, ends_with_parent=True
        ) as command:
            return subprocess.run(
                command.argv,
                env={**confinement.outside(), **command.environment},
                pass_fds=command.descriptors,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            ).stdout.strip()
    finally:
        confinement.remove()


class Restarted:
    """A kernel that attacks, ends, and is started again.

    It is started by Jupyter's own kernel manager, which does not wait for an answer: no kernel's
    protocol is needed.
    """

    def __init__(self, sandbox: Sandbox, project: Path, argv: Sequence[str], folder: Path) -> None:
        self.confinement = Confinement(sandbox, project, (), make_folder())
        self.manager: Any = AsyncIOLoopKernelManager(
            connection_file=str(folder / "kernel.json"), autorestart=False
        )
        spec = KernelSpec(argv=list(argv), language="python", display_name="attack")
        self.manager._kernel_spec = spec
        self.manager.provisioner = SandboxedProvisioner(
            kernel_id="1", kernel_spec=spec, parent=self.manager, confinement=self.confinement
        )

    async def start(self) -> None:
        await self.manager.start_kernel(cwd=str(self.confinement.project), env=dict(os.environ))
        await self.manager.provisioner.wait()

    async def restart(self, by: str) -> None:
        """Restarts it once, and waits for its end. What was replaced may not be there or not run."""
        with contextlib.suppress(OSError):
            if by == "exit":
                await AsyncIOLoopKernelRestarter(kernel_manager=self.manager).poll()
            else:
                await self.manager.restart_kernel(now=True)
            await self.manager.provisioner.wait()

    async def close(self) -> None:
        await self.manager.shutdown_kernel(now=True)
        self.confinement.remove()


class Case:
    """A project with a virtual environment, and what is to be made of it."""

    def __init__(self, folder: Path, outside: Path, depth: int, above: int, way: str) -> None:
        self.name = f"{way}, {above} above the environment, {depth} deep"
        self.folder = folder / self.name
        self.project = self.folder / "project"
        self.canary = outside / self.name.replace(" ", "-")
        environment = self.project.joinpath(*"abc"[:depth], "env")
        current = self.project / "current"
        python = make_environment(environment)
        current.symlink_to(environment)
        if way == "fresh":
            python = current / "bin" / "python"
        words = (environment.parents[above - 1], environment, current, self.canary)
        self.program = str(python)
        self.arguments = ["-c", ATTACK, way, *map(str, words)]


@pytest.mark.asyncio
@pytest.mark.parametrize("by", ["exit", "request"])
async def test_whatever_the_code_makes_of_its_interpreter_is_not_run_outside(
    sandbox: Sandbox, tmp_path: Path, outside: Path, by: str
) -> None:
    async def attack(case: Case) -> None:
        kernel = Restarted(sandbox, case.project, [case.program, *case.arguments], case.folder)
        try:
            await kernel.start()
            assert (case.project / "current-attacked").exists(), f"{case.name}: it did not start"
            await kernel.restart(by)
        finally:
            await kernel.close()

    cases = [Case(tmp_path, outside, *each) for each in CASES]
    problems = await asyncio.gather(*map(attack, cases), return_exceptions=True)
    assert [case.name for case in cases if case.canary.exists()] == []
    assert [problem for problem in problems if problem is not None] == []


def test_nor_what_was_made_of_it_before_a_start_by_code_that_nothing_kept_from_it(
    sandbox: Sandbox, tmp_path: Path, outside: Path
) -> None:
    def attack(case: Case) -> None:
        subprocess.run([sys.executable, *case.arguments], check=True)
        with contextlib.suppress(FileNotFoundError):
            in_sandbox(sandbox, case.project, [case.program])

    cases = [Case(tmp_path, outside, *each) for each in CASES]
    with ThreadPoolExecutor() as pool:
        attacks = [pool.submit(attack, case) for case in cases]
    assert [case.name for case in cases if case.canary.exists()] == []
    for each in attacks:
        each.result()


@pytest.mark.parametrize("mark", ["pyvenv.cfg", "conda-meta"])
def test_one_that_was_replaced_before_the_start_is_run_inside(
    sandbox: Sandbox, tmp_path: Path, outside: Path, mark: str
) -> None:
    canary = outside / "canary"
    planted = tmp_path / "bin" / "python"
    planted.parent.mkdir()
    (tmp_path / mark).touch()
    planted.write_text(f"#!/bin/sh\necho ran | tee -a {canary}\n", encoding="utf-8")
    planted.chmod(0o755)
    link = outside / "python"
    link.symlink_to(planted)
    for path in (planted, link):
        assert in_sandbox(sandbox, tmp_path, [str(path)]) == "ran"
    assert not canary.exists()


@pytest.mark.parametrize("copies", [False, True], ids=["links", "copies"])
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_an_environment_in_the_project_works_and_stays_as_it_is(
    sandbox: Sandbox, tmp_path: Path, copies: bool, depth: int
) -> None:
    above = tmp_path.joinpath(*"abc"[:depth])
    python = make_environment(above / "env", copies=copies)
    code = """
import installed, os, sys
print(sys.prefix)
for change in (lambda: os.rename(above, above + "-away"), lambda: open(sys.prefix + "/new", "w")):
    try:
        change()
    except OSError as error:
        print(type(error).__name__)
open(above + "/new", "w").close()
"""
    program = [str(python), "-c", f"above = {str(above)!r}\n{code}"]
    expected = f"{above}/env\nOSError\nOSError"
    if sandbox.name == "podman" and depth:
        expected = f"{above}/env\nFileNotFoundError"
    assert in_sandbox(sandbox, tmp_path, program) == expected


def test_modules_of_the_project_are_not_imported_outside(
    sandbox: Sandbox, tmp_path: Path, outside: Path
) -> None:
    project, canary = tmp_path / "project", outside / "canary"
    project.mkdir()
    (project / "sitecustomize.py").write_text(
        f"open({str(canary)!r}, 'w').close()", encoding="utf-8"
    )
    elsewhere = outside / "in-editable-mode"
    elsewhere.mkdir()
    (elsewhere / "edited.py").touch()
    python = make_environment(outside / "env")
    (outside / "env" / LIBRARY / "editable.pth").write_text(
        f"import sys\n{project}\n{elsewhere}\n", encoding="utf-8"
    )
    code = "import edited, sitecustomize; print('inside')"
    assert in_sandbox(sandbox, project, [str(python), "-c", code]) in {"", "inside"}
    assert not canary.exists()
    readable = resolve_program([str(python)], {}, project).readable
    assert set(readable) == {elsewhere, outside / "env", BASE} - {Path("/usr")}


@pytest.mark.parametrize("file", ["home", "package", "link"])
def test_files_of_the_project_show_nothing_of_the_machine_but_installations_of_python(
    tmp_path: Path, outside: Path, file: str
) -> None:
    secret = outside / "bin"
    secret.mkdir()
    for name in ("secret", "python-secret"):
        (secret / name).touch(mode=0o755)
    python = make_environment(tmp_path / "env")
    if file == "home":
        (tmp_path / "env" / "pyvenv.cfg").write_text(f"home = {secret}\n", encoding="utf-8")
    elif file == "package":
        (tmp_path / "env" / LIBRARY / "own.pth").write_text(f"{outside}\n", encoding="utf-8")
    else:
        python.unlink()
        python.symlink_to(secret / "python-secret")
    readable = resolve_program([str(python)], {}, tmp_path).readable
    assert set(readable) <= {BASE}


@pytest.mark.parametrize("name", ["project", "lib", "lib-project", "bin"])
@pytest.mark.parametrize("way", NAMED)
@pytest.mark.parametrize("evidence", ["file", "link"])
def test_whatever_the_code_names_its_neighbours_stay_hidden(
    outside: Path, monkeypatch: pytest.MonkeyPatch, name: str, way: str, evidence: str
) -> None:
    project, neighbour, alias = outside / name, outside / "neighbour", outside / "alias"
    (project / "py").mkdir(parents=True)
    alias.symlink_to(project)
    make_environment(neighbour / "env")
    editable = neighbour / "env" / LIBRARY / "editable.pth"
    editable.write_text(f"{neighbour}\n", encoding="utf-8")
    monkeypatch.setattr("site.getuserbase", lambda: str(outside / "user"))
    (outside / "user" / LIBRARY).mkdir(parents=True)
    shutil.copy(editable, outside / "user" / LIBRARY)

    # What the code does: it makes all around its project look like installations and environments.
    if evidence == "file":
        (project / "py" / "os.py").touch()
    else:
        (project / "py" / "os.py").symlink_to("/etc/passwd")
    (project / "lib").symlink_to(project)
    named = NAMED[way].format(outside=outside, name=name)
    if way == "folder of the interpreter":
        (project / "env").symlink_to(named)
    else:
        python = make_environment(project / "env")
        (project / "env" / "pyvenv.cfg").write_text(
            f"home = {named}\ninclude-system-site-packages = true\n", encoding="utf-8"
        )
        if way == "interpreter":
            python.unlink()
            python.symlink_to(named)

    for start in (project, alias):
        readable = resolve_program([f"{start}/env/bin/python"], {}, project).readable
        shown = [path for path in readable if neighbour.is_relative_to(path.resolve())]
        assert shown == []
        assert neighbour / "env" not in readable
        assert [path for path in readable if path.is_relative_to(alias)] == []


def test_a_pipe_in_place_of_its_settings_does_not_block(tmp_path: Path) -> None:
    python = make_environment(tmp_path / "env")
    (tmp_path / "env" / "pyvenv.cfg").unlink()
    os.mkfifo(tmp_path / "env" / "pyvenv.cfg")
    assert resolve_program([str(python)], {}, tmp_path).argv == (str(python),)


def test_a_link_in_place_of_its_connection_file_is_not_followed(
    tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim, file = outside / "victim", outside / "kernel.json"
    file.touch()
    folder = make_folder()
    confinement = Confinement(Bubblewrap("/usr/bin/bwrap"), tmp_path, (), folder)
    remove = Path.unlink

    def replace(path: Path, missing_ok: bool = False) -> None:
        remove(path, missing_ok)
        path.symlink_to(victim)

    monkeypatch.setattr(Path, "unlink", replace)
    with pytest.raises(FileExistsError):
        confinement.command(
            [sys.executable], {}, cwd=None, connection_file=file, ends_with_parent=True
        )
    monkeypatch.undo()
    confinement.remove()
    assert not victim.exists()


@pytest.mark.parametrize("depth", [1, 2])
def test_a_folder_that_another_kernel_replaces_by_a_link_is_not_mounted(
    tmp_path: Path, outside: Path, depth: int
) -> None:
    project = tmp_path / "project"
    environment = project / "a" / "env"
    environment.mkdir(parents=True)
    view = View(
        folder=project,
        root=tmp_path / "root",
        environment={},
        writable=(project,),
        readable=(environment,),
    )
    replaced = [environment, *environment.parents][depth - 1]
    replaced.rename(tmp_path / "away")
    (outside / "env").mkdir()
    replaced.symlink_to(outside)
    with pytest.raises(OSError, match=r"Not a directory|Too many levels of symbolic links"):
        Bubblewrap("/usr/bin/bwrap").command(["/bin/true"], view, "label")


def test_environments_in_others_stay_read_only() -> None:
    project = Path("/data/project")
    view = View(
        folder=project,
        root=Path("/data/root"),
        environment={},
        writable=(project,),
        readable=(project / "a" / "env", project / "a" / "env" / "b" / "env", Path("/data")),
    )
    writable = {path for path, access in view.mounts() if access == "write"}
    assert writable == {project, project / "a"}


def test_a_project_whose_modules_nb_imports_has_no_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = Path(tk_ai_extension.__file__).parent
    with pytest.raises(SandboxUnavailable, match="nb itself imports modules"):
        Confinement.of(package)
    (tmp_path / "link").symlink_to(package)
    for path in (tmp_path, tmp_path / "not-yet", tmp_path / "link"):
        with monkeypatch.context() as patched:
            patched.setattr(sys, "path", [*sys.path, str(path)])
            with pytest.raises(SandboxUnavailable, match="nb itself imports modules"):
                Confinement.of(tmp_path)


def test_modules_of_nb_in_a_project_are_read_only(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path, str(source)])
    code = f"open({str(source / 'module.py')!r}, 'w')"
    in_sandbox(sandbox, tmp_path, [sys.executable, "-c", code])
    assert list(source.iterdir()) == []


def test_the_sandbox_program_gets_no_variables_that_name_folders_of_the_project(
    tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    seen = outside / "seen"
    for folder in (outside, project):
        for name in ("bwrap", "podman"):
            program = folder / name
            program.write_text(
                f'#!/bin/sh\necho "$0 $PATH $LD_LIBRARY_PATH" >> {seen}; exit 1\n', encoding="utf-8"
            )
            program.chmod(0o755)
    (outside / "links").mkdir()
    (outside / "links" / "podman").symlink_to(project / "podman")
    monkeypatch.chdir(outside)
    folders = ("links", outside / "links", project, outside, "/usr/bin", "/bin")
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, folders)))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(project))
    assert not any(finding.ok for finding in probe(project))
    written = seen.read_text(encoding="utf-8")
    assert str(outside / "bwrap") in written
    assert str(project) not in written
