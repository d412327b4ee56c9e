"""The suite's benches: each document backend, in this process, with kernels that only say tokens."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, chdir
from functools import partial
from pathlib import Path
from random import Random
from threading import Event
from typing import Any, cast
from unittest.mock import patch

from traitlets.config import Config

from tests.concurrency.callers import sessions_at
from tests.notebooks.conftest import running_server
from tests.notebooks.tabs import listening_server
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.notebooks.router import NotebookRouter
from tk_ai_extension.server.composition import state_of
from tk_ai_extension.testing.concurrency.agents import RegistrySession
from tk_ai_extension.testing.concurrency.kernels import SaidFile, SayingKernels
from tk_ai_extension.testing.concurrency.people import (
    Person,
    Program,
    RoomTypist,
    TabTypist,
)
from tk_ai_extension.testing.concurrency.refusals import LOST_ANSWER
from tk_ai_extension.testing.concurrency.rounds import ConcurrencyBench, Fault, nothing
from tk_ai_extension.testing.tab_page import TabPage
from tk_ai_extension.tools.registry import Registry
from tk_ai_extension.workspace.artifacts import Artifacts
from tk_ai_extension.workspace.folder_files import FolderFiles
from tk_ai_extension.workspace.journal import Journal
from tk_ai_extension.workspace.paths import notebook_path
from tk_ai_extension.workspace.workspace import Workspace

RESTARTED = frozenset(("kernel_restarted", "interrupted"))
"""How a run ends whose kernel is restarted: that begins with an interrupt."""
DROPPED = (LOST_ANSWER, "tab_offline")
"""The errors of calls that a dropped connection to a page explains."""


async def save_room(store: NotebookRouter, path: str) -> None:
    """Has a room's file written."""
    assert store._rooms is not None
    room = store._rooms.find(path)
    assert room is not None
    await room.save()


async def save_tab(store: Any, page: TabPage, path: str) -> None:
    """Has a page save what is not saved, once it is known what came of each change."""
    # A page that lost its connection is asked afterwards what it did, and the journal then says it.
    await store._tabs._tasks.join()
    if page.notebooks[path].dirty:
        await page.save(path)


async def some_turns(random: Random) -> None:
    """Waits for up to some thousand turns of the loop."""
    for _ in range(random.randrange(2_000)):
        await asyncio.sleep(0)


async def slow_disk(path: str, random: Random) -> None:
    """Makes the disk slow in the middle of saves."""
    fast = os.fsync

    def slow(file: int) -> None:
        Event().wait(random.random() * 0.02)
        fast(file)

    with patch("os.fsync", slow):
        await some_turns(random)


async def drop_connection(page: TabPage, path: str, random: Random) -> None:
    """Drops the connection to a page, which reconnects; an answer may be lost, if that happens again."""
    await some_turns(random)
    for _ in range(random.choice((1, 1, 4))):
        await page.cut()
        for _ in range(random.randrange(40)):
            await asyncio.sleep(0)
        await page.connect()


@asynccontextmanager
async def light_bench(
    name: str,
    root: Path,
    state: Path,
    store: Any,
    *,
    opened: Callable[[str], Awaitable[Any]] = nothing,
    settle: Callable[[str], Awaitable[Any]] = nothing,
    person: Person | None = None,
    program: Person | None = None,
    faults: Sequence[Fault] = (),
) -> AsyncGenerator[ConcurrencyBench]:
    """A workspace over a store, without a kernel's process."""
    kernels = SayingKernels()
    workspace = Workspace(
        store=store,
        kernels=kernels,
        sessions=kernels,
        files=FolderFiles(root),
        journal=Journal(state / "journal.sqlite"),
        artifacts=Artifacts(state / "artifacts"),
        contain=partial(notebook_path, root),
    )
    await workspace.journal.prune()  # From then on there is a file.
    registry = Registry.load()
    sessions = [
        RegistrySession(workspace, registry, Caller("ada", key, "mcp", name=key))
        for key in ("one", "two", "three")
    ]
    yield ConcurrencyBench(
        name,
        root,
        store,
        state / "journal.sqlite",
        kernels,
        sessions,
        opened,
        settle,
        person,
        program,
        [
            Fault("restart", kernels.restart_busy, frozenset(("kernel_restarted",))),
            Fault("slow disk", slow_disk),
            *faults,
        ],
    )
    await workspace.close()


@asynccontextmanager
async def file_bench(folder: Path) -> AsyncGenerator[ConcurrencyBench]:
    root = folder / "root"
    root.mkdir()
    store = NotebookRouter(root, partial(notebook_path, root))
    async with light_bench("file", root, folder, store, person=Program(root)) as bench:
        yield bench


@asynccontextmanager
async def contents_bench(folder: Path) -> AsyncGenerator[ConcurrencyBench]:
    from tests.notebooks.test_contents_manager import PairedManager

    root = folder / "root"
    root.mkdir()
    config = Config({"NotebookNotary": {"db_file": ":memory:"}})
    manager = PairedManager(root_dir=str(root), config=config)
    store = NotebookRouter(
        root,
        partial(notebook_path, root),
        contents_manager=manager,
        event_logger=manager.event_logger,
    )
    async with light_bench("contents", root, folder, store, program=Program(root)) as bench:
        yield bench


@asynccontextmanager
async def room_bench(folder: Path) -> AsyncGenerator[ConcurrencyBench]:
    async with running_server(folder) as app:
        root = Path(app.root_dir)
        store = NotebookRouter(
            root,
            partial(notebook_path, root),
            contents_manager=app.contents_manager,
            settings=app.web_app.settings,
            event_logger=app.event_logger,
        )

        person = RoomTypist(app.web_app.settings["jupyter_server_ydoc"])
        settle = partial(save_room, store)
        async with light_bench("room", root, folder, store, settle=settle, person=person) as bench:
            yield bench


@asynccontextmanager
async def tab_bench(folder: Path) -> AsyncGenerator[ConcurrencyBench]:
    async with listening_server(folder) as (app, address):
        (extension,) = app.extension_manager.extension_apps["tk_ai_extension"]
        found: Any = extension
        store = found.services.workspace.store
        page = TabPage(address, app.identity_provider.token)
        await page.connect()
        async with light_bench(
            "tab",
            Path(app.root_dir),
            folder,
            store,
            opened=page.open,
            settle=partial(save_tab, store, page),
            person=TabTypist(page),
            faults=[
                Fault("dropped connection", partial(drop_connection, page), frozenset(DROPPED))
            ],
        ) as bench:
            yield bench
        await page.close()
        assert page.dialogs == []


async def restart_busy(kernels: Any, path: str, random: Random) -> None:
    """Restarts a kernel that runs something, if one does so soon; others are idle.

    Args:
        kernels: The server's kernel manager.
        path: The notebook that is worked in.
        random: Says when.
    """
    for _ in range(random.randrange(4_000)):
        busy = (
            each
            for each in kernels.list_kernel_ids()
            if kernels.get_kernel(each).execution_state == "busy"
        )
        kernel_id = next(busy, None)
        if kernel_id is not None and random.random() < 0.2:
            # A socket is open until it has restarted, which a server that stops leaves behind.
            await (await kernels.restart_kernel(kernel_id))
            return
        await asyncio.sleep(0)


@asynccontextmanager
async def served_bench(
    documents: str, executor: str, folder: Path
) -> AsyncGenerator[ConcurrencyBench]:
    """A server that listens, with real kernels and callers over MCP and REST.

    Args:
        documents: ``room`` for a server with collaboration, ``tab`` for one without in which a person
            has the notebook open, ``file`` for one in which nobody has.
        executor: direct or stack.
        folder: An empty one.
    """
    extensions = ["jupyter_server_nbmodel"] if executor == "stack" else []
    extensions += ["jupyter_server_fileid", "jupyter_server_ydoc"] if documents == "room" else []
    config = {
        "TkAIExtensionApp": {"executor": executor},
        "BaseFileIdManager": {"db_path": str(folder / "file_id.db")},
    }
    # Collaboration keeps the history of rooms in the working directory.
    with chdir(folder):
        async with (
            listening_server(folder, *extensions, **config) as (app, address),
            sessions_at(address, app.identity_provider.token) as sessions,
            AsyncExitStack() as closing,
        ):
            root = Path(app.root_dir)
            (extension,) = app.extension_manager.extension_apps["tk_ai_extension"]
            workspace: Workspace = cast("Any", extension).services.workspace
            await workspace.journal.prune()  # From then on there is a file.
            bench = ConcurrencyBench(
                f"{documents} {executor}",
                root,
                workspace.store,
                state_of(str(folder / "data"), root) / "journal.sqlite",
                SaidFile(root),
                sessions,
                faults=[
                    Fault("slow disk", slow_disk),
                    Fault("restart", partial(restart_busy, app.kernel_manager), RESTARTED),
                ],
            )
            if documents == "room":
                bench.person = RoomTypist(app.web_app.settings["jupyter_server_ydoc"])
                bench.settle = partial(save_room, cast("Any", workspace.store))
            elif documents == "tab":
                page = TabPage(address, app.identity_provider.token)
                await page.connect()
                closing.push_async_callback(page.close)
                bench.person, bench.opened = TabTypist(page), page.open
                bench.settle = partial(save_tab, workspace.store, page)
            else:
                bench.program = Program(root)
            yield bench


BENCHES = {"file": file_bench, "contents": contents_bench, "room": room_bench, "tab": tab_bench}
SERVED = {
    f"{documents} {executor}": partial(served_bench, documents, executor)
    for documents in ("file", "room", "tab")
    for executor in ("direct", "stack")
}
"""Servers that listen."""
