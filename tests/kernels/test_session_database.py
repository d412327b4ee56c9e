"""A notebook has one kernel, also while the database of the sessions cannot be written."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest
from jupyter_server.services.contents.filemanager import AsyncFileContentsManager
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from jupyter_server.services.sessions.sessionmanager import SessionManager

from tk_ai_extension.kernels.sessions import JupyterSessions
from tk_ai_extension.model.errors import SaveFailed

NAMES = ("a.ipynb", "b.ipynb")


def other(path: str) -> str:
    return NAMES[path == NAMES[0]]


class NamesOfKernels(AsyncMappingKernelManager):
    """Kernels without processes: these tests start hundreds."""

    async def start_kernel(self, **_: Any) -> str:  # type: ignore[override]
        kernel_id = str(uuid4())
        self._kernels[kernel_id] = cast("Any", None)
        return kernel_id

    def kernel_model(self, kernel_id: str) -> dict[str, Any]:
        return {"id": kernel_id}

    def update_env(self, **_: Any) -> None:
        pass


class Clients:
    """An agent and a person's pages at the same notebooks, over one database."""

    def __init__(self, folder: Path) -> None:
        self.kernels = NamesOfKernels()
        self.database: Any = SessionManager(
            kernel_manager=self.kernels,
            contents_manager=AsyncFileContentsManager(root_dir=str(folder)),
            database_filepath=str(folder / "sessions.sqlite"),
        )
        self.sessions = JupyterSessions(self.database)

    def set_writable(self, is_writable: bool) -> None:
        """Refuse changes, as a full disk does, or accept them."""
        self.database.cursor.execute(f"PRAGMA query_only = {'OFF' if is_writable else 'ON'}")

    async def run(self, path: str) -> str:
        """An agent runs a cell; return the kernel (`Workspace.kernel_for`)."""
        async with self.sessions.lock(path):
            present = await self.sessions.kernel_of(path)
            return present or await self.sessions.bind(path, await self.kernels.start_kernel())

    async def choose(self, path: str) -> str:
        """An agent chooses another kernel."""
        async with self.sessions.lock(path):
            started = await self.kernels.start_kernel()
            return await self.sessions.bind(path, started, replace=True)

    async def open(self, path: str) -> str:
        """A page opens the notebook; return its kernel (`SessionRootHandler.post`)."""
        if await self.database.session_exists(path=path):
            session = await self.database.get_session(path=path)
        else:
            session = await self.database.create_session(path=path, name=path, type="notebook")
        return session["kernel"]["id"]

    async def pick(self, path: str) -> str:
        """A person picks another kernel in the page (`SessionHandler.patch`)."""
        await self.open(path)
        session = await self.database.get_session(path=path)
        kernel_id = await self.kernels.start_kernel()
        await self.database.update_session(session["id"], kernel_id=kernel_id)
        return kernel_id

    async def rename(self, path: str) -> None:
        """Rename one notebook to the other, which is deleted, with its session."""
        old, new = path, other(path)
        await self.shut_down(new)
        self.sessions.renamed(old, new)
        for session in await self.database.list_sessions():
            if session["path"] == old:
                await self.database.update_session(session["id"], path=new)

    async def shut_down(self, path: str) -> None:
        kernel_id = await self.sessions.kernel_of(path)
        if kernel_id is not None:
            self.kernels.remove_kernel(kernel_id)


class Expectation:
    """What both must find: for each notebook the kernel that was started or chosen last."""

    def __init__(self, clients: Clients) -> None:
        self.clients = clients
        self.is_writable = True
        self.kernels: dict[str, str] = {}

    def fill_or_free_the_disk(self) -> None:
        self.is_writable = not self.is_writable
        self.clients.set_writable(self.is_writable)

    async def act(self, action: str, path: str) -> None:
        if action == "stop":
            await self.clients.shut_down(path)
            self.kernels.pop(path, None)
        elif action == "rename":
            await self.rename(path)
        elif action != "pick" or self.is_writable:
            await self.use(action, path)

    async def rename(self, path: str) -> None:
        if self.is_writable:
            await self.clients.rename(path)
            moved, free = self.kernels.pop(path, None), other(path)
            self.kernels.pop(free, None)
            if moved is not None:
                self.kernels[free] = moved

    async def use(self, action: str, path: str) -> None:
        before, started = self.kernels.get(path), set(self.clients.kernels.list_kernel_ids())
        try:
            found = await getattr(self.clients, action)(path)
        except (SaveFailed, sqlite3.Error):
            assert not self.is_writable
            new = set(self.clients.kernels.list_kernel_ids()) - started
            found = await self.clients.sessions.kernel_of(path)
            assert found in {before, *new}
        if action in ("run", "open"):
            assert before in (None, found)
        if found is not None:
            self.kernels[path] = found

    async def check(self) -> None:
        for path in NAMES:
            found = await self.clients.sessions.kernel_of(path)
            assert found == self.kernels.get(path)
            if found is not None:
                assert await self.clients.sessions.paths_of(found) == [path]


@pytest.mark.proves("fault:disk-full", "kernel:shared-live", "kernel:session")
@pytest.mark.parametrize("seed", range(20))
async def test_an_agent_and_a_page_have_one_kernel_however_often_the_disk_was_full(
    tmp_path: Path, seed: int
) -> None:
    choices = random.Random(seed)
    clients = Clients(tmp_path)
    expected = Expectation(clients)
    actions = ("run", "open", "choose", "pick", "rename", "stop")
    for _ in range(40):
        if choices.random() < 0.4:
            expected.fill_or_free_the_disk()
        (action,) = choices.choices(actions, (2, 2, 1, 1, 1, 1))
        await expected.act(action, choices.choice(NAMES))
        await expected.check()
    clients.set_writable(True)
    for path, kernel_id in expected.kernels.items():
        assert await clients.open(path) == kernel_id
    assert not clients.sessions._unsaved


def close(database: Any, _file: Path) -> None:
    database.close()
    database.connection.close()


def overwrite(database: Any, file: Path) -> None:
    close(database, file)
    database._connection = None
    file.write_bytes(b"SQLite format 3\0" + bytes(4_000))


@pytest.mark.proves("doc:errors")
@pytest.mark.parametrize("harm", [close, overwrite])
async def test_any_error_of_the_database_is_typed(
    tmp_path: Path, harm: Callable[[Any, Path], None]
) -> None:
    clients = Clients(tmp_path)
    kernel_id = await clients.run("a.ipynb")
    harm(clients.database, tmp_path / "sessions.sqlite")
    sessions = clients.sessions
    for call in (
        sessions.kernel_of("a.ipynb"),
        sessions.paths_of(kernel_id),
        sessions.bind("a.ipynb", kernel_id),
        clients.database.create_session(path="b.ipynb", name="b.ipynb", type="notebook"),
    ):
        with pytest.raises(SaveFailed):
            await call
