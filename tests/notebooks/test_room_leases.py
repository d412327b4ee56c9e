"""Leases of rooms when calls of the system fail, and when notebooks are renamed."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from jupyter_server.serverapp import ServerApp
from jupyter_server.utils import ensure_async

from tests.notebooks.conftest import running_server
from tests.notebooks.failing_calls import FailingCalls
from tests.support.document_bench import DEADLINE, code, notebook, written
from tk_ai_extension.model import file_locks
from tk_ai_extension.model.errors import OpenElsewhere
from tk_ai_extension.notebooks.rooms import leases
from tk_ai_extension.notebooks.rooms.leases import RoomLeases
from tk_ai_extension.notebooks.router import NotebookRouter
from tk_ai_extension.notebooks.subscriptions import CONTENTS_EVENTS
from tk_ai_extension.workspace.paths import notebook_path

DESCRIPTORS = Path("/proc/self/fd")


@pytest.mark.proves("fault:one-server", "fault:disk-full")
@pytest.mark.skipif(not DESCRIPTORS.exists(), reason="open descriptors are counted in /proc")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.ENOLCK])
def test_a_lease_that_fails_locks_nobody_out_and_one_that_is_held_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    own, other = (
        RoomLeases(tmp_path / "leases", tmp_path, lambda n=n: n) for n in ("own", "other")
    )
    held: list[bool] = []
    for failing in itertools.count():
        before = len(list(DESCRIPTORS.iterdir()))
        system = FailingCalls(failing, number)
        with monkeypatch.context() as patch:
            patch.setattr(leases, "os", system.of(os, "open", "ftruncate", "write", "fstat"))
            patch.setattr(leases, "file_locks", system.of(file_locks, "lock"))
            own.take("n.ipynb")
        held.append("n.ipynb" in own._locks)
        if held[-1]:
            with pytest.raises(OpenElsewhere):
                other.take("n.ipynb")
        else:
            other.take("n.ipynb")
            other.release("n.ipynb")
        own.take("n.ipynb")
        own.release("n.ipynb")
        assert len(list(DESCRIPTORS.iterdir())) == before
        if len(system.calls) <= failing:
            break
    assert held.count(True) == 3  # The address could not be written, twice; or nothing failed.


def test_a_link_that_is_renamed_keeps_the_lease_of_its_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "n.ipynb").write_bytes(b"")
    (tmp_path / "link.ipynb").symlink_to("n.ipynb")
    own, other = (RoomLeases(tmp_path / "leases", tmp_path, str) for _ in range(2))
    own.take("link.ipynb")
    (tmp_path / "link.ipynb").rename(tmp_path / "new.ipynb")
    own.renamed("link.ipynb", "new.ipynb")
    assert caplog.text == ""
    with pytest.raises(OpenElsewhere):
        other.take("n.ipynb")
    own.release("new.ipynb")
    other.take("n.ipynb")
    other.close()


@pytest_asyncio.fixture(params=[0, 1])
async def app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ServerApp]:
    async with running_server(tmp_path, YDocExtension={"file_poll_interval": request.param}) as app:
        yield app


def router_of(app: ServerApp, tmp_path: Path) -> NotebookRouter:
    root = Path(app.root_dir)
    return NotebookRouter(
        root,
        partial(notebook_path, root),
        contents_manager=app.contents_manager,
        settings=app.web_app.settings,
        event_logger=app.event_logger,
        leases=RoomLeases(tmp_path / "leases", root, str),
    )


def room_of(app: ServerApp) -> tuple[Any, Any]:
    """The server of the rooms, and the room of the one notebook that is open."""
    server: Any = app.web_app.settings["jupyter_server_ydoc"].ywebsocket_server
    (room,) = [room for name, room in server.rooms.items() if name.startswith("json:notebook:")]
    return server, room


@pytest.mark.proves("fault:one-server", "ext:rtc")
@pytest.mark.parametrize(
    "names",
    [
        ("old/n.ipynb", "old/m.ipynb"),
        ("old/n.ipynb", "old/m.ipynb", "m.ipynb", "old/n.ipynb"),
        ("old", "new"),
        ("old", "new", "newer"),
        ("old", "new", "old"),
    ],
)
async def test_the_lease_of_a_renamed_notebook_ends_with_its_room(
    app: ServerApp, tmp_path: Path, names: tuple[str, ...]
) -> None:
    root = Path(app.root_dir)
    renamed = asyncio.Event()

    async def on_rename(logger: Any, schema_id: str, data: dict[str, Any]) -> None:
        if data["action"] == "rename":
            renamed.set()

    router = router_of(app, tmp_path)
    events: Any = app.event_logger
    events.add_listener(schema_id=CONTENTS_EVENTS, listener=on_rename)
    (root / "old").mkdir()
    (root / "old" / "n.ipynb").write_bytes(written(notebook(code("a", "aaaa1111"))))
    await (await router.open("old/n.ipynb")).read()
    server, room = room_of(app)
    for name, new in itertools.pairwise(names):
        renamed.clear()
        await ensure_async(app.contents_manager.rename(name, new))
        await asyncio.wait_for(renamed.wait(), DEADLINE)
    other = RoomLeases(tmp_path / "leases", root, str)
    path = names[-1] if names[-1].endswith(".ipynb") else f"{names[-1]}/n.ipynb"
    with pytest.raises(OpenElsewhere):
        other.take(path)
    await server.delete_room(room=room)
    other.take(path)
    other.close()
    await router.close()


@pytest.mark.proves("fault:one-server", "ext:rtc")
@pytest.mark.parametrize("succeeds", [True, False])
async def test_a_room_that_is_opened_while_the_last_one_is_closed_keeps_its_lease(
    app: ServerApp, tmp_path: Path, succeeds: bool
) -> None:
    root = Path(app.root_dir)
    router, other = router_of(app, tmp_path), RoomLeases(tmp_path / "leases", root, str)
    (root / "n.ipynb").write_bytes(written(notebook(code("a", "aaaa1111"))))
    await (await router.open("n.ipynb")).read()
    server, room = room_of(app)
    lock = app.web_app.settings["jupyter_server_ydoc"]._room_locks[room.room_id]
    stopping, go_on, stop = asyncio.Event(), asyncio.Event(), room.stop

    async def slow_stop() -> None:
        stopping.set()
        await go_on.wait()
        await stop()

    async def clean() -> None:
        async with lock:
            await server.delete_room(room=room)

    room.stop = slow_stop
    cleaning = asyncio.create_task(clean())
    add, leased = server.add_room, asyncio.Event()

    def add_room(room_id: str, room: Any) -> None:
        try:
            other.take("n.ipynb")
        except OpenElsewhere:
            leased.set()
        if not succeeds:
            raise OSError("no room")
        add(room_id, room)

    server.add_room = add_room
    async with asyncio.timeout(DEADLINE):
        await stopping.wait()
        document = await router.open("n.ipynb")
        reading = asyncio.create_task(document.read())
        while not lock._waiters:  # noqa: ASYNC110 - the lock has no event
            await asyncio.sleep(0)
        go_on.set()
        await cleaning
        await asyncio.wait([reading])
    assert leased.is_set()
    assert (reading.exception() is None) == succeeds
    if succeeds:
        with pytest.raises(OpenElsewhere):
            other.take("n.ipynb")
        await server.delete_room(room=room_of(app)[1])
    other.take("n.ipynb")
    other.close()
    await router.close()


@pytest.mark.proves("fault:one-server", "ext:rtc")
async def test_a_lease_outlasts_a_room_of_the_same_file_of_another_kind(
    app: ServerApp, tmp_path: Path
) -> None:
    root = Path(app.root_dir)
    router, other = router_of(app, tmp_path), RoomLeases(tmp_path / "leases", root, str)
    (root / "n.ipynb").write_bytes(written(notebook(code("a", "aaaa1111"))))
    await (await router.open("n.ipynb")).read()
    server, room = room_of(app)
    extension = app.web_app.settings["jupyter_server_ydoc"]
    await extension.get_document(
        path="n.ipynb", content_type="file", file_format="text", copy=False, create=True
    )
    (text,) = [found for found in server.rooms.values() if found is not room]
    await server.delete_room(room=text)
    with pytest.raises(OpenElsewhere):
        other.take("n.ipynb")
    await server.delete_room(room=room)
    other.take("n.ipynb")
    other.close()
    await router.close()
