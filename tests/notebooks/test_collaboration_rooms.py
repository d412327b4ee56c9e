"""Live notebooks: cursors, trust, rooms that stay and go, other programs' writes, a real browser's end."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import weakref
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
import pytest_asyncio
from jupyter_server.serverapp import ServerApp
from jupyter_ydoc import YNotebook
from pycrdt import Assoc, Provider

from tests.notebooks.browsers import browse, listening
from tests.notebooks.conftest import room_bench, running_server
from tests.notebooks.forms import PLAIN
from tests.support.document_bench import (
    DEADLINE,
    DocumentBench,
    code,
    display,
    notebook,
    prose,
    sources,
    stream,
    written,
)
from tests.support.document_editing import OLD
from tests.support.document_faults import no_file_larger_than
from tests.support.room_person import RoomPerson
from tk_ai_extension.model.cells import CellContent
from tk_ai_extension.model.errors import Conflict, DiskFull
from tk_ai_extension.model.operations import Delete, Insert, Move, Replace, SetOutputs
from tk_ai_extension.model.outputs import Append, StreamEdit
from tk_ai_extension.notebooks.rooms.room_outputs import shared_output

pytestmark = pytest.mark.asyncio(loop_scope="module")

CLEANUP_DELAY = 0.2


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServerApp]:
    config = {"YDocExtension": {"document_cleanup_delay": CLEANUP_DELAY}}
    async with running_server(tmp_path_factory.mktemp("rooms"), **config) as app:
        yield app


@pytest_asyncio.fixture(loop_scope="module")
async def bench(app: ServerApp) -> AsyncIterator[DocumentBench]:
    async with room_bench(app) as bench:
        yield bench


def rooms(app: ServerApp) -> Any:
    return app.web_app.settings["jupyter_server_ydoc"].ywebsocket_server.rooms


def room_of(app: ServerApp, path: str) -> Any:
    """The room of a notebook, if it has one."""
    file_id: Any = app.web_app.settings["file_id_manager"].get_id(path)
    found: Any = rooms(app).get(f"json:notebook:{file_id}")
    return found


async def live(bench: DocumentBench, path: str) -> Any:
    """The shared document, as a person's browser shares it."""
    assert isinstance(bench.person, RoomPerson)
    return await bench.person.document(path)


# --- edits


@pytest.mark.proves("ext:rtc")
async def test_a_cursor_in_what_stays_keeps_its_place(bench: DocumentBench) -> None:
    document = await bench.open(notebook(code("first = 1\nüber = 2\nthird = 3\n", "aaaa1111")))
    text = (await live(bench, document.path)).ycells[0]["source"]
    place = len("first = 1\nüber".encode())
    cursor = text.sticky_index(place, Assoc.AFTER)
    await document.apply([Replace("aaaa1111", "# new line\nfirst = 10\nüber = 2\nthird = 4\n")])
    assert str(text) == "# new line\nfirst = 10\nüber = 2\nthird = 4\n"
    assert cursor.get_index() == len("# new line\nfirst = 10\nüber".encode())


async def test_half_a_surrogate_pair_is_replaced(bench: DocumentBench) -> None:
    document = await bench.open(notebook(code("a", "aaaa1111")))
    await document.apply([Replace("aaaa1111", "x\ud83dy"), Insert(CellContent("raw", "\ude00"))])
    async with document.writing("aaaa1111") as writer:
        await writer.start()
        await writer.write([Append(stream("\ud83d")), StreamEdit(0, 1, "\ude00!")])
        await writer.write([Append(display(text_plain="\ud83d"))])
        await writer.finish(1)
    assert sources((await document.read()).cells) == ["x\ufffdy", "\ufffd"]
    shown = (stream("\ufffd\ufffd!"), display(text_plain="\ufffd"))
    assert await document.outputs("aaaa1111") == shown


async def test_an_edit_is_one_transaction_and_says_whose(bench: DocumentBench) -> None:
    document = await bench.open(PLAIN)
    shared = await live(bench, document.path)
    origins: list[Any] = []
    subscription = shared.ycells.observe_deep(lambda _, txn: origins.append(txn.origin))
    await document.apply(
        [
            Replace("aaaa1111", "x"),
            Move("bbbb2222", 0),
            Delete("cccc3333"),
            Insert(CellContent("raw", "y")),
        ]
    )
    shared.ycells.unobserve(subscription)
    assert [origin.split()[0] for origin in origins] == ["tk_ai_extension"]


async def test_reading_again_is_free_while_nothing_changes(bench: DocumentBench) -> None:
    document = await bench.open(PLAIN)
    first = await document.read()
    assert await (await bench.store.open(document.path)).read() is first
    await bench.person.type(document.path, 1, "!")
    second = await document.read()
    assert second is not first
    assert second.cells[0] is first.cells[0]
    assert second.cells[1].source.endswith("!")


# --- trust


@pytest.mark.proves("ext:rtc")
async def test_an_agents_run_does_not_inherit_a_persons_trust(
    bench: DocumentBench, app: ServerApp
) -> None:
    cells = (code("a", "aaaa1111"), code("b", "bbbb2222"), code("c", "cccc3333"))
    document = await bench.open(notebook(*cells))
    shared = await live(bench, document.path)
    for cell in shared.ycells:
        cell["metadata"]["trusted"] = True  # As JupyterLab marks what a person ran.
    assert (await document.read()).cells[0].metadata == {}
    async with document.writing("aaaa1111") as writer:
        await writer.start()
        await writer.write([Append(display(text_html="<script>1</script>"))])
        await writer.finish(1)
    await document.apply(
        [
            Insert(
                CellContent(
                    "code", "c", metadata={"trusted": True}, outputs=(display(text_html="x"),)
                )
            )
        ]
    )
    # As when an undo brings outputs back.
    await document.apply([SetOutputs("cccc3333", (display(text_html="x"),))])
    trusted = [cell["metadata"].get("trusted") for cell in shared.ycells]
    assert trusted == [False, True, False, None]
    stored = await bench.on_disk(document)
    assert not any("trusted" in cell["metadata"] for cell in stored["cells"])
    model = await app.contents_manager.get(document.path)
    assert [cell["metadata"].get("trusted") for cell in model["content"]["cells"]] == [False] * 4


# --- a running cell


async def test_the_cell_is_marked_as_running(bench: DocumentBench) -> None:
    document = await bench.open(notebook(code("a", "aaaa1111")))
    cell = (await live(bench, document.path)).ycells[0]
    async with document.writing("aaaa1111") as writer:
        await writer.start()
        assert cell.get("execution_state") == "running"
        await document.apply([Insert(CellContent("code", "new"), index=0), Move("aaaa1111", 0)])
        cell = (await live(bench, document.path)).ycells[0]
        assert cell.get("execution_state") == "running"
        await writer.finish(1)
    assert (cell.get("execution_state"), cell.get("execution_count")) == ("idle", 1)


async def test_outputs_have_the_form_that_jupyterlab_has(bench: DocumentBench) -> None:
    document = await bench.open(notebook(code("a", "aaaa1111")))
    async with document.writing("aaaa1111") as writer:
        await writer.start()
        await writer.write([Append(stream("x")), Append(display(text_plain="y"))])
        await writer.finish(1)
    shared = await live(bench, document.path)
    same = YNotebook()
    same.set(shared.get())
    for ours, theirs in zip(shared.ycells[0]["outputs"], same.ycells[0]["outputs"], strict=True):
        assert {key: type(ours[key]) for key in ours} == {key: type(theirs[key]) for key in theirs}


async def test_text_goes_on_in_a_stream_that_someone_else_has_begun(bench: DocumentBench) -> None:
    document = await bench.open(notebook(code("a", "aaaa1111")))
    async with document.writing("aaaa1111") as writer:
        await writer.start()
        await writer.write([Append(display(text_plain="x"))])
        await document.outputs("aaaa1111")
        shared = await live(bench, document.path)
        shared.ycells[0]["outputs"].append(shared_output(stream("theirs ")))
        await writer.write([Append(stream("ours "))])
        await writer.write([StreamEdit(1, 5, "too"), Append(stream("error", "stderr"))])
        await writer.finish(1)
    _, *streams = await document.outputs("aaaa1111")
    assert streams == [stream("theirs ours too"), stream("error", "stderr")]


# --- rooms stay and go


async def test_a_room_that_only_we_opened_is_released(bench: DocumentBench, app: ServerApp) -> None:
    document = await bench.open(notebook(code("a", "aaaa1111")))
    await document.read()
    room = room_of(app, document.path)
    cleaner = room.cleaner
    await document.apply([Replace("aaaa1111", "b")])
    assert cleaner.cancelled() or cleaner.cancelling()
    await asyncio.wait_for(room.cleaner, DEADLINE)
    assert room_of(app, document.path) is None
    assert sources(json.loads((bench.root / document.path).read_bytes())["cells"]) == ["b"]
    assert sources((await document.read()).cells) == ["b"]


async def test_a_mere_look_opens_no_room_and_sees_the_one_that_is_open(
    bench: DocumentBench, app: ServerApp
) -> None:
    path = bench.put(notebook(code("a", "aaaa1111")))
    document = await bench.store.open(path, read_only=True)
    assert (document.backend, sources((await document.read()).cells)) == ("file", ["a"])
    assert room_of(app, path) is None
    await bench.person.type(path, 0, " typed")
    document = await bench.store.open(path, read_only=True)
    assert (document.backend, sources((await document.read()).cells)) == ("room", ["a typed"])


async def test_nothing_is_kept_of_a_room_that_is_no_more(
    bench: DocumentBench, app: ServerApp
) -> None:
    document = await bench.open(notebook(code("a", "aaaa1111")))
    await document.read()
    collected = asyncio.Event()
    weakref.finalize(room_of(app, document.path), collected.set)
    await asyncio.wait_for(room_of(app, document.path).cleaner, DEADLINE)
    async with asyncio.timeout(DEADLINE):
        while not collected.is_set():  # Its own tasks end one after the other.
            gc.collect()
            with suppress(TimeoutError):
                await asyncio.wait_for(collected.wait(), 0.05)


async def test_a_room_stays_while_a_cell_runs(bench: DocumentBench, app: ServerApp) -> None:
    document = await bench.open(notebook(code("a", "aaaa1111")))
    async with document.writing("aaaa1111") as writer:
        await writer.start()
        room = room_of(app, document.path)
        await document.read()
        assert room.cleaner is None or room.cleaner.cancelled()
        await writer.write([Append(stream("out"))])
        await writer.finish(1)
    # Until it is saved.
    assert room.clients
    await bench.settle(document.path)
    await asyncio.wait_for(room_of(app, document.path).cleaner, DEADLINE)
    stored = json.loads((bench.root / document.path).read_bytes())
    assert "".join(stored["cells"][0]["outputs"][0]["text"]) == "out"


async def test_a_room_that_somebody_prepares_is_awaited(
    bench: DocumentBench, app: ServerApp
) -> None:
    """A browser's request makes the room before its content is loaded."""
    path = bench.put(notebook(code("a", "aaaa1111")))
    extension = app.web_app.settings["jupyter_server_ydoc"]
    document = await extension.get_document(
        path=path, content_type="notebook", file_format="json", copy=False, create=True
    )
    room = room_of(app, path)
    await extension.ywebsocket_server.delete_room(room=room)
    bare = type(room)(
        room.room_id,
        "json",
        "notebook",
        extension.file_loaders[room.room_id.rpartition(":")[2]],
        app.event_logger,
        None,
        app.log,
        save_delay=1,
    )
    await extension.ywebsocket_server.start_room(bare)
    extension.ywebsocket_server.add_room(room.room_id, bare)
    assert bare._document is not document
    assert sources((await (await bench.store.open(path)).read()).cells) == ["a"]


# --- the file, under a live room


@pytest.mark.proves("fault:concurrent-edit")
async def test_changes_of_another_program_under_a_room_are_not_lost(bench: DocumentBench) -> None:
    document = await bench.open(notebook(code("a", "aaaa1111"), code("b", "bbbb2222")))
    seen = (await document.read()).by_key
    file = bench.root / document.path
    file.write_bytes(written(notebook(code("a", "aaaa1111"), code("theirs", "bbbb2222"))))
    os.utime(file)
    await document.apply([Replace("aaaa1111", "mine", expect=seen["aaaa1111"].hash)])
    with pytest.raises(Conflict) as raised:
        await document.apply([Replace("bbbb2222", "mine", expect=seen["bbbb2222"].hash)])
    assert raised.value.details["cells"][0]["source"] == "theirs"
    assert sources((await bench.on_disk(document))["cells"]) == ["mine", "theirs"]


async def test_a_write_between_an_edit_and_its_save_is_taken_in_first(
    bench: DocumentBench, app: ServerApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = await bench.open(notebook(code("a", "aaaa1111"), code("b", "bbbb2222")))
    seen = (await document.read()).by_key
    file = bench.root / document.path
    loader = room_of(app, document.path)._file
    save = loader.maybe_save_content
    written_once: list[bool] = []

    async def late(model: Any) -> Any:
        if not written_once:
            written_once.append(True)
            file.write_bytes(written(notebook(code("a", "aaaa1111"), code("theirs", "bbbb2222"))))
            os.utime(file, (1, 1))
        return await save(model)

    monkeypatch.setattr(loader, "maybe_save_content", late)
    await document.apply([Replace("aaaa1111", "mine", expect=seen["aaaa1111"].hash)])
    assert written_once
    assert sources((await document.read()).cells) == ["mine", "theirs"]
    assert sources((await bench.on_disk(document))["cells"]) == ["mine", "theirs"]


@pytest.mark.proves("fault:disk-full")
async def test_an_edit_that_cannot_be_saved_is_taken_back_and_nothing_else(
    bench: DocumentBench,
) -> None:
    document = await bench.open(notebook(code("a", "aaaa1111"), code("b" * 9_000, "bbbb2222")))
    await document.read()
    await bench.person.type(document.path, 0, " typed")
    with no_file_larger_than(8_000), pytest.raises(DiskFull):
        await document.apply(
            [Replace("aaaa1111", "mine"), Delete("bbbb2222"), Insert(CellContent("code", "new"))]
        )
    assert sources((await document.read()).cells) == ["a typed", "b" * 9_000]
    assert sources((await bench.on_disk(document))["cells"]) == ["a typed", "b" * 9_000]


async def test_a_notebook_of_an_old_format_is_not_converted_by_being_looked_at(
    bench: DocumentBench,
) -> None:
    path = bench.put(OLD)
    before = (bench.root / path).read_bytes()
    shared = await live(bench, path)  # A person has it open: JupyterLab shows it converted.
    document = await bench.store.open(path)
    assert document.backend == "file"
    assert (await document.read()).nbformat == (3, 0)
    assert (bench.root / path).read_bytes() == before
    shared.ycells[0]["source"].insert(0, "!")  # Now they edit, and so convert it.
    await bench.settle(path)
    document = await bench.store.open(path)
    assert document.backend == "room"
    assert (await document.read()).nbformat[0] == 4


# --- a browser


@pytest_asyncio.fixture(loop_scope="module")
async def address(app: ServerApp) -> AsyncIterator[str]:
    async with listening(app) as address:
        yield address


@pytest.mark.proves("ext:rtc", "fault:concurrent-edit")
async def test_a_browser_sees_everything_and_may_leave_in_the_middle(
    bench: DocumentBench, app: ServerApp, address: str
) -> None:
    document = await bench.open(notebook(code("a", "aaaa1111"), prose("b", "bbbb2222")))
    browser, socket = await browse(app, address, document.path)
    async with Provider(browser.notebook.ydoc, browser):
        await browser.sees(lambda shared: len(shared.ycells) == 2)
        await document.apply([Replace("aaaa1111", "from the agent")])
        await browser.sees(lambda shared: str(shared.ycells[0]["source"]) == "from the agent")
        text = browser.notebook.ycells[1]["source"]
        text.insert(len(text), " from the browser")
        notified = asyncio.Event()
        stop = bench.store.subscribe(document.path, notified.set)
        await asyncio.wait_for(notified.wait(), DEADLINE)
        stop()
        assert sources((await document.read()).cells) == ["from the agent", "b from the browser"]
        async with document.writing("aaaa1111") as writer:
            await writer.start()
            await writer.write([Append(stream("while it was there"))])
            await browser.sees(lambda shared: len(shared.ycells[0]["outputs"]) == 1)
            socket.close()
            room = room_of(app, document.path)
            await writer.write([StreamEdit(0, 18, " and after")])
            await writer.finish(1)
    assert await document.outputs("aaaa1111") == (stream("while it was there and after"),)
    await bench.settle(document.path)
    assert room_of(app, document.path) is room
    again, socket = await browse(app, address, document.path)
    async with Provider(again.notebook.ydoc, again):
        await again.sees(
            lambda shared: (
                len(shared.ycells) == 2
                and shared.get() == room._document.get()
                and str(shared.ycells[0]["outputs"][0]["text"]) == "while it was there and after"
            )
        )
        socket.close()
