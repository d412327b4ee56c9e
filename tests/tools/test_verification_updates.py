"""`nb verify --update` while others edit: outputs are stored with the code that made them, or not at all."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import ALICE, ToolHarness
from tk_ai_extension.cli.commands import verify
from tk_ai_extension.model.cells import Cell, CellContent, Snapshot, cell_keys
from tk_ai_extension.model.operations import Delete, Insert, Move, Operation, Replace, SetOutputs
from tk_ai_extension.notebooks.tabs.patch import TabPatch
from tk_ai_extension.notebooks.transactions import EditTransaction
from tk_ai_extension.verification.report import NotebookReport
from tk_ai_extension.workspace import editing
from tk_ai_extension.workspace.verifications import VerificationRun

pytestmark = pytest.mark.proves("verify:update")

A, B, C, D = "cella000", "cellb000", "cellc000", "celld000"

EDITS: dict[str, tuple[Operation, list[int]]] = {
    # Each edit of others, and the cells of the run whose outputs are stored.
    "edit the first": (Replace(A, "x = 5"), []),
    "edit the second": (Replace(B, "print(x + 1)"), [0]),
    "edit the last": (Replace(D, "print(x + 3)"), [0, 1, 2]),
    "insert at the top": (Insert(CellContent("code", "x = 7"), 0), []),
    "insert above the third": (Insert(CellContent("code", "x = 7"), 2), [0, 1]),
    "insert at the end": (Insert(CellContent("code", "x = 7")), [0, 1, 2, 3]),
    "insert a blank cell": (Insert(CellContent("code", " \n"), 0), [0, 1, 2, 3]),
    "insert text": (Insert(CellContent("markdown", "x = 7"), 0), [0, 1, 2, 3]),
    "delete the second": (Delete(B), [0]),
    "delete the last": (Delete(D), [0, 1, 2]),
    "move the last up": (Move(D, 1), [0]),
    "move the first down": (Move(A, 3), []),
    "make text of the second": (Replace(B, "print(x)", "markdown"), [0]),
}


def session_of(harness: ToolHarness, notes: list[str]) -> Any:
    return SimpleNamespace(
        context=SimpleNamespace(workspace=harness.workspace),
        caller=ALICE,
        terminal=SimpleNamespace(err=notes.append),
    )


async def verified(harness: ToolHarness, *sources: str) -> VerificationRun:
    """Verify a notebook without outputs: each cell that runs has an output or a count to store."""
    harness.write("n.ipynb", *sources)
    answer = await harness.call("verify_notebook", notebook="n.ipynb")
    run: Any = harness.workspace.executions.get(ALICE, answer.execution_id)
    return run.report


async def updated(harness: ToolHarness, report: VerificationRun) -> NotebookReport:
    notes: list[str] = []
    assert report.finished is not None
    found = await verify._updated(session_of(harness, notes), report, report.finished)
    assert notes == []
    return found


def counts(harness: ToolHarness) -> dict[str, int]:
    cells = harness.on_disk("n.ipynb").cells
    return {cell.id: cell.execution_count for cell in cells if cell.get("execution_count")}


@pytest.mark.parametrize("edit", EDITS)
async def test_only_outputs_of_the_code_that_is_still_there_are_stored(
    harness: ToolHarness, edit: str
) -> None:
    operation, stored = EDITS[edit]
    report = await verified(harness, "x = 1", "print(x)", "print(x + 1)", "print(x + 2)")
    document = await harness.workspace.store.open("n.ipynb")
    await document.apply([operation])
    found = await updated(harness, report)
    assert counts(harness) == {[A, B, C, D][at]: at + 1 for at in stored}
    left = [str(at + 1) for at in range(4) if at not in stored]
    assert bool(found.error) == bool(left)
    assert found.status == ("failed" if left else "same")
    if left:
        assert found.error.startswith(f"not updated: cell{'s' if left[1:] else ''} {left[0]}")
        assert "changed meanwhile" in found.as_dict()["error"]


async def test_a_change_right_before_the_commit_is_a_conflict(
    harness: ToolHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = await verified(harness, "x = 1", "print(x)")
    apply = editing.apply

    async def late(workspace: Any, caller: Any, document: Any, *more: Any, **options: Any) -> Any:
        await document.apply([Insert(CellContent("code", "x = 7"), 1)])
        return await apply(workspace, caller, document, *more, **options)

    monkeypatch.setattr(editing, "apply", late)
    found = await updated(harness, report)
    assert found.error.startswith("not updated: ")
    assert counts(harness) == {}


async def test_a_display_that_a_later_cell_changes_belongs_to_the_code_of_both(
    harness: ToolHarness,
) -> None:
    first = "from IPython.display import display\nhandle = display('first', display_id=True)"
    report = await verified(harness, first, "handle.update('second')", "print(3)")
    document = await harness.workspace.store.open("n.ipynb")
    await document.apply([Replace(C, "print(4)")])
    assert (await updated(harness, report)).error.startswith("not updated: cell 3:")
    shown = harness.on_disk("n.ipynb").cells[0].outputs[0].data["text/plain"]
    assert shown == "'second'"
    report = await verified(harness, first, "handle.update('second')", "print(3)")
    await document.apply([Replace(B, "handle.update('another')")])
    assert (await updated(harness, report)).error.startswith("not updated: cells 1-3:")
    assert harness.on_disk("n.ipynb").cells[0].outputs == []


_CELLS = st.lists(
    st.tuples(st.sampled_from(["code", "markdown"]), st.sampled_from(["", " ", "a", "b"])),
    max_size=4,
)


@given(_CELLS, _CELLS, st.booleans())
def test_a_hash_of_code_is_in_another_revision_if_the_code_is(
    one: list[tuple[Any, str]], other: list[tuple[Any, str]], has_ids: bool
) -> None:
    first, second = snapshot_of(one, has_ids=has_ids), snapshot_of(other, has_ids=has_ids)
    begins = [
        [(cell.id, cell.source) for cell in each.code_hashes.values()] for each in (first, second)
    ]
    for length, code in enumerate(first.code_hashes, 1):
        assert (code in second.code_hashes) == (begins[0][:length] == begins[1][:length])


def snapshot_of(cells: list[tuple[Any, str]], *, has_ids: bool) -> Snapshot:
    ids = [f"id{at}" if has_ids else None for at in range(len(cells))]
    keys = cell_keys(ids)
    return Snapshot(
        "n.ipynb",
        tuple(Cell(at, keys[at], kind, source, ids[at]) for at, (kind, source) in enumerate(cells)),
    )


def test_a_tab_is_asked_whether_the_code_above_is_unchanged() -> None:
    snapshot = snapshot_of(
        [("code", "a"), ("markdown", "b"), ("code", " "), ("code", "c"), ("code", "d")],
        has_ids=True,
    )
    (code,) = (code for code, cell in snapshot.code_hashes.items() if cell.index == 3)
    edit = EditTransaction(snapshot, lambda at: CellContent("code", "", f"id{at}"))
    edit.apply([SetOutputs("id3", ({"output_type": "stream"},), 1, code=code)])
    message = TabPatch.of(edit, [f"tab{at}" for at in range(5)], snapshot).message()
    assert message["needs"]["order"]
    assert set(message["needs"]["cells"]) == {"tab0", "tab2", "tab3"}
