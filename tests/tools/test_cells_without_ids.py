"""In notebooks whose format has no cell ids, a number is never taken for the cell that had it before."""

from __future__ import annotations

import ast
import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import ALICE, BOB, ToolHarness
from tests.workspace.list_notebook import ListNotebook
from tk_ai_extension.model import cells as cells_module
from tk_ai_extension.model.cells import CellContent
from tk_ai_extension.model.errors import CellNotFound, Conflict, InvalidArguments
from tk_ai_extension.model.operations import (
    Delete,
    Insert,
    Move,
    Operation,
    Replace,
    SetOutputs,
    expecting,
)

pytestmark = pytest.mark.proves("doc:conflict")

OUTPUT = {"output_type": "stream", "name": "stdout", "text": ["out\n"]}


# --- between the plan and its commit


def named(choice: str, key: str, content: CellContent) -> Operation:
    """An operation that names a cell, or has it as an anchor."""
    match choice:
        case "move":
            return Move(key, 0)
        case "outputs":
            return SetOutputs(key)
        case "after":
            return Insert(content, after=key)
        case "before":
            return Insert(content, before=key)
        case "delete":
            return Delete(key)
        case _:
            return Replace(key, "mine")


CHOICES = ["move", "outputs", "after", "before", "delete", "replace"]


@given(data=st.data())
def test_a_planned_operation_acts_on_its_cell_or_not_at_all(data: st.DataObject) -> None:
    ran = [CellContent("code", f"c{n}", execution_count=n, outputs=(OUTPUT,)) for n in range(1, 5)]
    notebook = ListNotebook(ran, ids=False)
    planned = notebook.snapshot()
    cell = data.draw(st.sampled_from(planned.cells))
    operation = named(data.draw(st.sampled_from(CHOICES)), cell.key, CellContent("code", "new"))
    for number in range(data.draw(st.integers(0, 3))):
        last = len(notebook.cells) - 1
        at = st.integers(0, last)
        theirs: list[Operation] = [
            Insert(CellContent("code", f"theirs{number}"), index=data.draw(at)),
            Move(f"cell-{data.draw(at)}", data.draw(at)),
            *([Delete(f"cell-{data.draw(at)}")] if last else []),
        ]
        notebook.apply([data.draw(st.sampled_from(theirs))])
    before = list(notebook.cells)
    draft = notebook.draft()
    try:
        draft.apply(expecting(planned, [operation]))
    except (Conflict, CellNotFound):
        assert notebook.cells == before
        return
    (change,) = notebook.take(draft)
    now = [each.source for each in notebook.cells]
    match operation:
        case Insert(after=str()):
            assert now[now.index("new") - 1] == cell.source
        case Insert():
            assert now[now.index("new") + 1] == cell.source
        case _:
            assert change.before is not None
            assert change.before.source == cell.source


@pytest.mark.parametrize("choice", CHOICES)
def test_an_operation_without_the_hash_is_refused(choice: str) -> None:
    notebook = ListNotebook([CellContent("code", "a"), CellContent("code", "b")], ids=False)
    with pytest.raises(InvalidArguments, match="hash"):
        notebook.draft().apply([named(choice, "cell-1", CellContent("code", "new"))])


# --- addresses


def put(harness: ToolHarness, name: str, count: int) -> Path:
    """A notebook of nbformat 4.4 in which each cell has run, and has a source of its own."""
    cells = [
        {
            "cell_type": "code",
            "source": f"c{number}",
            "metadata": {},
            "execution_count": number + 1,
            "outputs": [OUTPUT],
        }
        for number in range(count)
    ]
    path = harness.root / name
    stored = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    path.write_text(json.dumps(stored))
    return path


async def addresses(harness: ToolHarness, name: str) -> dict[str, str]:
    """The versioned address of each source."""
    document = await harness.workspace.store.open(name)
    snapshot = await document.read()
    return {cell.source: snapshot.address(cell) for cell in snapshot.cells}


def state(path: Path) -> list[tuple[str, bool]]:
    """The source of each cell, and whether it has outputs."""
    stored: Any = json.loads(path.read_text())
    return [("".join(cell["source"]), bool(cell.get("outputs"))) for cell in stored["cells"]]


CALLS: dict[str, Callable[[str], dict[str, Any]]] = {
    "move_cell": lambda address: {"cell": address, "to": 0},
    "clear_outputs": lambda address: {"cells": address},
    "insert_after": lambda address: {"source": "new", "after": address},
    "insert_before": lambda address: {"source": "new", "before": address},
    "execute_cell": lambda address: {"cell": address},
    "execute_cells": lambda address: {"cells": f"-1,{address}"},
    "delete_cell": lambda address: {"cell": address},
    "overwrite_cell": lambda address: {"cell": address, "source": "new"},
    "edit_cells": lambda address: {"operations": [{"action": "move", "cell": address, "to": 0}]},
}


@pytest.mark.parametrize("call", CALLS)
async def test_an_address_of_another_version_is_a_conflict(harness: ToolHarness, call: str) -> None:
    path = put(harness, "n.ipynb", 4)
    seen = await addresses(harness, "n.ipynb")
    await harness.call("insert_cell", notebook="n.ipynb", source="theirs", index=0, caller=BOB)
    before = path.read_bytes()
    tool = call.removesuffix("_after").removesuffix("_before")
    tool = "insert_cell" if tool == "insert" else tool
    with pytest.raises(Conflict, match="changed since that version") as raised:
        await harness.call(tool, notebook="n.ipynb", **CALLS[call](seen["c2"]))
    (cell,) = raised.value.details["cells"]
    assert (cell["cell"], cell["source"]) == ("cell-2", "c1")
    assert path.read_bytes() == before


@pytest.mark.parametrize("documents", ["file", "room"])
@pytest.mark.parametrize("seed", range(4))
async def test_concurrent_calls_act_on_the_cells_that_were_read(
    harness: ToolHarness, seed: int
) -> None:
    """Agents with addresses of one read call at once, while others insert and delete above."""
    random, name = Random(seed), "n.ipynb"
    path = put(harness, name, 8)
    for number in range(12):
        seen = await addresses(harness, name)
        before = dict(state(path))
        source = random.choice([each for each in seen if each.startswith("c")])
        other = random.choice([each for each in seen if each != source])
        tool, arguments = random.choice(
            [
                ("clear_outputs", {"cells": seen[source]}),
                ("insert_cell", {"source": f"new{number}", "after": seen[source]}),
                ("move_cell", {"cell": seen[source], "to": len(seen) - 1}),
            ]
        )
        theirs = random.choice(
            [
                ("insert_cell", {"source": f"theirs{number}", "index": 0}),
                ("move_cell", {"cell": seen[other], "to": random.choice([0, 1])}),
            ]
        )
        calls = [
            harness.call(tool, notebook=name, caller=ALICE, **arguments),
            harness.call(theirs[0], notebook=name, caller=BOB, **theirs[1]),
        ]
        random.shuffle(calls)
        results = await asyncio.gather(*calls, return_exceptions=True)
        failed = [each for each in results if isinstance(each, BaseException)]
        assert all(isinstance(each, Conflict | CellNotFound) for each in failed), failed
        now = state(path)
        sources = [each for each, _ in now]
        cleared = {each for each, has in now if before.get(each) and not has}
        assert cleared <= ({source} if tool == "clear_outputs" else set())
        if f"new{number}" in sources:
            assert sources[sources.index(f"new{number}") - 1] in {source, other}
            assert sources.count(f"new{number}") == 1


# --- no other way


def test_no_module_drops_the_version_of_an_address() -> None:
    """What acts on a cell uses `Snapshot.cell`, or the version that `Snapshot.find` returns."""
    package = Path(cells_module.__file__).parents[1]
    found: set[str] = set()
    for module in package.rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text("utf-8"))):
            match node:
                case ast.Subscript(value=ast.Call(func=ast.Attribute(attr="find" | "_find"))):
                    is_dropped = True
                case ast.Assign(
                    targets=[ast.Tuple(elts=[_, ast.Name(id="_")])],
                    value=ast.Call(func=ast.Attribute(attr="find")),
                ):
                    is_dropped = True
                case _:
                    is_dropped = False
            if is_dropped:
                found.add(module.relative_to(package).as_posix())
    # These only read, and say which cell they read.
    reads = {"tools/default/reading.py", "mcp/resources.py", "agent/context.py"}
    assert found <= reads
