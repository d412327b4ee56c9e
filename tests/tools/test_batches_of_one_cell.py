"""Operations of one batch on the same cells: each sees what those before it leave, and none is lost."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.harness import ALICE, ToolHarness
from tk_ai_extension.model.diffs import line_diff
from tk_ai_extension.model.errors import InvalidArguments, PermissionRequired, ToolError
from tk_ai_extension.model.proposals import diff_lines, marked

pytestmark = pytest.mark.proves("edit:batch")

ASK = replace(ALICE, mode="ask")
START = ["ab", "bc\nd", "ca"]

_TEXT = st.text("abc\n", min_size=1, max_size=3)
_CELL = st.integers(0, 2)
_OPERATION = st.one_of(
    st.builds(
        lambda cell, old, new: {"action": "edit", "cell": cell, "old": old, "new": new},
        _CELL,
        _TEXT,
        st.text("abc", max_size=2),
    ),
    st.builds(lambda c, s: {"action": "overwrite", "cell": c, "source": s}, _CELL, _TEXT),
    st.builds(lambda c: {"action": "delete", "cell": c}, _CELL),
    st.builds(lambda c, to: {"action": "move", "cell": c, "to": to}, _CELL, _CELL),
    st.builds(lambda s, c: {"action": "insert", "source": s, "after": c}, _TEXT, _CELL),
)
_OPERATIONS = st.lists(_OPERATION, min_size=1, max_size=5)


class Model:
    """The notebook as a plain list; each operation changes it before the next one is looked at."""

    def __init__(self) -> None:
        self.rows: list[list[Any]] = [[cell, source, False] for cell, source in enumerate(START)]
        self.sides: list[tuple[str | None, str | None]] = []

    def apply(self, operation: dict[str, Any]) -> bool:
        """Apply one operation; return whether it is possible."""
        name = operation["after"] if operation["action"] == "insert" else operation["cell"]
        row = next((row for row in self.rows if row[0] == name), None)
        if row is None:
            return False
        before: str = row[1]
        match operation:
            case {"action": "insert", "source": after}:
                self.rows.insert(self.rows.index(row) + 1, [None, after, True])
                self.sides.append((None, after))
                return True
            case {"action": "move", "to": to}:
                self.rows.remove(row)
                self.rows.insert(to, row)
                self.sides.append((before, before))
                return to < len(self.rows)
            case {"action": "delete"}:
                self.rows.remove(row)
                self.sides.append((before, None))
                return True
            case {"action": "overwrite", "source": after}:
                is_possible = not row[2]
            case {"old": old, "new": new}:
                is_possible, after = before.count(old) == 1, before.replace(old, new)
            case _:
                raise AssertionError(operation)
        row[1:] = [after, True]
        self.sides.append((before, after))
        return is_possible

    @property
    def written(self) -> list[str]:
        """The sources of inserted and changed cells, which are those that run."""
        return [source for _, source, is_written in self.rows if is_written]


def put(harness: ToolHarness, name: str, *, ids: bool) -> None:
    cells = [
        {
            "cell_type": "code",
            **({"id": f"cell{number}abc"} if ids else {}),
            "source": source,
            "metadata": {},
            "execution_count": None,
            "outputs": [],
        }
        for number, source in enumerate(START)
    ]
    stored = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5 if ids else 4}
    (harness.root / name).write_text(json.dumps(stored))


def lines(sources: tuple[str | None, str | None], *, runs: bool) -> Any:
    before, after = sources
    if before is None:
        return marked("+", after or "")
    return marked("-", before) if after is None else diff_lines(before, after, whole=runs)


async def check(harness: ToolHarness, name: str, operations: list[Any], *, ids: bool) -> None:
    """Compare the proposal, the answer and the notebook with the model."""
    put(harness, name, ids=ids)
    model = Model()
    is_possible = all(model.apply(operation) for operation in operations)
    await harness.call("read_notebook", notebook=name)
    file = harness.root / name
    before = file.read_bytes()
    call: dict[str, Any] = {"notebook": name, "operations": operations}
    if not is_possible:
        for caller in (ALICE, ASK):
            with pytest.raises(ToolError) as refused:
                await harness.call("edit_cells", caller=caller, **call)
            assert not isinstance(refused.value, PermissionRequired)
            assert file.read_bytes() == before
        return
    with pytest.raises(PermissionRequired) as raised:
        await harness.call("edit_cells", caller=ASK, run=True, **call)
    policy = harness.workspace.policy
    (request,) = (
        each for each in policy.pending("alice") if each.id == raised.value.details["permission_id"]
    )
    policy.answer("alice", request.id, "deny")
    policy.forget(ASK)
    steps = request.proposal.steps
    assert sorted(step.code for step in steps if step.runs) == sorted(model.written)
    for step, sides in zip(steps, model.sides, strict=True):
        assert step.kind == "move" or step.lines == lines(sides, runs=step.runs)
    assert file.read_bytes() == before

    result = await harness.call("edit_cells", **call)
    for change, (old, new) in zip(result.changes, model.sides, strict=True):
        if change.action == "replace":
            assert change.diff == line_diff(old or "", new or "")
        if change.action == "delete":
            assert change.removed_source == old
    stored = json.loads(file.read_text())
    assert ["".join(cell["source"]) for cell in stored["cells"]] == [row[1] for row in model.rows]
    await harness.call("undo", notebook=name)
    stored = json.loads(file.read_text())
    assert ["".join(cell["source"]) for cell in stored["cells"]] == START


LOST = [
    {"action": "edit", "cell": 0, "old": "a", "new": "9"},
    {"action": "edit", "cell": 0, "old": "b", "new": "7"},
]
SHIFTED = [
    {"action": "overwrite", "cell": 1, "source": "c"},
    {"action": "delete", "cell": 0},
]


@pytest.mark.proves("perm:bound", "edit:effects-of-the-commit")
async def test_operations_on_the_same_cells_do_what_a_plain_list_does(
    harness: ToolHarness,
) -> None:
    loop, numbers = asyncio.get_running_loop(), count()

    @settings(max_examples=100, deadline=None)
    @given(operations=_OPERATIONS, ids=st.booleans())
    @example(operations=LOST, ids=True)
    @example(operations=SHIFTED, ids=False)
    def examples(operations: list[Any], ids: bool) -> None:
        work = check(harness, f"n{next(numbers)}.ipynb", operations, ids=ids)
        asyncio.run_coroutine_threadsafe(work, loop).result()

    await asyncio.to_thread(examples)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"action": "edit", "old": "a", "new": "x"}, {"action": "overwrite", "source": "y"}),
        ({"action": "overwrite", "source": "x"}, {"action": "overwrite", "source": "y"}),
        ({"action": "delete"}, {"action": "edit", "old": "a", "new": "x"}),
        ({"action": "delete"}, {"action": "move", "to": 1}),
        ({"action": "overwrite", "source": "x"}, {"action": "edit", "old": "a", "new": "y"}),
    ],
)
async def test_a_contradiction_names_both_operations(
    harness: ToolHarness, first: dict[str, Any], second: dict[str, Any]
) -> None:
    put(harness, "n.ipynb", ids=True)
    await harness.call("read_notebook", notebook="n.ipynb")
    before = (harness.root / "n.ipynb").read_bytes()
    operations = [{**first, "cell": 0}, {"action": "insert", "source": "z"}, {**second, "cell": 0}]
    with pytest.raises(InvalidArguments) as raised:
        await harness.call("edit_cells", notebook="n.ipynb", operations=operations)
    assert f"0 ({first['action']})" in raised.value.message
    assert f"2 ({second['action']})" in raised.value.message
    assert (harness.root / "n.ipynb").read_bytes() == before


@pytest.mark.proves("edit:effects-of-the-commit")
async def test_a_changed_cell_runs_once_though_its_number_is_another_deleted_ones(
    harness: ToolHarness,
) -> None:
    put(harness, "n.ipynb", ids=False)
    await harness.call("read_notebook", notebook="n.ipynb")
    operations = [
        {"action": "overwrite", "cell": 1, "source": "print('b'"},
        {"action": "edit", "cell": 1, "old": "'b'", "new": "'changed')"},
        {"action": "delete", "cell": 0},
    ]
    result = await harness.call("edit_cells", notebook="n.ipynb", operations=operations, run=True)
    assert [(run.status, run.output) for run in result.runs] == [("ok", "changed")]
