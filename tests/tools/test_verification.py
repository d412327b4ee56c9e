"""Verifying a notebook: who may, and what a person is shown who approves it."""

import asyncio
import gc
import threading
from collections.abc import Container
from dataclasses import replace
from typing import Any

import pytest

from tests.harness import ALICE
from tk_ai_extension.model.cells import Cell
from tk_ai_extension.model.errors import LimitReached, PermissionDenied, PermissionRequired
from tk_ai_extension.model.executions import Execution
from tk_ai_extension.model.outputs import StreamBuffer, summarise
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.registry import Registry
from tk_ai_extension.tools.whole_notebooks import TOOLS
from tk_ai_extension.verification.report import CellReport
from tk_ai_extension.verification.verifying import Verification
from tk_ai_extension.workspace import runs
from tk_ai_extension.workspace.journal import Journal

PLAN, ASK = (replace(ALICE, mode=mode) for mode in ("plan", "ask"))


@pytest.mark.proves("verify:run")
async def test_it_needs_the_permission_to_run_exactly_this_code(harness):
    harness.write("n.ipynb", "x = 41", ("markdown", "text"), "print(x)")
    with pytest.raises(PermissionDenied):
        await harness.call("verify_notebook", notebook="n.ipynb", caller=PLAN)
    with pytest.raises(PermissionRequired):
        await harness.call("verify_notebook", notebook="n.ipynb", caller=ASK)
    (request,) = harness.workspace.policy.pending("alice")
    shown = request.proposal.as_text()
    assert request.proposal.title == ("Run 2 cells in a new kernel, without changing the notebook")
    assert "x = 41" in shown
    assert "print(x)" in shown
    harness.workspace.policy.answer("alice", request.id, "once")
    verified = await harness.call("verify_notebook", notebook="n.ipynb", caller=ASK)
    assert verified.status == "ok"
    # Nothing is stored to compare with: then it counts that the cells run.
    assert verified.verification.text.startswith(
        "n.ipynb: 2 code cells: 2 ran, no outputs are stored ("
    )
    assert harness.workspace.kernels.ids() == []


@pytest.mark.proves("verify:run")
async def test_displays_that_later_cells_update_are_compared_as_they_ended(harness):
    harness.write(
        "n.ipynb",
        "from IPython.display import display\nhandle = display('first', display_id=True)",
        "handle.update('second')",
    )
    await harness.call("execute_cells", notebook="n.ipynb", which="all")
    assert harness.on_disk("n.ipynb").cells[0].outputs[0].data["text/plain"] == "'second'"
    assert (await harness.call("verify_notebook", notebook="n.ipynb")).status == "ok"


@pytest.mark.proves("verify:run")
async def test_the_number_of_kernels_is_limited(harness, monkeypatch):
    harness.write("n.ipynb", "1")
    monkeypatch.setattr(harness.workspace.fresh, "_max", 0)
    with pytest.raises(LimitReached):
        await harness.call("verify_notebook", notebook="n.ipynb")
    assert harness.workspace.kernels.ids() == []


@pytest.mark.proves("verify:run")
async def test_the_newest_content_of_each_display_is_compared_however_many_came(
    harness, monkeypatch
):
    monkeypatch.setattr(runs, "MAX_STATUSES", 5)
    harness.write(
        "n.ipynb",
        "from IPython.display import display\n"
        "a, b = (display('first', display_id=True) for _ in 'ab')",
        "a.update('second')\nfor number in range(50): b.update(number)",
    )
    await harness.call("execute_cells", notebook="n.ipynb", which="all")
    assert (await harness.call("verify_notebook", notebook="n.ipynb")).status == "ok"


@pytest.mark.proves("verify:run")
async def test_what_it_keeps_is_counted_and_dropped_with_the_outputs_of_runs(harness):
    executions = harness.workspace.executions
    harness.write("n.ipynb", *(f"print('{at}' * 50_000)" for at in range(3)), "print('same')")
    await harness.call("execute_cells", notebook="n.ipynb", which="all")
    path = harness.root / "n.ipynb"
    path.write_text(path.read_text().replace("1" * 50_000, "changed").replace("2" * 50_000, "x"))
    answer = await harness.call("verify_notebook", notebook="n.ipynb")
    run = executions.get(ALICE, answer.execution_id)
    verification = run.report.verification
    # `nb verify --update` stores the outputs that differ.
    sizes = [summarise(verification.ended[cell.key].outputs).size for cell in verification.cells]
    assert sizes == [0, 50_001, 50_001, 0]
    assert _characters(run) < run.kept + 10_000
    executions._max_kept_output = 10
    await harness.call("verify_notebook", notebook="n.ipynb")
    assert run.kept == 0
    assert _characters(run) < 10_000
    again = await harness.call("wait_execution", execution_id=run.id)
    assert "Cell 2 @" in again.verification.text
    assert "more lines]" in again.verification.text


@pytest.mark.proves("verify:run")
async def test_a_cell_that_is_compared_when_the_run_is_stopped_is_compared_to_its_end(
    harness, monkeypatch
):
    harness.write("n.ipynb", "print(1)", "print(2)")
    await harness.call("execute_cells", notebook="n.ipynb", which="all")
    own = harness.workspace.kernels.ids()
    compares, goes_on = threading.Event(), threading.Event()
    record = Verification.record

    def held(self: Verification, cell: Cell, execution: Execution) -> CellReport:
        compares.set()
        assert goes_on.wait(60)
        return record(self, cell, execution)

    monkeypatch.setattr(Verification, "record", held)
    answer = await harness.call("verify_notebook", notebook="n.ipynb", wait=0)
    assert await asyncio.to_thread(compares.wait, 60)
    run = harness.workspace.executions.get(ALICE, answer.execution_id)
    cancelled = asyncio.create_task(harness.workspace.executions.cancel(run))
    for _ in range(20):
        await asyncio.sleep(0)
    goes_on.set()
    await cancelled
    verification = (await harness.call("wait_execution", execution_id=run.id)).verification
    assert [cell.status for cell in run.report.finished.cells] == ["same", "not_run"]
    assert "new" not in verification.text
    assert run.report.verification.ended
    assert harness.workspace.kernels.ids() == own


def _characters(root: object) -> int:
    """The characters of all texts that an object of this package leads to."""
    seen: set[int] = set()
    found, waiting = 0, [root]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, str):
            found += len(each)
        elif isinstance(each, Container | StreamBuffer) or _is_ours(each):
            waiting += gc.get_referents(each)
    return found


def _is_ours(value: object) -> bool:
    module = type(value).__module__
    return module.startswith(
        (
            "tk_ai_extension.verification",
            "tk_ai_extension.workspace.runs",
            "tk_ai_extension.workspace.verifications",
            "tk_ai_extension.model",
        )
    )


@pytest.mark.proves("verify:run")
async def test_the_history_names_what_runs_before_it_runs(harness, monkeypatch):
    harness.write("n.ipynb", "1")
    intended: list[str] = []
    record = Journal.record

    def spy(self: Journal, caller: Any, path: str, tool: str, summary: str, **more: Any) -> Any:
        intended.append(summary)
        return record(self, caller, path, tool, summary, **more)

    monkeypatch.setattr(Journal, "record", spy)
    await harness.call("verify_notebook", notebook="n.ipynb")
    assert intended[0].startswith("runs all code cells in a fresh kernel")


@pytest.mark.proves("verify:run")
async def test_an_update_keeps_what_somebody_has_run_meanwhile(harness):
    harness.write("n.ipynb", "print('a')", "print('b')")
    answer = await harness.call("verify_notebook", notebook="n.ipynb")
    run = harness.workspace.executions.get(ALICE, answer.execution_id)
    await harness.call("execute_cells", notebook="n.ipynb", cells="1")
    theirs = harness.on_disk("n.ipynb").cells[1]
    await Registry(TOOLS).call(
        "store_outputs", {"execution_id": run.id}, ToolContext(harness.workspace, ALICE)
    )
    mine, kept = harness.on_disk("n.ipynb").cells
    assert mine.outputs[0].text == "a\n"
    assert kept == theirs
