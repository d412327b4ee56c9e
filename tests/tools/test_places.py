"""An index means the place that the operation finds; a negative one counts from the end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.harness import ALICE, BOB, ToolHarness
from tests.workspace.list_notebook import ListNotebook
from tk_ai_extension.model.cells import CellContent
from tk_ai_extension.model.errors import InvalidArguments, PermissionRequired
from tk_ai_extension.model.operations import (
    Delete,
    Insert,
    Move,
    Operation,
    check_places,
    expecting,
)
from tk_ai_extension.notebooks.transactions import anchored
from tk_ai_extension.tools.context import ToolContext

pytestmark = pytest.mark.proves("edit:tools", "edit:batch")

ASK = replace(ALICE, mode="ask")
NAMES = ["a", "b", "c", "d"]
_NAME = st.sampled_from(NAMES)
_INDEX = st.integers(-6, 6)
_OPERATION = st.one_of(
    st.builds(lambda at: {"action": "insert", "index": at}, _INDEX | st.none()),
    st.builds(lambda name: {"action": "delete", "cell": name}, _NAME),
    st.builds(lambda name, to: {"action": "move", "cell": name, "to": to}, _NAME, _INDEX),
)
_OPERATIONS = st.lists(_OPERATION, min_size=1, max_size=5)


def at_end(index: int, count: int) -> int:
    return index + count if index < 0 else index


def apply_to_list(order: list[str], operations: list[dict[str, Any]]) -> list[int] | None:
    """Apply operations to a list, and return their places; None if one is impossible."""
    places: list[int] = []
    for number, operation in enumerate(operations):
        match operation:
            case {"action": "insert", "index": index}:
                place = len(order) if index is None else at_end(index, len(order) + 1)
                if not 0 <= place <= len(order):
                    return None
                order.insert(place, f"new{number}")
            case {"cell": cell} if cell not in order:
                return None
            case {"action": "delete", "cell": cell}:
                place = order.index(cell)
                order.remove(cell)
            case {"cell": cell, "to": to}:
                place = at_end(to, len(order))
                if not 0 <= place < len(order):
                    return None
                order.remove(cell)
                order.insert(place, cell)
            case _:
                raise AssertionError(operation)
        places.append(place)
    return places


def planned(operations: list[dict[str, Any]], keys: dict[str, str]) -> list[Operation]:
    found: list[Operation] = []
    for number, each in enumerate(operations):
        match each:
            case {"action": "insert", "index": index}:
                found.append(Insert(CellContent("code", f"new{number}"), index=index))
            case {"action": "delete", "cell": cell}:
                found.append(Delete(keys[cell]))
            case _:
                found.append(Move(keys[each["cell"]], each["to"]))
    return found


def possible(operations: list[dict[str, Any]]) -> bool:
    """Whether no operation names a deleted cell, and every index is in range."""
    return apply_to_list(list(NAMES), operations) is not None


def sources(notebook: ListNotebook) -> list[str]:
    return [cell.source for cell in notebook.cells]


INSERT_THEN_LAST = [
    {"action": "insert", "index": None},
    {"action": "move", "cell": "a", "to": -1},
]
DELETE_THEN_LAST = [
    {"action": "delete", "cell": "b"},
    {"action": "move", "cell": "a", "to": -1},
]


@given(operations=_OPERATIONS, theirs=st.lists(st.integers(0, 4), max_size=2), ids=st.booleans())
@example(operations=INSERT_THEN_LAST, theirs=[], ids=True)
@example(operations=DELETE_THEN_LAST, theirs=[], ids=True)
@example(operations=[{"action": "insert", "index": -2}], theirs=[4], ids=True)
def test_a_commit_puts_cells_where_a_plain_list_does(
    operations: list[dict[str, Any]], theirs: list[int], ids: bool
) -> None:
    """Others may insert cells between the plan and the commit, if cells have ids."""
    cells = [CellContent("code", name, f"{name}{name}" if ids else None) for name in NAMES]
    notebook = ListNotebook(cells, ids=ids)
    snapshot = notebook.snapshot()
    keys = {cell.source: cell.key for cell in snapshot.cells}
    plan = expecting(snapshot, planned(operations, keys))
    if possible(operations):
        check_places(snapshot, plan)
    for number, at in enumerate(theirs if ids else []):
        notebook.apply([Insert(CellContent("code", f"theirs{number}"), index=at)])
    before, order = sources(notebook), sources(notebook)
    places = apply_to_list(order, operations)
    draft = notebook.draft()
    if places is None:
        with pytest.raises(Exception, match=r"out of range|deleted by an earlier"):
            draft.apply(plan)
        assert sources(notebook) == before
        return
    draft.apply(plan)
    assert [change.index for change in notebook.take(draft)] == places
    assert sources(notebook) == order


def has_indexes(operations: list[dict[str, Any]]) -> bool:
    return all(each.get("index", 0) is not None for each in operations)


@given(operations=_OPERATIONS.filter(possible).filter(has_indexes))
def test_anchored_operations_do_the_same(operations: list[dict[str, Any]]) -> None:
    notebook = ListNotebook([CellContent("code", name, f"{name}{name}") for name in NAMES])
    snapshot = notebook.snapshot()
    plan = planned(operations, {cell.source: cell.key for cell in snapshot.cells})
    order = list(NAMES)
    apply_to_list(order, operations)
    notebook.apply(anchored(snapshot, plan))
    assert sources(notebook) == order


@pytest.mark.parametrize(
    ("operations", "order", "places"),
    [
        (INSERT_THEN_LAST, ["b", "c", "d", "new0", "a"], [4, 4]),
        (DELETE_THEN_LAST, ["c", "d", "a"], [1, 2]),
        (
            [*INSERT_THEN_LAST, {"action": "insert", "index": -2}],
            ["b", "c", "d", "new0", "new2", "a"],
            [4, 4, 4],
        ),
    ],
)
@pytest.mark.proves("perm:plan")
async def test_a_proposal_and_the_answer_show_the_place(
    harness: ToolHarness,
    operations: list[dict[str, Any]],
    order: list[str],
    places: list[int],
) -> None:
    harness.write("n.ipynb", *NAMES)
    await harness.call("read_notebook", notebook="n.ipynb")
    await harness.call("read_notebook", notebook="n.ipynb", caller=ASK)
    calls = [
        {
            **{key: value for key, value in each.items() if value is not None},
            **({"cell": NAMES.index(each["cell"])} if "cell" in each else {}),
            **({"source": f"new{number}"} if each["action"] == "insert" else {}),
        }
        for number, each in enumerate(operations)
    ]
    call: dict[str, Any] = {"notebook": "n.ipynb", "operations": calls}
    with pytest.raises(PermissionRequired) as raised:
        await harness.call("edit_cells", caller=ASK, **call)
    (request,) = (
        each
        for each in harness.workspace.policy.pending("alice")
        if each.id == raised.value.details["permission_id"]
    )
    for step, place in zip(request.proposal.steps, places, strict=True):
        assert step.kind == "delete" or step.to == place
        assert step.kind != "move" or step.title.endswith(f"to position {place + 1}")
    result = await harness.call("edit_cells", **call)
    assert harness.sources("n.ipynb") == order
    assert [each.index for each in result.changes if each.action == "move"] == [order.index("a")]


@pytest.mark.parametrize(
    ("tool", "arguments", "order"),
    [
        ("move_cell", {"cell": 0, "to": -1}, ["b", "c", "d", "theirs", "a"]),
        ("move_cell", {"cell": 0, "to": -2}, ["b", "c", "d", "a", "theirs"]),
        ("insert_cell", {"source": "new", "index": -1}, ["a", "b", "c", "d", "theirs", "new"]),
        ("insert_cell", {"source": "new", "index": -2}, ["a", "b", "c", "d", "new", "theirs"]),
        ("insert_cell", {"source": "new", "index": 4}, ["a", "b", "c", "d", "new", "theirs"]),
    ],
)
async def test_an_index_from_the_end_counts_cells_that_others_add_before_the_commit(
    harness: ToolHarness, tool: str, arguments: dict[str, Any], order: list[str]
) -> None:
    harness.write("n.ipynb", *NAMES)
    definition = harness.registry.get(tool)
    context = ToolContext(harness.workspace, ALICE)
    parsed = harness.registry.validate(definition, {"notebook": "n.ipynb", **arguments})
    given = {key: getattr(parsed, key) for key in definition.parameters}
    plan = await definition.function(context, **given)
    await harness.call("insert_cell", notebook="n.ipynb", source="theirs", caller=BOB)
    assert definition.carry_out is not None
    await definition.carry_out(context, plan, tool)
    assert harness.sources("n.ipynb") == order
    await harness.call("undo", notebook="n.ipynb")
    assert harness.sources("n.ipynb") == [*NAMES, "theirs"]


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("move_cell", {"cell": 0, "to": 4}, "`to` 4 is out of range: n.ipynb has 4 cells."),
        ("move_cell", {"cell": 0, "to": -5}, "`to` -5 is out of range: n.ipynb has 4 cells."),
        (
            "insert_cell",
            {"source": "x", "index": -6},
            "`index` -6 is out of range for n.ipynb. Use 0 to 4.",
        ),
        (
            "insert_and_execute_cell",
            {"source": "x", "index": 5},
            "`index` 5 is out of range for n.ipynb. Use 0 to 4.",
        ),
    ],
)
async def test_an_index_out_of_range_is_refused_before_anything_is_done(
    harness: ToolHarness, tool: str, arguments: dict[str, Any], message: str
) -> None:
    harness.write("n.ipynb", *NAMES)
    with pytest.raises(InvalidArguments) as raised:
        await harness.call(tool, notebook="n.ipynb", **arguments)
    assert raised.value.message == message
    assert (await harness.call("notebook_history", notebook="n.ipynb")).entries == []
