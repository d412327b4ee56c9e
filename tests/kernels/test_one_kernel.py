"""A notebook has one session and one kernel, whoever asks for it first and in whatever order."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest
from jupyter_server.services.contents.filemanager import AsyncFileContentsManager
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from jupyter_server.services.sessions.sessionmanager import SessionManager

from tk_ai_extension.kernels.sessions import Sessions
from tk_ai_extension.notebooks.notebook import Notebooks

PATHS = ("a.ipynb", "folder/b.ipynb")


class NamesOfKernels(AsyncMappingKernelManager):
    """Kernels without processes, which take a moment to start."""

    async def start_kernel(self, **_: Any) -> str:  # type: ignore[override]
        for _turn in range(random.randrange(5)):
            await asyncio.sleep(0)
        kernel_id = str(uuid4())
        self._kernels[kernel_id] = cast("Any", None)
        return kernel_id

    def kernel_model(self, kernel_id: str) -> dict[str, Any]:
        return {"id": kernel_id}

    def update_env(self, **_: Any) -> None:
        pass


class Tab:
    """A tab of JupyterLab, which talks to the sessions as its `SessionContext` does."""

    def __init__(self, database: Any) -> None:
        self.database = database
        self.session: str | None = None

    async def open(self, path: str) -> None:
        """Join the notebook's session, else start one under a UUID and rename it."""
        for each in await self.database.list_sessions():
            if each["path"] == path:
                self.session = each["id"]
                return
        await self.start(path)

    async def start(self, path: str) -> None:
        requested = str(Path(path).with_name(str(uuid4())))
        name = Path(path).name
        assert not await self.database.session_exists(path=requested)
        model = await self.database.create_session(path=requested, name=name, type="notebook")
        assert model["path"] == requested, "JupyterLab would shut this session down"
        await asyncio.sleep(0)
        await self.database.update_session(model["id"], path=path)
        self.session = model["id"]

    async def kernel(self) -> str:
        return (await self.database.get_session(session_id=self.session))["kernel"]["id"]


class Server:
    """The sessions of a server, and an agent in its notebooks."""

    def __init__(self, folder: Path) -> None:
        self.kernels = NamesOfKernels()
        self.database: Any = SessionManager(
            kernel_manager=self.kernels,
            contents_manager=AsyncFileContentsManager(root_dir=str(folder)),
        )
        self.notebooks = Notebooks()
        self.sessions = Sessions(self.database, lambda path: self.notebooks.at(path).starting)

    async def run(self, path: str) -> str:
        """An agent runs a cell; return the kernel (`Workspace.kernel_for`)."""
        async with self.notebooks.at(path).starting:
            present = await self.sessions.kernel_of(path)
            return present or await self.sessions.bind(path, await self.kernels.start_kernel())

    async def shut_down(self, path: str) -> None:
        kernel_id = await self.sessions.kernel_of(path)
        if kernel_id is not None:
            self.kernels.remove_kernel(kernel_id)

    async def check(self) -> None:
        paths = [each["path"] for each in await self.database.list_sessions()]
        assert len(paths) == len(set(paths)), paths


@pytest.mark.proves("kernel:shared-live", "kernel:session")
@pytest.mark.parametrize("seed", range(30))
async def test_tabs_and_agents_share_one_kernel_in_any_order(seed: int, tmp_path: Path) -> None:
    random.seed(seed)
    server = Server(tmp_path)
    for _ in range(6):
        tabs = [Tab(server.database) for _ in range(3)]
        path = random.choice(PATHS)
        calls: list[Any] = [server.run(path), server.run(path)]
        calls += [random.choice((each.open, each.start))(path) for each in tabs]
        random.shuffle(calls)
        results = await asyncio.gather(*calls)
        kernels = {each for each in results if each} | {await each.kernel() for each in tabs}
        assert len(kernels) == 1
        await server.check()
        if random.random() < 0.5:
            await server.shut_down(path)
