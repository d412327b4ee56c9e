"""A save of a collaboration room that fails is made later, by itself, and nothing typed is lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from errno import ENOSPC, EROFS
from random import Random
from typing import Any

import pytest
import pytest_asyncio
from jupyter_server.serverapp import ServerApp
from jupyter_server.utils import ensure_async
from tornado.web import HTTPError

from tests.notebooks.conftest import room_bench, running_server
from tests.support.document_bench import (
    DEADLINE,
    DocumentBench,
    code,
    notebook,
    sources,
    stream,
)
from tk_ai_extension.model.cells import CellContent
from tk_ai_extension.model.errors import DiskFull, NotebookNotFound, ReadOnly
from tk_ai_extension.model.operations import Insert, Move, Replace
from tk_ai_extension.model.outputs import Append
from tk_ai_extension.notebooks.rooms import room as room_module

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.proves("fault:disk-full", "ext:rtc"),
]

CLEANUP_DELAY = 0.05
SAVE_DELAY = 0.02
MAX_DELAY = 0.3


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServerApp]:
    config = {
        "YDocExtension": {
            "document_cleanup_delay": CLEANUP_DELAY,
            "document_save_delay": SAVE_DELAY,
        }
    }
    async with running_server(tmp_path_factory.mktemp("rooms"), **config) as app:
        yield app


@pytest_asyncio.fixture(loop_scope="module")
async def bench(app: ServerApp, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DocumentBench]:
    monkeypatch.setattr(room_module, "SAVE_DELAY", SAVE_DELAY)
    monkeypatch.setattr(room_module, "MAX_DELAY", MAX_DELAY)
    async with room_bench(app) as bench:
        yield bench


@dataclass
class Disk:
    """The disk under the contents manager, which may be full.

    Attributes:
        full: Whether saves fail.
        problem: Why they fail.
        failed, saved: Set at each save that fails or succeeds.
        attempts: How many saves there were.
    """

    manager: Any
    full: bool = False
    problem: OSError = field(default_factory=lambda: OSError(ENOSPC, "No space left on device"))
    attempts: int = 0
    failed: asyncio.Event = field(default_factory=asyncio.Event)
    saved: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._save = self.manager.save

    async def save(self, model: Any, path: str = "") -> Any:
        self.attempts += 1
        if self.full:
            self.failed.set()
            raise HTTPError(500, "no space") from self.problem
        saved = await self._save(model, path)
        self.saved.set()
        return saved


@pytest.fixture
def disk(app: ServerApp, monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk(app.contents_manager)
    monkeypatch.setattr(app.contents_manager, "save", disk.save)
    return disk


async def until(event: asyncio.Event) -> None:
    event.clear()
    await asyncio.wait_for(event.wait(), DEADLINE)


def server_of(app: ServerApp) -> Any:
    server: Any = app.web_app.settings["jupyter_server_ydoc"].ywebsocket_server
    return server


def room_of(app: ServerApp, path: str) -> Any:
    """jupyter-collaboration's room of a notebook, if it has one."""
    file_id: Any = app.web_app.settings["file_id_manager"].get_id(path)
    return server_of(app).rooms.get(f"json:notebook:{file_id}")


async def closed(app: ServerApp, room: Any) -> None:
    """Wait until the package has closed a room that nobody has open."""
    async with asyncio.timeout(DEADLINE):
        while room.room_id in server_of(app).rooms:
            await asyncio.wait([room.cleaner])
            await asyncio.sleep(0)


def live_of(bench: DocumentBench, path: str) -> Any:
    """The same room as the tools know it."""
    store: Any = bench.store
    return store._rooms.find(path)


def stored(bench: DocumentBench, path: str) -> list[str]:
    return sources(json.loads((bench.root / path).read_bytes())["cells"])


async def stored_within_deadline(bench: DocumentBench, disk: Disk, path: str, text: str) -> None:
    async with asyncio.timeout(DEADLINE):
        while not any(text in source for source in stored(bench, path)):
            await until(disk.saved)


async def typed_on_a_full_disk(bench: DocumentBench, disk: Disk) -> str:
    """A notebook in which a person typed ` typed`; the room's save of it has failed."""
    document = await bench.open(notebook(code("a", "aaaa1111")))
    await document.read()
    disk.full = True
    failure = asyncio.create_task(until(disk.failed))
    await bench.person.type(document.path, 0, " typed")
    await failure
    return document.path


async def test_a_failed_save_is_retried_without_another_edit(
    bench: DocumentBench, disk: Disk
) -> None:
    path = await typed_on_a_full_disk(bench, disk)
    for _ in range(3):
        await until(disk.failed)
    disk.full = False
    await stored_within_deadline(bench, disk, path, "a typed")


async def test_the_delay_doubles_up_to_a_bound_and_is_short_again_after_a_save(
    bench: DocumentBench, disk: Disk
) -> None:
    path = await typed_on_a_full_disk(bench, disk)
    live = live_of(bench, path)
    delays: list[float] = []
    for _ in range(6):
        with pytest.raises(DiskFull):
            await live.save()
        delays.append(live._schedule.delay)
    assert delays == sorted(delays)
    assert delays[1] <= 4 * delays[0]
    assert delays[-1] == MAX_DELAY
    disk.full = False
    await live.save()
    assert live._schedule.delay == SAVE_DELAY
    assert not live.unsaved


async def test_a_room_that_cannot_be_saved_is_kept_when_the_last_tab_closes(
    bench: DocumentBench, app: ServerApp, disk: Disk
) -> None:
    document = await bench.open(notebook(code("a", "aaaa1111")))
    path = document.path
    await document.read()
    room = room_of(app, path)
    room._save_delay = DEADLINE  # It is cleaned before it saves.
    disk.full = True
    await bench.person.type(path, 0, " typed")
    await document.read()
    await asyncio.wait([room.cleaner], timeout=DEADLINE)
    assert disk.failed.is_set()
    for _ in range(2):
        assert room_of(app, path) is room
        await until(disk.failed)
    disk.full = False
    await stored_within_deadline(bench, disk, path, "a typed")
    await bench.settle(path)
    await closed(app, room)


async def test_a_server_that_stops_saves_what_could_not_be_saved_before(
    bench: DocumentBench, disk: Disk
) -> None:
    path = await typed_on_a_full_disk(bench, disk)
    disk.full = False
    store: Any = bench.store
    await store.close()
    assert stored(bench, path) == ["a typed"]


async def test_a_room_whose_file_was_deleted_is_not_kept_for_ever(
    bench: DocumentBench, app: ServerApp, disk: Disk
) -> None:
    path = await typed_on_a_full_disk(bench, disk)
    room, live = room_of(app, path), live_of(bench, path)
    disk.full = False
    await ensure_async(app.contents_manager.delete(path))
    with pytest.raises(NotebookNotFound):
        await live.save()
    await closed(app, room)


async def test_a_room_whose_file_is_read_only_is_not_kept_for_ever(
    bench: DocumentBench, app: ServerApp, disk: Disk
) -> None:
    disk.problem = OSError(EROFS, "Read-only file system")
    path = await typed_on_a_full_disk(bench, disk)
    room, live = room_of(app, path), live_of(bench, path)
    with pytest.raises(ReadOnly):
        await live.save()
    await closed(app, room)


@pytest.mark.parametrize("ended_by", ["the package", "its last page", "the server", "a rename"])
async def test_what_was_read_only_for_a_while_is_saved_in_the_end(
    bench: DocumentBench, app: ServerApp, disk: Disk, ended_by: str
) -> None:
    """Nobody edits it again, and no save is retried while it is read-only."""
    disk.problem = OSError(EROFS, "Read-only file system")
    path = await typed_on_a_full_disk(bench, disk)
    room = room_of(app, path)
    attempts = disk.attempts
    disk.full = False
    if ended_by == "the package":
        await closed(app, room)
    elif ended_by == "its last page":
        await server_of(app).delete_room(room=room)  # As jupyter-collaboration does.
    elif ended_by == "the server":
        store: Any = bench.store
        await store.close()
    else:
        await ensure_async(app.contents_manager.rename(path, f"new-{path}"))
        path = f"new-{path}"
        await stored_within_deadline(bench, disk, path, "a typed")
    assert stored(bench, path) == ["a typed"]
    assert disk.attempts == attempts + 1


async def test_what_people_type_with_autosave_off_is_theirs_to_save(
    bench: DocumentBench, app: ServerApp, disk: Disk
) -> None:
    document = await bench.open(notebook(code("a", "aaaa1111")))
    await document.read()
    room = room_of(app, document.path)
    room.awareness.set_local_state({"autosave": False})
    await bench.person.type(document.path, 0, " typed")
    live = live_of(bench, document.path)
    await live.save_in_time()
    assert (live.unsaved, disk.attempts) == (False, 0)
    disk.full = True
    with pytest.raises(DiskFull):
        await document.apply([Replace("aaaa1111", "mine")])
    assert not live.unsaved, "the edit was taken back, and nothing else was to be saved"


@dataclass
class Notebook:
    """A notebook on which people and agents work while its disk fills up."""

    bench: DocumentBench
    app: ServerApp
    disk: Disk
    document: Any
    typed: list[str] = field(default_factory=list)

    async def type(self) -> None:
        await self.document.read()  # The room is one that a tool has used.
        self.typed.append(f"<{len(self.typed)}>")
        await self.bench.person.type(self.document.path, 1, self.typed[-1])

    async def edit(self) -> None:
        with raises_if(DiskFull, self.disk.full):
            await self.document.apply([Replace("aaaa1111", f"mine{len(self.typed)}")])

    async def run(self) -> None:
        async with self.document.writing("aaaa1111") as writer:
            await writer.start()
            await writer.write([Append(stream("printed"))])
            await writer.finish(1, save=False)

    async def fill_or_free(self) -> None:
        self.disk.full = not self.disk.full

    async def save(self) -> None:
        """As when a person presses Save."""
        if room_of(self.app, self.document.path) is not None:
            with raises_if(DiskFull, self.disk.full):
                await self.bench.settle(self.document.path)

    async def close_tab(self) -> None:
        """Wait until the room has been cleaned, if it is to be."""
        await self.document.read()
        room = room_of(self.app, self.document.path)
        if room is not None and room.cleaner is not None:
            await asyncio.wait([room.cleaner], timeout=DEADLINE)


def raises_if(error: type[Exception], expected: bool) -> Any:
    return pytest.raises(error) if expected else nullcontext()


@pytest.mark.parametrize("seed", range(16))
async def test_nothing_is_lost_however_saves_fail_and_rooms_close(
    bench: DocumentBench, app: ServerApp, disk: Disk, seed: int
) -> None:
    """People type, agents edit and run, the disk fills up, and rooms are cleaned, in any order."""
    random = Random(seed)
    document = await bench.open(notebook(code("a", "aaaa1111"), code("b", "bbbb2222")))
    work = Notebook(bench, app, disk, document)
    actions = [work.type, work.edit, work.run, work.save, work.fill_or_free, work.close_tab]
    for action in random.choices(actions, [3, 1, 1, 2, 3, 2], k=14):
        await action()
    disk.full = False
    text = "b" + "".join(work.typed)
    await stored_within_deadline(bench, disk, document.path, text)
    await work.close_tab()
    assert stored(bench, document.path)[1] == text


PUT = {
    "insert": Insert(CellContent("code", "new"), 0),
    "move": Move("aaaa1111", 1),
    "retype": Replace("aaaa1111", "a", "markdown"),
    "edit": Replace("aaaa1111", "mine"),
}


@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize("kind", PUT)
async def test_the_revert_of_an_edit_takes_away_nothing_of_others(
    bench: DocumentBench, app: ServerApp, disk: Disk, kind: str, typed: bool
) -> None:
    """A person types in the cell while the save of the agent's edit fails."""
    document = await bench.open(notebook(code("a", "aaaa1111"), code("b", "bbbb2222")))
    await document.read()
    place = {"insert": 0, "move": 1}.get(kind, 0)
    save = disk.save

    async def typed_meanwhile(model: Any, path: str = "") -> Any:
        if typed and disk.attempts == 0:
            text = room_of(app, document.path)._document.ycells[place]["source"]
            text.insert(len(text), " typed")
        return await save(model, path)

    app.contents_manager.save = typed_meanwhile  # pyrefly: ignore[bad-assignment]
    disk.full = True
    expected = nullcontext() if typed and kind != "edit" else pytest.raises(DiskFull)
    with expected:
        await document.apply([PUT[kind]])
    cells = [(cell.type, cell.source) for cell in (await document.read()).cells]
    before = [("code", "a"), ("code", "b")]
    if not typed:
        assert cells == before
    else:
        assert cells[place][1].endswith(" typed")
        assert (cells == [("code", "a typed"), ("code", "b")]) == (kind == "edit")
    disk.full = False
