"""Which cell the outputs of a run belong to while other programs change the notebook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.document_bench import DocumentBench, code, notebook, stream
from tk_ai_extension.model.cells import Cell, Snapshot, cell_keys
from tk_ai_extension.model.outputs import Append, StreamEdit
from tk_ai_extension.notebooks.outputs import RunningOutputs

NUMBERED = [f"cell-{number}" for number in range(6)]
IDS = st.one_of(st.sampled_from(NUMBERED), st.none(), st.sampled_from(["aaaa1111", "bbbb2222"]))


@dataclass(frozen=True)
class Stored:
    """A cell as a program stores it; ``is_run`` marks the one that runs."""

    id: str | None
    source: str
    is_run: bool = False


def snapshot(stored: Sequence[Stored]) -> Snapshot:
    keys = cell_keys([cell.id for cell in stored])
    return Snapshot(
        "n.ipynb",
        tuple(
            Cell(index, key, "code", cell.source, id=cell.id)
            for index, (key, cell) in enumerate(zip(keys, stored, strict=True))
        ),
    )


def changed(data: st.DataObject, stored: list[Stored]) -> list[Stored]:
    """The cells after one random change by another program."""
    at = data.draw(st.integers(0, len(stored) - 1))
    to = data.draw(st.integers(0, len(stored)))
    cells = list(stored)
    match data.draw(st.sampled_from(["copy", "edit", "delete", "insert", "move"])):
        case "copy":
            cells.insert(to, replace(cells[at], id=data.draw(IDS), is_run=False))
        case "edit":
            cells[at] = replace(cells[at], source=data.draw(st.sampled_from("abc")))
        case "delete" if not cells[at].is_run:
            del cells[at]
        case "insert":
            cells.insert(to, Stored(data.draw(IDS), data.draw(st.sampled_from("abc"))))
        case _:
            cells.insert(to, cells.pop(at))
    return cells


@pytest.mark.proves("exec:own-source")
@given(st.data())
def test_a_cell_that_had_a_unique_id_is_found_by_it_whatever_others_write(
    data: st.DataObject,
) -> None:
    ids = data.draw(st.lists(IDS, min_size=1, max_size=4))
    stored = [Stored(cell_id, data.draw(st.sampled_from("abc"))) for cell_id in ids]
    place = data.draw(st.integers(0, len(stored) - 1))
    stored[place] = replace(stored[place], is_run=True)
    began = snapshot(stored)
    run = RunningOutputs(began.cells[place], len(stored))
    had_id = not began.cells[place].is_numbered
    for _ in range(data.draw(st.integers(1, 4))):
        stored = changed(data, stored)
        now = snapshot(stored)
        place = next(index for index, cell in enumerate(stored) if cell.is_run)
        has_id = [cell.id for cell in stored].count(stored[place].id) == 1
        if had_id:
            found = run.find(now)
            assert found is not None
            assert found.id == stored[place].id
            assert found.index == place or not has_id
        if data.draw(st.booleans()):
            # As after an edit by an agent, or in a tab or room that was opened again.
            run.relocate(now.cells[place], len(stored))
            had_id = had_id or not now.cells[place].is_numbered


@pytest.mark.proves("exec:own-source", "doc:minor-version")
@given(st.data())
def test_a_cell_that_never_had_an_id_is_found_by_its_source(data: st.DataObject) -> None:
    stored = [Stored(None, source) for source in data.draw(st.permutations("abcd"))]
    run = RunningOutputs(snapshot(stored).cells[0], len(stored))
    source = stored[0].source
    for _ in range(3):
        new = Stored(data.draw(IDS), data.draw(st.sampled_from("xyz")))
        stored = [*data.draw(st.permutations(stored)), new]
        found = run.find(snapshot(stored))
        assert found is not None
        assert found.source == source


@pytest.mark.proves("exec:own-source")
@given(st.data())
def test_only_a_run_of_the_same_cell_replaces_a_run(data: st.DataObject) -> None:
    ids = data.draw(st.lists(IDS, min_size=2, max_size=5))
    cells = snapshot([Stored(cell_id, data.draw(st.sampled_from("ab"))) for cell_id in ids]).cells
    runs = [RunningOutputs(cell, len(cells)) for cell in cells]
    assert all(one.is_same_cell(other) == (one is other) for one in runs for other in runs)


@pytest.mark.proves("exec:own-source", "exec:saved")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("ids", [("cell-0", "cell-1"), ("cell-1", "cell-0"), ("aa-0", "aa-1")])
async def test_outputs_stay_in_the_cell_that_ran_when_a_person_copies_and_changes_it(
    bench: DocumentBench, ids: tuple[str, str]
) -> None:
    document = await bench.open(notebook(code("first", ids[0]), code("train()", ids[1])))
    async with document.writing(ids[1]) as writer:
        await writer.start()
        await writer.write([Append(stream("one "))])
        assert await document.outputs(ids[1]) == (stream("one "),)
        await bench.person.insert(document.path, 2, "train()")
        await bench.person.type(document.path, 1, " # changed")
        await writer.write([StreamEdit(0, 4, "two")])
        await writer.finish(2)
    assert await document.outputs(ids[1]) == (stream("one two"),)
    cells = (await bench.on_disk(document))["cells"]
    assert [len(cell["outputs"]) for cell in cells] == [0, 1, 0]
