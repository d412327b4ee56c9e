"""`nb` as a person, a script or an agent calls it: real processes in a separate project."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest

from tk_ai_extension.cli.servers import Server, ToolFailed

DEADLINE = 60
"""Timeout of a command, in seconds."""

NB = (sys.executable, "-m", "tk_ai_extension.cli")


@dataclass
class Ended:
    """A command that has ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, as JSON."""
        return json.loads(self.out)


@dataclass
class Nb:
    """`nb` in one project.

    Attributes:
        root: The project's folder.
        environment: Of every command: Jupyter's folders are the test's own.
    """

    root: Path
    environment: dict[str, str]

    def __call__(
        self,
        *words: str,
        stdin: str | bytes = b"",
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        status: int | None = 0,
    ) -> Ended:
        """Runs a command and waits for its end.

        Args:
            words: What is typed after `nb`.
            stdin: What it reads.
            cwd: Where; the project's folder unless given.
            env: Further variables.
            status: What it must end with; None where any is right.
        """
        run = subprocess.run(
            [*NB, *words],
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            capture_output=True,
            cwd=cwd or self.root,
            env={**self.environment, **(env or {})},
            timeout=DEADLINE,
            check=False,
        )
        ended = Ended(run.returncode, run.stdout.decode(), run.stderr.decode())
        assert status is None or ended.status == status, f"{words}: {ended}"
        return ended

    async def start(self, *words: str, **options: Any) -> asyncio.subprocess.Process:
        """Starts a command and does not wait for it."""
        return await asyncio.create_subprocess_exec(
            *NB,
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self.root,
            env=self.environment,
            **options,
        )

    def notebook(self, name: str, *sources: str) -> Path:
        """Writes a notebook of code cells."""
        cells = [nbformat.v4.new_code_cell(source) for source in sources]
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        notebook = nbformat.v4.new_notebook(
            cells=cells,
            metadata={
                "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}
            },
        )
        nbformat.write(notebook, path)
        return path

    def read(self, name: str) -> Any:
        """A notebook as it is on disk, valid."""
        notebook = nbformat.read(self.root / name, as_version=4)
        nbformat.validate(notebook)
        return notebook

    @property
    def host(self) -> int:
        """The host's process."""
        return self("status", "--json").json["host"]

    def processes(self, *, below: bool = False) -> list[psutil.Process]:
        """The hosts and kernels of this project that run; with ``below`` those of projects in it too."""
        root, mark = str(self.root), f"{self.root}/.nb"
        found: list[psutil.Process] = []
        for process in psutil.process_iter(["cmdline"]):
            line = process.info["cmdline"] or []
            is_host = "tk_ai_extension.server.project_server" in line
            inside = [word for word in line if below and word.startswith(f"{root}/")]
            if (
                any(mark in word for word in line)
                or (is_host and (root in line or inside))
                or any("/.nb/" in word for word in inside)
            ):
                found.append(process)
        return found

    def clear(self) -> None:
        """Stops the kernels and removes the notebooks; the host goes on."""
        for file in Path(self.environment["JUPYTER_RUNTIME_DIR"]).glob("jpserver-*[0-9].json"):
            known = json.loads(file.read_text())
            host = Server(known["url"], known["token"])
            with suppress(ToolFailed):  # A test has killed it.
                for kernel in host.request("GET", "api/kernels"):
                    host.request("DELETE", f"api/kernels/{kernel['id']}")
        for path in self.root.iterdir():
            if not path.is_dir():
                path.unlink()
            elif path.name != ".nb":
                shutil.rmtree(path)

    def end(self) -> None:
        """Ends what still runs of this project."""
        while running := self.processes(below=True):
            # Hosts first: they start kernels again that were killed.
            host = "tk_ai_extension.server.project_server"
            running.sort(key=lambda each: host not in each.info["cmdline"])
            for process in running:
                # Not waited for: the system may take seconds to reap it, and has no command line of it
                # any more.
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGKILL)


def environment_in(home: Path) -> dict[str, str]:
    """An environment with its Jupyter folders below a folder, and the kernelspecs of this one."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("JUPYTER", "ANTHROPIC", "CLAUDE", "NB_"))
    }
    for name in ("data", "runtime", "config"):
        (home / name).mkdir(parents=True)
        environment[f"JUPYTER_{name.upper()}_DIR"] = str(home / name)
    return environment | {"HOME": str(home), "IPYTHONDIR": str(home / "ipython"), "TERM": "dumb"}


@contextmanager
def project_in(folder: Path, environment: dict[str, str] | None = None) -> Generator[Nb]:
    """`nb` in a new project below a folder; what runs of it is ended at the end."""
    root = folder / "project"
    root.mkdir()
    command = Nb(root, environment or environment_in(folder / "home"))
    yield command
    command.end()


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment with the test's Jupyter folders."""
    return environment_in(tmp_path / "home")


@pytest.fixture
def nb(tmp_path: Path, home: dict[str, str]) -> Iterator[Nb]:
    """`nb` in a new project."""
    with project_in(tmp_path, home) as command:
        yield command


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nb]:
    """The project of `shared`. To start a host takes two processor seconds."""
    with project_in(tmp_path_factory.mktemp("shared")) as command:
        yield command


@pytest.fixture
def shared(project: Nb, request: pytest.FixtureRequest) -> Iterator[Nb]:
    """`nb` in a project of all tests of this process: it is empty, and its host may run already.

    Each test is another caller. What the host knows of a notebook, such as its history, it may know from
    another test.
    """
    caller = {"NB_CALLER": request.node.name}
    yield replace(project, environment=project.environment | caller)
    project.clear()


async def once(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not is_so():
            await asyncio.to_thread(os.sched_yield)


def hosts(nb: Nb) -> list[psutil.Process]:
    return [
        each for each in nb.processes() if "tk_ai_extension.server.project_server" in each.cmdline()
    ]
