"""A notebook's room opens or closes while a cell runs: the outputs continue in its new place."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.serverapp import ServerApp

from tests.notebooks.conftest import running_server
from tests.notebooks.tabs import PATH, TabHarness
from tests.support.document_bench import code, notebook, stream, written
from tests.support.room_person import RoomPerson
from tk_ai_extension.model.cells import CellContent
from tk_ai_extension.model.operations import Insert, Replace, SetOutputs
from tk_ai_extension.model.outputs import Append, StreamEdit
from tk_ai_extension.notebooks.router import NotebookRouter
from tk_ai_extension.workspace.paths import notebook_path


class RoomServer:
    """A server with collaboration, which the router may not know of yet."""

    def __init__(self, app: ServerApp) -> None:
        self.root = Path(app.root_dir)
        self.settings: dict[str, Any] = dict(app.web_app.settings)
        self.collaboration = self.settings["jupyter_server_ydoc"]
        self.person = RoomPerson(self.collaboration)
        self.router = NotebookRouter(
            self.root,
            partial(notebook_path, self.root),
            contents_manager=app.contents_manager,
            settings=self.settings,
            event_logger=app.event_logger,
        )
        stored = notebook(code("a", "aaaa1111"), code("b", "bbbb2222"))
        (self.root / PATH).write_bytes(written(stored))

    def hide_rooms(self) -> None:
        """Makes it a server on which collaboration is not there."""
        del self.settings["jupyter_server_ydoc"]

    def show_rooms(self) -> None:
        self.settings["jupyter_server_ydoc"] = self.collaboration

    async def delete_room(self) -> None:
        """Ends the room, as when its server part fails."""
        rooms = self.collaboration.ywebsocket_server
        (room,) = rooms.rooms.values()
        await rooms.delete_room(room=room)

    async def first_cell(self) -> dict[str, Any]:
        """The first cell in the file, when its room is saved."""
        rooms: Any = self.router._rooms
        if (room := rooms.find(PATH)) is not None:
            await room.save()
        return json.loads((self.root / PATH).read_bytes())["cells"][0]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RoomServer]:
    async with running_server(tmp_path) as app:
        made = RoomServer(app)
        yield made
        made.show_rooms()
        await made.router.close()


def text_of(cell: dict[str, Any]) -> str:
    return "".join("".join(output["text"]) for output in cell["outputs"])


@pytest.mark.proves("exec:saved", "ext:rtc")
async def test_outputs_go_on_in_a_room_that_is_opened_while_the_cell_runs(
    server: RoomServer,
) -> None:
    server.hide_rooms()
    document = await server.router.open(PATH)
    async with document.writing("aaaa1111") as writer:
        await writer.start()
        await writer.write([Append(stream("one "))])
        assert (await server.router.open(PATH)).backend == "file"
        server.show_rooms()
        opened = await server.router.open(PATH)
        assert opened.backend == "room"
        await opened.read()
        await writer.write([StreamEdit(0, 4, "two ")])
        assert await opened.outputs("aaaa1111") == (stream("one two "),)
        await writer.write([StreamEdit(0, 8, "three")])
        await writer.finish(4)
    assert await opened.outputs("aaaa1111") == (stream("one two three"),)
    assert (await opened.read()).cells[0].execution_count == 4
    assert text_of(await server.first_cell()) == "one two three"


@pytest.mark.proves("exec:saved", "ext:rtc")
async def test_outputs_that_were_cleared_before_a_room_is_opened_stay_cleared(
    server: RoomServer,
) -> None:
    server.hide_rooms()
    document = await server.router.open(PATH)
    async with document.writing("aaaa1111") as writer:
        await writer.start()
        await writer.write([Append(stream("one ")), Append(stream("old", "stderr"))])
        await document.apply([SetOutputs("aaaa1111", ())])
        server.show_rooms()
        opened = await server.router.open(PATH)
        assert await opened.outputs("aaaa1111") == ()
        await writer.write([StreamEdit(1, 3, "new")])
        assert await opened.outputs("aaaa1111") == (stream("new", "stderr"),)
        await writer.write([StreamEdit(0, 4, "two "), StreamEdit(1, 5, "xt"), StreamEdit(0, 5, "")])
        await writer.finish(4)
    assert await opened.outputs("aaaa1111") == (stream("next", "stderr"), stream("t"))


@pytest.mark.proves("exec:saved", "ext:rtc")
async def test_outputs_go_on_in_the_file_when_its_room_is_gone(server: RoomServer) -> None:
    document = await server.router.open(PATH)
    async with document.writing("aaaa1111") as writer:
        await writer.start()
        await writer.write([Append(stream("one "))])
        assert await document.outputs("aaaa1111") == (stream("one "),)
        await server.delete_room()
        server.hide_rooms()
        await writer.write([StreamEdit(0, 4, "two")])
        await writer.finish(4)
    cell = json.loads((server.root / PATH).read_bytes())["cells"][0]
    assert (text_of(cell), cell["execution_count"]) == ("one two", 4)


@pytest.mark.proves("exec:saved", "ext:rtc")
async def test_outputs_go_on_in_the_room_that_takes_the_place_of_one_that_failed(
    server: RoomServer,
) -> None:
    document = await server.router.open(PATH)
    async with document.writing("aaaa1111") as writer:
        await writer.start()
        await writer.write([Append(stream("one "))])
        assert await document.outputs("aaaa1111") == (stream("one "),)
        await server.delete_room()
        await writer.write([StreamEdit(0, 4, "two")])
        assert await document.outputs("aaaa1111") == (stream("one two"),)
        await document.apply([Insert(CellContent("code", "new"), index=0)])
        await writer.write([StreamEdit(0, 7, " three")])
        await writer.finish(4)
    assert await document.outputs("aaaa1111") == (stream("one two three"),)


@pytest.mark.proves("exec:saved", "fault:tab-lost")
async def test_outputs_go_to_and_fro_between_the_file_and_a_tab(harness: TabHarness) -> None:
    document, text = await harness.document(), ""
    async with document.writing("aaaa1111") as writer:
        await writer.start()
        await writer.write([Append(stream(""))])
        for turn in range(4):
            await writer.write([StreamEdit(0, len(text), f"{turn} ")])
            text += f"{turn} "
            assert await document.outputs("aaaa1111") == (stream(text),)
            await document.apply([Replace("bbbb2222", f"edit {turn}")])
            if turn % 2:
                await harness.page.open(PATH)
            else:
                await harness.page.close_notebook(PATH)
        await writer.finish(4)
    assert await document.outputs("aaaa1111") == (stream(text),)
    assert (await document.read()).cells[1].source == "edit 3"
