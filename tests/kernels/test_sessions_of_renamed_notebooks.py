"""A kernel stays its notebook's in whatever order notebooks are renamed, made, deleted and used."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from jupyter_server.services.contents.filemanager import AsyncFileContentsManager
from jupyter_server.services.sessions.sessionmanager import SessionManager

from tests.harness import loop_turns
from tests.kernels.test_session_database import Clients, NamesOfKernels
from tk_ai_extension.kernels.sessions import JupyterSessions
from tk_ai_extension.model.errors import SaveFailed
from tk_ai_extension.model.paths import moved
from tk_ai_extension.server.path_events import PathEvents
from tk_ai_extension.workspace.notebook_manager import NotebookManager
from tk_ai_extension.workspace.notices import Notices
from tk_ai_extension.workspace.workspace import Workspace

pytestmark = pytest.mark.proves("kernel:shared-live", "kernel:session")


@dataclass(eq=False)
class Opened:
    """A notebook whose path follows renames, as a `NotebookDocument`'s does."""

    path: str

    async def read(self) -> Any:
        return SimpleNamespace(kernel_name="python3")


class SlowStarts(NamesOfKernels):
    """Kernels without processes, whose starts let others go first."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.random = random

    async def start_kernel(self, **fields: Any) -> str:
        await loop_turns(self.random.choice((0, 30, 150)))
        return await super().start_kernel(**fields)

    # `Kernels`, as far as a workspace uses it to find a notebook's kernel

    async def start(self, _name: str | None, *, path: str) -> str:
        return await self.start_kernel(path=path)

    def ids(self) -> list[str]:
        return self.list_kernel_ids()

    async def shutdown(self, kernel_id: str) -> None:
        self.remove_kernel(kernel_id)


class Folder:
    """Notebooks of a contents manager, with their sessions, and those who use them."""

    def __init__(self, root: Path, random: Random) -> None:
        self.random = random
        self.kernels = SlowStarts(random)
        self.contents = AsyncFileContentsManager(root_dir=str(root))
        self.database: Any = SessionManager(
            kernel_manager=self.kernels, contents_manager=self.contents
        )
        self.sessions = JupyterSessions(self.database)
        self.workspace = cast("Any", SimpleNamespace)(
            sessions=self.sessions,
            kernels=self.kernels,
            notebooks=NotebookManager(),
            notices=Notices(),
            kernel_of=lambda path: Workspace.kernel_of(self.workspace, path),
            _bind_started=lambda *of: Workspace._bind_started(self.workspace, *of),
            _starting=set(),
        )
        self.events = PathEvents(self.contents.event_logger, self._on_renamed, self._on_deleted)
        self.notebooks: list[Opened] = []
        self.kernel: dict[Opened, str] = {}
        self.working: dict[Opened, set[asyncio.Task[None]]] = {}

    async def _on_renamed(self, old: str, new: str) -> None:
        for each in self.notebooks:
            each.path = moved(each.path, old, new) or each.path
        self.sessions.renamed(old, new)

    async def _on_deleted(self, path: str) -> None:
        self.sessions.deleted(path)

    def begin(self, notebook: Opened, work: Coroutine[Any, Any, None]) -> None:
        self.working.setdefault(notebook, set()).add(asyncio.create_task(work))

    async def settle(self, notebook: Opened) -> None:
        for task in self.working.pop(notebook, set()):
            await task

    def note(self, notebook: Opened, kernel_id: str) -> None:
        assert self.kernel.setdefault(notebook, kernel_id) == kernel_id
        assert [each for each, kernel in self.kernel.items() if kernel == kernel_id] == [notebook]

    # -- what happens

    def free(self) -> list[str]:
        names = {f"{folder}{name}.ipynb" for folder in ("", "d/", "e/") for name in "ab"}
        return sorted(names - {each.path for each in self.notebooks})

    async def create(self) -> None:
        path = self.random.choice(self.free())
        directory = path.rpartition("/")[0]
        if directory and not await self.contents.dir_exists(directory):
            await self.contents.save({"type": "directory"}, directory)
        content = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        await self.contents.save({"type": "notebook", "content": content}, path)
        self.notebooks.append(Opened(path))

    async def rename(self) -> None:
        """Rename a notebook; a client that has it open updates the session, or none does."""
        notebook = self.random.choice(self.notebooks)
        new = self.random.choice(self.free())
        if not await self.contents.dir_exists(new.rpartition("/")[0]):
            return
        old = notebook.path
        sessions = [s for s in await self.database.list_sessions() if s["path"] == old]
        await self.contents.rename(old, new)
        if self.random.random() < 0.6:
            for session in sessions:
                self.begin(notebook, self._patch(session["id"], new))
        # Clients have sent theirs before the next rename.
        await loop_turns(10)

    async def _patch(self, session_id: str, path: str) -> None:
        await loop_turns(self.random.randrange(5))
        await self.database.update_session(session_id, path=path)
        await loop_turns(self.random.randrange(3))
        await self.database.update_session(session_id, name=path.rpartition("/")[2])

    async def rename_folder(self) -> None:
        for old, new in (("d", "e"), ("e", "d")):
            if await self.contents.dir_exists(old) and not await self.contents.dir_exists(new):
                await self.contents.rename(old, new)
                await loop_turns(1)
                return

    async def delete(self) -> None:
        notebook = self.random.choice(self.notebooks)
        await self.settle(notebook)
        await self.contents.delete(notebook.path)
        await loop_turns(1)
        self.notebooks.remove(notebook)

    async def run(self) -> None:
        """An agent runs a cell."""

        async def work() -> None:
            kernel_id, _ = await Workspace.kernel_for(self.workspace, cast("Any", notebook))
            self.note(notebook, kernel_id)

        notebook = self.random.choice(self.notebooks)
        self.begin(notebook, work())

    async def open(self) -> None:
        """A page opens the notebook (`SessionRootHandler.post`)."""

        async def work() -> None:
            path = notebook.path
            if await self.database.session_exists(path=path):
                session = await self.database.get_session(path=path)
            else:
                name = path.rpartition("/")[2]
                session = await self.database.create_session(path=path, name=name, type="notebook")
            self.note(notebook, session["kernel"]["id"])

        notebook = self.random.choice(self.notebooks)
        self.begin(notebook, work())

    async def check(self) -> None:
        """Each notebook has the kernel that was started for it, and one session with its names."""
        for notebook in self.notebooks:
            await self.settle(notebook)
        for notebook in self.notebooks:
            assert await self.sessions.kernel_of(notebook.path) == self.kernel.get(notebook)
        found = {
            session["path"]: (session["kernel"]["id"], session["name"])
            for session in await self.database.list_sessions()
        }
        assert found == {
            each.path: (self.kernel[each], each.path.rpartition("/")[2])
            for each in self.notebooks
            if each in self.kernel
        }
        # Those of deleted notebooks run on.
        assert sorted(self.kernels.list_kernel_ids()) == sorted(self.kernel.values())


@pytest.mark.parametrize("seed", range(12))
async def test_each_notebook_keeps_its_kernel_in_any_order(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    folder = Folder(tmp_path, random)
    await folder.create()
    for _ in range(40):
        actions = [folder.run, folder.open, folder.run, folder.open, folder.rename_folder]
        if len(folder.notebooks) < 4:
            actions += [folder.create] * 3
        actions += [folder.rename] * 4
        if len(folder.notebooks) > 1:
            actions.append(folder.delete)
        await random.choice(actions)()
        await loop_turns(random.choice((0, 0, 1, 5)))
    await folder.check()


async def names(clients: Clients) -> list[tuple[str, str, str]]:
    sessions = await clients.database.list_sessions()
    return [(each["type"], each["path"], each["name"]) for each in sessions]


async def test_sessions_of_any_type_follow_with_their_drive_and_their_own_name(
    tmp_path: Path,
) -> None:
    clients = Clients(tmp_path)
    for path, name, kind in (
        ("RTC:d/a.ipynb", "a.ipynb", "notebook"),
        ("d/a.ipynb", "Console 1", "console"),
        ("d/b.ipynb", "", "notebook"),
        ("da.ipynb", "da.ipynb", "notebook"),
        ("Other:d/a.ipynb", "a.ipynb", "notebook"),
    ):
        await clients.database.create_session(path=path, name=name, type=kind)
    before = [each["id"] for each in await clients.database.list_sessions()]
    for _ in range(2):  # as if a client had sent the same
        clients.sessions.renamed("d", "e")
    clients.sessions.renamed("e/a.ipynb", "c.ipynb")
    assert await names(clients) == [
        ("notebook", "RTC:c.ipynb", "c.ipynb"),
        ("console", "c.ipynb", "Console 1"),
        ("notebook", "e/b.ipynb", ""),
        ("notebook", "da.ipynb", "da.ipynb"),
        ("notebook", "Other:d/a.ipynb", "a.ipynb"),
    ]
    assert [each["id"] for each in await clients.database.list_sessions()] == before


async def test_a_renamed_notebook_does_not_join_the_kernel_of_one_that_is_gone(
    tmp_path: Path,
) -> None:
    clients = Clients(tmp_path)
    gone, kernel_id = await clients.open("b.ipynb"), await clients.open("a.ipynb")
    clients.sessions.renamed("a.ipynb", "b.ipynb")
    assert await clients.open("b.ipynb") == await clients.run("b.ipynb") == kernel_id
    assert gone in clients.kernels


async def test_a_deleted_folders_notebooks_leave_their_kernels_and_its_consoles_stay(
    tmp_path: Path,
) -> None:
    clients = Clients(tmp_path)
    left = await clients.open("d/a.ipynb")
    await clients.database.create_session(path="d/console-1", name="Console 1", type="console")
    clients.set_writable(False)
    with pytest.raises(SaveFailed):
        await clients.run("d/b.ipynb")
    clients.set_writable(True)
    clients.sessions.deleted("d")
    assert await names(clients) == [("console", "d/console-1", "Console 1")]
    assert await clients.sessions.kernel_of("d/b.ipynb") is None
    assert await clients.run("d/a.ipynb") != left
    assert left in clients.kernels


@pytest.mark.proves("fault:disk-full")
async def test_renames_and_deletions_count_while_the_disk_is_full_and_are_stored_later(
    tmp_path: Path,
) -> None:
    clients = Clients(tmp_path)
    kernel_id, _ = await clients.open("a.ipynb"), await clients.open("b.ipynb")
    clients.set_writable(False)
    clients.sessions.deleted("b.ipynb")
    clients.sessions.renamed("a.ipynb", "c.ipynb")
    clients.sessions.renamed("c.ipynb", "b.ipynb")
    assert await clients.sessions.paths_of(kernel_id) == ["b.ipynb"]
    assert await clients.sessions.kernel_of("a.ipynb") is None
    clients.set_writable(True)
    assert await clients.sessions.kernel_of("b.ipynb") == kernel_id
    assert await names(clients) == [("notebook", "b.ipynb", "b.ipynb")]


async def test_a_database_that_cannot_be_read_does_not_stop_others_from_following(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clients = Clients(tmp_path)
    await clients.open("a.ipynb")
    clients.database.close()
    clients.database.connection.close()
    clients.sessions.renamed("a.ipynb", "b.ipynb")
    clients.sessions.deleted("b.ipynb")
    assert caplog.text.count("do not follow") == 2
