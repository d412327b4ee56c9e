"""The file under a live room: other programs' writes, files that cannot be read, repaired files."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

import pytest
import pytest_asyncio
from jupyter_server.serverapp import ServerApp
from jupyter_server.utils import ensure_async

from tests.notebooks.conftest import room_bench, running_server
from tests.support.document_bench import (
    DEADLINE,
    DocumentBench,
    code,
    notebook,
    sources,
    stream,
    written,
)
from tests.support.room_person import RoomPerson
from tk_ai_extension.model.cells import CellContent
from tk_ai_extension.model.errors import InvalidNotebook
from tk_ai_extension.model.operations import Insert, Replace
from tk_ai_extension.model.outputs import Append
from tk_ai_extension.notebooks.base import FileChanged

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServerApp]:
    async with running_server(tmp_path_factory.mktemp("rooms")) as app:
        yield app


@pytest_asyncio.fixture(loop_scope="module")
async def bench(app: ServerApp) -> AsyncIterator[DocumentBench]:
    async with room_bench(app) as bench:
        yield bench


def room_of(app: ServerApp, path: str) -> Any:
    """The room of a notebook, if it has one."""
    settings = app.web_app.settings
    file_id: Any = settings["file_id_manager"].get_id(path)
    found: Any = settings["jupyter_server_ydoc"].ywebsocket_server.rooms.get(
        f"json:notebook:{file_id}"
    )
    return found


def loader_of(app: ServerApp, room: Any) -> Any:
    """The loader of a room's file."""
    loaders: Any = app.web_app.settings["jupyter_server_ydoc"].file_loaders
    return loaders[room.room_id.rpartition(":")[2]]


@pytest.mark.proves("fault:concurrent-edit")
async def test_a_save_between_a_look_at_the_file_and_its_loading_overwrites_nothing(
    bench: DocumentBench, app: ServerApp
) -> None:
    """The loader knows another program's write before the room does."""
    for ours in (True, False):
        document = await bench.open(notebook(code("a", "aaaa1111"), code("b", "bbbb2222")))
        path = document.path
        await document.read()
        room = room_of(app, path)
        loader = loader_of(app, room)
        take_in = loader._subscriptions[room.room_id]
        saved: list[bool] = []

        async def late(
            ours: bool = ours, room: Any = room, take_in: Any = take_in, saved: Any = saved
        ) -> None:
            saved.append(True)
            with suppress(FileChanged):
                await (bench.settle(room._document.path) if ours else room._save_to_disc())
            await take_in()

        loader.observe(room.room_id, late, room._on_filepath_change)
        await bench.person.type(path, 0, " typed")
        file = bench.root / path
        file.write_bytes(written(notebook(code("a", "aaaa1111"), code("theirs", "bbbb2222"))))
        os.utime(file)
        await loader.maybe_notify()
        assert saved
        assert sources((await bench.on_disk(document))["cells"]) == ["a", "theirs"]
        await document.apply([Replace("aaaa1111", "mine")])
        assert sources((await bench.on_disk(document))["cells"]) == ["mine", "theirs"]


async def test_the_keys_of_outputs_have_one_order(bench: DocumentBench) -> None:
    keys = [f"{kind}/{name}" for kind in ("image", "text", "x") for name in "abcdefgh"]
    document = await bench.open(notebook(code("a", "aaaa1111")))
    shown = {key: f"the {key}" for key in reversed(keys)}
    output = {"output_type": "display_data", "data": shown, "metadata": {}}
    async with document.writing("aaaa1111") as writer:
        await writer.start()
        await writer.write([Append(output)])
        await writer.finish(1)
    for _ in range(3):
        (stored,) = await document.outputs("aaaa1111")
        assert list(stored["data"]) == keys
        (again,) = (await document.raw())["cells"][0]["outputs"]
        assert list(again["data"]) == keys
        (cell,) = (await document.read()).cells
        assert list(cell.outputs.mimes) == sorted(cell.outputs.mimes)


@pytest.mark.proves("fault:concurrent-edit")
async def test_a_file_that_cannot_be_read_any_more_is_not_overwritten(
    bench: DocumentBench, app: ServerApp
) -> None:
    document = await bench.open(notebook(code("a", "aaaa1111")))
    await document.read()
    file = bench.root / document.path
    room = room_of(app, document.path)
    server: Any = app.web_app.settings["jupyter_server_ydoc"].ywebsocket_server
    server.add_room(room.room_id, room)  # As each page does that opens the notebook.
    whole = written(notebook(code("theirs", "aaaa1111")))
    for broken in (whole[:-9], whole.replace(b"theirs", b"\\ud83d")):
        file.write_bytes(broken)
        os.utime(file)
        for _ in range(2):  # The loader knows this version the second time.
            with pytest.raises(InvalidNotebook):
                await document.apply([Replace("aaaa1111", "mine")])
            await bench.person.type(document.path, 0, "!")
            with pytest.raises(InvalidNotebook):
                await room._save_to_disc()
        assert file.read_bytes() == broken
    file.write_bytes(whole)
    os.utime(file)
    await document.apply([Insert(CellContent("code", "mine"))])
    assert sources((await bench.on_disk(document))["cells"]) == ["theirs", "mine"]


async def test_a_notebook_that_could_not_be_opened_can_be_once_its_file_is_repaired(
    bench: DocumentBench, app: ServerApp
) -> None:
    good = notebook(code("a", "aaaa1111"))
    path = bench.put(good)
    file = bench.root / path
    file.write_bytes(written(good).replace(b'"a"', b'"\\ud83d"'))
    document = await bench.store.open(path)
    for _ in range(2):
        async with asyncio.timeout(DEADLINE):
            with pytest.raises(InvalidNotebook):
                await document.read()
    assert room_of(app, path) is None
    file.write_bytes(written(good))
    async with asyncio.timeout(DEADLINE):
        assert sources((await document.read()).cells) == ["a"]
        await document.apply([Replace("aaaa1111", "mine")])
    assert sources((await bench.on_disk(document))["cells"]) == ["mine"]


@pytest.mark.proves("fault:concurrent-edit")
async def test_typed_text_stays_in_a_room_that_was_read_while_it_was_opened(
    bench: DocumentBench, app: ServerApp
) -> None:
    (bench.root / "opened.ipynb").write_bytes(written(notebook(code("a", "aaaa1111"))))
    assert isinstance(bench.person, RoomPerson)
    opening = asyncio.create_task(bench.person.document("opened.ipynb"))
    async with asyncio.timeout(DEADLINE):
        while room_of(app, "opened.ipynb") is None:  # noqa: ASYNC110
            await asyncio.sleep(0)
    # As for its activity, which the page asks for at the same time.
    document = await bench.store.open("opened.ipynb", read_only=True)
    person = await opening
    source = person.ycells[0]["source"]
    source += " = 1"
    await document.apply([Insert(CellContent("code", "b"))])
    assert sources((await document.read()).cells) == ["a = 1", "b"]


@dataclass
class Pause:
    """Holds one call of a contents manager back.

    Args:
        manager: The contents manager.
        monkeypatch: Restores its methods.
        moment: Which call it is, counted from the one that begins first.
    """

    manager: Any
    monkeypatch: pytest.MonkeyPatch
    moment: int
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def __enter__(self) -> Self:
        for name in ("get", "save"):
            self.monkeypatch.setattr(self.manager, name, self._held(getattr(self.manager, name)))
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.monkeypatch.undo()

    def _held(self, method: Callable[..., Any]) -> Callable[..., Any]:
        async def held(*args: Any, **kwargs: Any) -> Any:
            answer = await ensure_async(method(*args, **kwargs))
            self.moment -= 1
            if self.moment == -1:
                self.begun.set()
                await self.over.wait()
            return answer

        return held


@pytest.mark.proves("fault:concurrent-edit")
@pytest.mark.parametrize("moment", range(3))
async def test_an_agent_that_comes_while_a_room_saves_loses_nothing(
    bench: DocumentBench, app: ServerApp, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """The room's own save looks at the file, writes it, and looks at it again."""
    path = bench.put(notebook(code("a", "aaaa1111"), code("b", "bbbb2222")))
    assert isinstance(bench.person, RoomPerson)
    await bench.person.document(path)
    room = room_of(app, path)
    monkeypatch.setattr(room, "_save_delay", 0)
    with Pause(app.contents_manager, monkeypatch, moment) as pause:
        await bench.person.type(path, 0, " typed")
        async with asyncio.timeout(DEADLINE):
            await pause.begun.wait()
        await bench.person.type(path, 0, " on")
        document = await bench.store.open(path, read_only=True)
        edited = asyncio.create_task(document.apply([Replace("bbbb2222", "c")]))
        await bench.person.type(path, 0, " and on")
        pause.over.set()
        await edited
    expected = ["a typed on and on", "c"]
    assert await bench.person.sources(path) == expected
    await bench.settle(path)
    assert sources((await bench.on_disk(document))["cells"]) == expected
    assert await bench.person.sources(path) == expected


@pytest.mark.proves("fault:concurrent-edit")
async def test_an_agent_that_comes_while_a_room_loads_another_programs_file_loses_nothing(
    bench: DocumentBench, app: ServerApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bench.put(notebook(code("a", "aaaa1111"), code("b", "bbbb2222")))
    assert isinstance(bench.person, RoomPerson)
    await bench.person.document(path)
    loader = loader_of(app, room_of(app, path))
    theirs = written(notebook(code("theirs", "aaaa1111"), code("b", "bbbb2222")))
    (bench.root / path).write_bytes(theirs)
    os.utime(bench.root / path)
    with Pause(app.contents_manager, monkeypatch, 1) as pause:
        noticed = asyncio.create_task(loader.maybe_notify())
        async with asyncio.timeout(DEADLINE):
            await pause.begun.wait()
        document = await bench.store.open(path)
        showing = asyncio.create_task(shows(document, "aaaa1111", "shown"))
        await asyncio.wait({showing}, timeout=0.2)
        pause.over.set()
        await asyncio.gather(noticed, showing)
    assert await bench.person.sources(path) == ["theirs", "b"]
    await bench.settle(path)
    first, _ = (await bench.on_disk(document))["cells"]
    assert (first["source"], first["outputs"]) == (
        ["theirs"],
        [stream("shown") | {"text": ["shown"]}],
    )


async def shows(document: Any, cell_id: str, text: str) -> None:
    """An agent's cell runs and prints."""
    async with document.writing(cell_id) as writer:
        await writer.start()
        await writer.write([Append(stream(text))])
        await writer.finish(1)
