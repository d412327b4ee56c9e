"""Verifying a notebook: who may, and what a person is shown who approves it."""

import gc
import sqlite3
from collections.abc import Container
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from tests.harness import ALICE
from tk_ai_extension.model.errors import PermissionDenied, PermissionRequired
from tk_ai_extension.model.outputs import StreamBuffer
from tk_ai_extension.tools.registry import Registry, ToolContext
from tk_ai_extension.tools.whole_notebooks import TOOLS
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
    assert verified.verification.status == "runs"
    assert verified.verification.text.startswith(
        "n.ipynb: 2 code cells: 2 ran; no saved outputs to compare ("
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
    assert len(verification.ended) == 4
    assert _characters(run) < run.kept + 10_000
    executions._max_kept_output = 10
    await harness.call("verify_notebook", notebook="n.ipynb")
    assert run.kept == 0
    assert _characters(run) < 10_000
    again = await harness.call("wait_execution", execution_id=run.id)
    assert [each.index for each in again.verification.problems] == [1, 2]


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
            "tk_ai_extension.workspace.fresh_kernels",
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


@pytest.mark.proves("verify:run")
async def test_a_run_leaves_no_line_in_the_history_of_the_user(harness, monkeypatch, tmp_path):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    harness.write("n.ipynb", "marker = 41")
    assert (await harness.call("verify_notebook", notebook="n.ipynb")).status == "ok"
    with closing(sqlite3.connect(tmp_path / "profile_default" / "history.sqlite")) as database:
        assert database.execute("select source from history").fetchall() == []
