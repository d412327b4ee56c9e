"""A kernel with an owner, shared with guests."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import pytest_asyncio
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager

from tests.kernels.guests import DEADLINE, connect, write_connection
from tk_ai_extension.kernels.sharing.kernelspec import (
    LINK,
    share_kernel,
)


@dataclass
class Owner:
    """The owner that started the kernel, as a project's server does."""

    folder: Path
    """The project's ``.nb``."""
    manager: Any
    clients: list[Any] = field(default_factory=list)

    @property
    def link(self) -> Path:
        return self.folder / LINK

    def share(self) -> dict[str, str]:
        return share_kernel(self.folder, Path(self.manager.connection_file))

    def withdraw(self) -> None:
        self.link.unlink()

    @property
    def log(self) -> str:
        return (self.folder / "relay.log").read_text(encoding="utf-8")

    async def client(self) -> Any:
        """A client of the owner's own."""
        self.clients.append(await connect(self.manager.get_connection_info()))
        return self.clients[-1]

    async def close(self) -> None:
        for client in self.clients:
            client.stop_channels()
        if self.manager.has_kernel:
            await self.manager.shutdown_kernel(now=True)


async def start_kernel(folder: Path, name: str, transport: str = "tcp") -> Any:
    """Starts an ordinary kernel with its connection file in the project's folder."""
    path = str(folder / f"kernel-{name}.json")
    manager = AsyncKernelManager(kernel_name="python3", connection_file=path, transport=transport)
    await manager.start_kernel()
    return manager


@pytest.fixture
def folder() -> Iterator[Path]:
    """A project's ``.nb``; not in pytest's folder: the path of an IPC socket has to be short."""
    with TemporaryDirectory() as project:
        folder = Path(project, ".nb")
        folder.mkdir()
        yield folder


@pytest_asyncio.fixture(params=["tcp"])
async def owner(request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[Owner]:
    owner = Owner(folder, await start_kernel(folder, "one", request.param))
    try:
        yield owner
    finally:
        await owner.close()


@dataclass
class Relayed:
    """A relay's process, launched as VS Code does: by argv, with a separate connection file."""

    process: subprocess.Popen[bytes]
    info: dict[str, Any]
    clients: list[Any] = field(default_factory=list)

    async def client(self, *, stdin: bool = True) -> Any:
        self.clients.append(await connect(self.info, stdin=stdin))
        return self.clients[-1]

    async def ended(self) -> int:
        """The exit status, once it has ended."""
        return await asyncio.wait_for(asyncio.to_thread(self.process.wait), DEADLINE)

    def close(self) -> None:
        for client in self.clients:
            client.stop_channels()
        self.process.kill()
        self.process.communicate()


Launch = Callable[..., Relayed]


@pytest.fixture
def launch(owner: Owner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Launch]:
    """Launches a relay to the owner's kernel."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    launched: list[Relayed] = []

    def start(*arguments: str, cwd: Path = tmp_path, by: Sequence[str] = ()) -> Relayed:
        argv = KernelSpecManager().get_kernel_spec(owner.share()["kernelspec"]).argv
        file = tmp_path / f"kernel-v3{len(launched)}.json"
        info = write_connection(file)
        argv = [str(file) if part == "{connection_file}" else part for part in argv]
        pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        process: Any = subprocess.Popen([*by, *argv, *arguments], cwd=cwd, **pipes)
        launched.append(Relayed(process, info))
        return launched[-1]

    yield start
    for relayed in launched:
        relayed.close()
