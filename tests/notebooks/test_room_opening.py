"""The opening of a room: its caller is cancelled, it was open before, or its file changed."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any

import pytest
import pytest_asyncio
from jupyter_server.serverapp import ServerApp

from tests.notebooks.conftest import room_bench, running_server
from tests.notebooks.test_failed_room_saves import room_of
from tests.support.document_bench import (
    DEADLINE,
    DocumentBench,
    code,
    notebook,
    sources,
    stream,
    written,
)
from tk_ai_extension.model.outputs import Append

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.proves("fault:concurrent-edit", "ext:rtc"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=[False, True])
async def app(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ServerApp]:
    config = {
        "YDocExtension": {
            "document_cleanup_delay": 0.05,
            "document_load_progressively": request.param,
        }
    }
    async with running_server(tmp_path_factory.mktemp("rooms"), **config) as app:
        yield app


@pytest_asyncio.fixture(loop_scope="module")
async def bench(app: ServerApp) -> AsyncIterator[DocumentBench]:
    async with room_bench(app) as bench:
        yield bench


async def cleaned(app: ServerApp, path: str) -> None:
    """Wait until the notebook's room, which nobody uses, is cleaned."""
    while (room := room_of(app, path)) is not None:
        await asyncio.wait([room.cleaner], timeout=DEADLINE)


async def test_a_cancelled_opening_leaves_no_room_and_no_second_copy(
    bench: DocumentBench, app: ServerApp
) -> None:
    """At each step of the opening, and with another program's write before the next one."""
    for steps in range(0, 40, 3):
        document = await bench.open(notebook(code("a", "aaaa1111")))
        reading = asyncio.create_task(document.read())
        for _ in range(steps):
            await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait([reading])
        (bench.root / document.path).write_bytes(written(notebook(code("new", "aaaa1111"))))
        if (room := room_of(app, document.path)) is not None:
            await room._file.maybe_notify()  # As its watcher does.
        again = await bench.store.open(document.path)
        async with asyncio.timeout(DEADLINE):
            assert sources((await again.read()).cells) == ["new"]
            await cleaned(app, document.path)


async def test_a_room_opens_as_often_as_it_is_closed(bench: DocumentBench, app: ServerApp) -> None:
    document = await bench.open(notebook(code("a", "aaaa1111")))
    for number in range(3):
        async with asyncio.timeout(DEADLINE):
            document = await bench.store.open(document.path)
            assert sources((await document.read()).cells) == ["a"]
            async with document.writing("aaaa1111") as writer:
                await writer.start()
                await writer.write([Append(stream(f"{number}"))])
                await writer.finish(number)
            await cleaned(app, document.path)
        stored = json.loads((bench.root / document.path).read_bytes())
        assert stored["cells"][0]["outputs"][0]["text"] == [f"{number}"]


async def test_what_another_program_writes_is_read_and_run_at_once(bench: DocumentBench) -> None:
    document = await bench.open(notebook(code("a", "aaaa1111")))
    await document.read()
    for text in ("b", "c"):
        (bench.root / document.path).write_bytes(written(notebook(code(text, "aaaa1111"))))
        if text == "b":
            assert sources((await document.read()).cells) == [text]
        async with document.writing("aaaa1111") as writer:
            located: Any = writer
            assert located.cell.source == text


async def test_a_room_that_is_closed_while_its_history_is_written_does_not_lock_it(
    bench: DocumentBench, app: ServerApp
) -> None:
    """The database of the history is one for all rooms."""
    document = await bench.open(notebook(code("a", "aaaa1111")))
    await document.read()
    room = room_of(app, document.path)
    writing, commit = asyncio.Event(), room.ystore._db.commit

    async def slow_commit() -> None:
        writing.set()
        for _ in range(5):
            await asyncio.sleep(0)
        await commit()

    room.ystore._db.commit = slow_commit
    await bench.person.type(document.path, 0, " typed")
    await asyncio.wait_for(writing.wait(), DEADLINE)
    server: Any = app.web_app.settings["jupyter_server_ydoc"].ywebsocket_server
    await server.delete_room(room=room)
    with closing(sqlite3.connect(".jupyter_ystore.db", timeout=0)) as history:
        history.execute("BEGIN IMMEDIATE")
