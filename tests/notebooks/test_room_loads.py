"""Files that a room's shared document has no form for: odd numbers are converted, the rest is refused."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import strategies as st
from jupyter_server.serverapp import ServerApp

from tests.notebooks.conftest import room_bench, running_server
from tests.notebooks.test_odd_numbers import drawn, numbers, strict
from tests.support.document_bench import (
    DEADLINE,
    DocumentBench,
    code,
    notebook,
    prose,
    sources,
    written,
)
from tk_ai_extension.model.cells import CellContent
from tk_ai_extension.model.errors import InvalidNotebook
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.operations import Insert, Move, Replace

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServerApp]:
    async with running_server(tmp_path_factory.mktemp("rooms")) as app:
        yield app


@pytest_asyncio.fixture(loop_scope="module")
async def room(app: ServerApp) -> AsyncIterator[DocumentBench]:
    async with room_bench(app) as bench:
        yield bench


PLACES: dict[str, Callable[[Json, Any], None]] = {
    "notebook": lambda stored, value: stored["metadata"].update(own=value),
    "cell": lambda stored, value: stored["cells"][0]["metadata"].update(own=[value]),
    "field": lambda stored, value: stored["cells"][1].update(own={"a": value}),
    "count": lambda stored, value: stored["cells"][0].update(execution_count=value),
    "output": lambda stored, value: stored["cells"][0]["outputs"].append(
        {"output_type": "display_data", "data": {"application/json": value}, "metadata": {}}
    ),
    "attachments": lambda stored, value: stored["cells"][1].update(attachments={"a": {"b": value}}),
}
places = st.sampled_from(sorted(PLACES))


def with_value(place: str, value: Any, *names: str) -> bytes:
    stored = notebook(code(names[0], "aaaa1111"), prose(names[1], "bbbb2222"))
    PLACES[place](stored, value)
    return json.dumps(stored).encode()


@pytest.mark.proves("doc:lenient", "fault:concurrent-edit")
async def test_a_notebook_with_any_number_is_opened_reloaded_changed_and_saved_in_a_room(
    room: DocumentBench,
) -> None:
    for place, value, other in drawn(8, st.tuples(places, numbers, numbers)):
        document = await room.open(with_value(place, value, "a", "b"))
        await room.person.type(document.path, 0, " typed")
        await document.apply([Move("bbbb2222", 0), Replace("aaaa1111", "mine")])
        await room.settle(document.path)
        file = room.root / document.path
        assert sources(strict(file.read_bytes())["cells"]) == ["b", "mine"]
        if place in {"notebook", "cell", "field"} and isinstance(value, int) and abs(value) < 2**62:
            assert str(value) in file.read_text()
        file.write_bytes(with_value(place, other, "theirs", "b"))
        os.utime(file)
        await document.apply([Insert(CellContent("code", "c"))])
        await room.person.type(document.path, 1, " typed")
        await room.settle(document.path)
        assert sources(strict(file.read_bytes())["cells"]) == ["theirs", "b typed", "c"]


FAULTS: list[Callable[[Json], Any]] = [
    lambda cell: cell.update(metadata={"own": "\ud83d"}),
    lambda cell: cell.pop("source"),
    lambda cell: cell.update(source={"a": 1}),
    lambda cell: cell.update(outputs=["text"]),
]


@pytest.mark.proves("doc:errors")
async def test_a_file_that_no_room_can_take_is_refused_until_it_is_repaired(
    room: DocumentBench,
) -> None:
    for fault in FAULTS:
        stored = notebook(code("a", "aaaa1111"), code("b", "bbbb2222"))
        good = written(stored)
        fault(stored["cells"][1])
        broken = json.dumps(stored).encode()
        document = await room.open(broken)
        file = room.root / document.path
        async with asyncio.timeout(DEADLINE):
            for _ in range(2):
                with pytest.raises(InvalidNotebook):
                    await document.apply([Replace("aaaa1111", "mine")])
            assert file.read_bytes() == broken
            file.write_bytes(good)
            assert sources((await document.read()).cells) == ["a", "b"]
