"""A room's content is replaced, or its outputs by a person, while a cell runs in it."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st
from jupyter_ydoc import YNotebook

from tests.notebooks.conftest import room_bench, running_server
from tests.support.document_bench import (
    DocumentBench,
    code,
    display,
    notebook,
    stream,
)
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.outputs import Append, ClearOutputs, ReplaceOutput, StreamEdit
from tk_ai_extension.notebooks.output_writer import CellOutputWriter
from tk_ai_extension.notebooks.rooms.live import LiveNotebook, RoomRun
from tk_ai_extension.notebooks.rooms.room_outputs import RoomOutputSink, shared_output
from tk_ai_extension.notebooks.running_outputs import RunningOutputs

KINDS = st.sampled_from(["stdout", "stderr", "display"])


class SharedNotebook:
    """What a sink needs of a room, whose content other programs replace."""

    path = "n.ipynb"

    def __init__(self, minor: int) -> None:
        self.document = YNotebook()
        self.minor = minor
        self.notebook = LiveNotebook(self.document, lambda: None)
        self.writing: list[RoomRun] = []
        self.load(())

    def load(self, outputs: Sequence[Json]) -> None:
        ran = code("a", "aaaa1111" if self.minor >= 5 else None, outputs=list(outputs))
        content = notebook(code("first"), ran, minor=self.minor)
        for cell in content["cells"]:
            cell["source"] = "".join(cell["source"])
        self.document.set(content)
        for run in self.writing:
            run.restore()

    def save_soon(self) -> None:
        """Nothing is saved here."""

    async def wait_until_loaded(self) -> None:
        """A reload is made in one go here."""


class RoomMachine:
    """A run and what happens around it, drawn at random; each text is another word."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.room = SharedNotebook(data.draw(st.sampled_from([4, 5])))
        self.words = (f"<{number}>" for number in itertools.count())
        cell = self.room.notebook.snapshot("n.ipynb").cells[1]
        room: Any = self.room
        self.run = RunningOutputs(cell, 2)
        self.sink = RoomOutputSink(room, cell, "test", AsyncExitStack())
        self.written: list[Json] = []
        self.foreign: list[Json] | None = None
        self.banned: set[str] = set()

    def output(self, kind: str) -> Json:
        word = next(self.words)
        return display(text_plain=word) if kind == "display" else stream(word, kind)

    @property
    def cell(self) -> Any:
        cells = self.room.document.ycells
        return next(cell for cell in cells if str(cell["source"]).startswith("a"))

    def present(self) -> list[Json]:
        return joined(self.cell["outputs"].to_py())

    # --- what happens

    async def append(self) -> None:
        self.written.append(self.output(self.data.draw(KINDS)))
        await self.push(Append(self.written[-1]))

    async def edit(self) -> None:
        streams = [at for at, each in enumerate(self.written) if "text" in each]
        if not streams:
            return
        at = streams[-1]
        text = self.written[at]["text"]
        start = self.data.draw(st.sampled_from([len(text), text.rfind("<")]))
        new = next(self.words)
        self.written[at] = {**self.written[at], "text": text[:start] + new}
        await self.push(StreamEdit(at, start, new))

    async def replace(self) -> None:
        displays = [at for at, each in enumerate(self.written) if "data" in each]
        if displays:
            at = self.data.draw(st.sampled_from(displays))
            self.written[at] = self.output("display")
            await self.push(ReplaceOutput(at, self.written[at]))

    async def clear(self) -> None:
        self.written = []
        await self.push(ClearOutputs())
        self.foreign, self.banned = None, set()

    async def reload(self) -> None:
        kinds = self.data.draw(st.lists(KINDS, max_size=3))
        self.room.load(joined([self.output(kind) for kind in kinds]))
        assert self.present() == joined(self.run.outputs())
        self.foreign = [] if self.run.is_hidden else None
        self.banned = set(words_of(self.written)) - set(words_of(self.run.outputs()))

    async def person_clears(self) -> None:
        outputs = self.cell["outputs"]
        kinds = self.data.draw(st.lists(KINDS, max_size=len(outputs)))
        self.banned |= set(words_of(self.written))
        self.foreign = joined([self.output(kind) for kind in kinds])
        outputs.clear()
        outputs.extend([shared_output(each) for each in self.foreign])
        self.cell["metadata"]["trusted"] = True

    async def person_moves(self) -> None:
        cells = self.room.document.ycells
        at = 0 if str(cells[0]["source"]).startswith("a") else 1
        stored = cells[at].to_py()
        with self.room.document.ydoc.transaction():
            del cells[at]
            cells.insert(1 - at, self.room.document.create_ycell(stored))

    async def push(self, change: Any) -> None:
        self.run.pending.append(change)
        await self.sink.push_outputs(self.run)
        assert not self.cell["metadata"].get("trusted")

    # --- what holds

    def check(self) -> None:
        if self.foreign is None:
            assert self.present() == joined(self.run.outputs())
            return
        text = json.dumps(self.present())
        assert not [word for word in self.banned if word in text]
        assert all(word in text for word in words_of(self.foreign))
        later = set(words_of(self.run.outputs())) - self.banned
        assert all(word in text for word in later)

    async def play(self) -> None:
        await self.sink.begin(self.run)
        steps = [
            self.append,
            self.append,
            self.edit,
            self.replace,
            self.clear,
            self.reload,
            self.person_clears,
            self.person_moves,
        ]
        for _ in range(self.data.draw(st.integers(1, 12))):
            await self.data.draw(st.sampled_from(steps))()
            self.check()
        self.run.end(5)
        await self.sink.end(self.run, save=True)
        if self.data.draw(st.booleans()):
            await self.reload()
        self.check()
        assert (self.cell["execution_count"], self.cell["execution_state"]) == (5, "idle")
        await self.sink.release(self.run, done=True)
        assert self.room.writing == []


def words_of(outputs: Sequence[Json]) -> list[str]:
    text = json.dumps(list(outputs))
    return [f"<{part.partition('>')[0]}>" for part in text.split("<")[1:]]


def joined(outputs: Sequence[Json]) -> list[Json]:
    """Outputs with neighbours that are streams of one name joined, as JupyterLab does."""
    done: list[Json] = []
    for output in outputs:
        if "text" in output and done and done[-1].get("name") == output["name"]:
            done[-1] = {**done[-1], "text": str(done[-1]["text"]) + str(output["text"])}
        else:
            done.append({**output, "text": str(output["text"])} if "text" in output else output)
    return done


@pytest.mark.proves("exec:own-source", "exec:saved", "ext:rtc", "threat:html")
@settings(deadline=None)
@given(st.data())
def test_a_cell_has_the_outputs_of_its_run_or_after_a_clear_only_later_ones(
    data: st.DataObject,
) -> None:
    asyncio.run(RoomMachine(data).play())


# --- with a server


@pytest_asyncio.fixture
async def rooms(tmp_path: Path) -> AsyncIterator[DocumentBench]:
    async with running_server(tmp_path) as app, room_bench(app) as made:
        yield made


@pytest.mark.proves("exec:own-source", "exec:saved", "ext:rtc")
@pytest.mark.parametrize("old", [stream("OLD RUN\n"), display(text_plain="old")])
@pytest.mark.parametrize("goes_on", [True, False])
async def test_outputs_are_written_again_over_those_of_a_file_that_another_program_replaced(
    rooms: DocumentBench, old: Json, goes_on: bool
) -> None:
    committed = notebook(code("a", "aaaa1111", execution_count=3, outputs=[old]))
    document = await rooms.open(committed)
    async with document.writing("aaaa1111") as writer:
        await writer.start()
        await writer.write([Append(stream("new1\n"))])
        assert await document.outputs("aaaa1111") == (stream("new1\n"),)
        assert (await rooms.on_disk(document))["cells"][0]["outputs"] != [old]
        rooms.put(committed, document.path)
        store: Any = rooms.store
        await store._rooms.find(document.path).reload_if_changed()
        assert await document.outputs("aaaa1111") == (stream("new1\n"),)
        if goes_on:
            await writer.write([StreamEdit(0, 5, "new2\n")])
        await writer.finish(4)
    expected = "new1\nnew2\n" if goes_on else "new1\n"
    assert await document.outputs("aaaa1111") == (stream(expected),)
    cell = (await rooms.on_disk(document))["cells"][0]
    assert ("".join(cell["outputs"][0]["text"]), cell["execution_count"]) == (expected, 4)


@pytest.mark.proves("exec:own-source", "ext:rtc")
async def test_outputs_that_come_during_a_reload_wait_for_its_end(rooms: DocumentBench) -> None:
    cells = [code("a", "aaaa1111", outputs=[stream("old")]), *(code(f"{n}") for n in range(50))]
    document = await rooms.open(notebook(*cells))
    async with document.writing("aaaa1111") as writer:
        await writer.start()
        await writer.write([Append(stream("0;"))])
        assert await document.outputs("aaaa1111") == (stream("0;"),)
        store: Any = rooms.store
        room = store._rooms.find(document.path)
        rooms.put(notebook(*cells[:1], *(code(f"new {n}") for n in range(50))), document.path)
        reload = asyncio.create_task(room.reload_if_changed())
        text = "0;"
        assert isinstance(writer, CellOutputWriter)
        while not reload.done():
            await writer.write([StreamEdit(0, len(text), "1;")])
            text += "1;"
            await writer.deliver()
            await asyncio.wait([reload], timeout=0)
        await reload
        await writer.finish(4)
    assert await document.outputs("aaaa1111") == (stream(text),)
