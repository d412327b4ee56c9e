"""Verifying a notebook: who may, and what a person is shown who approves it."""

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from tests.harness import ALICE
from tk_ai_extension.model.errors import PermissionDenied, PermissionRequired
from tk_ai_extension.tools.cli_tools import TOOLS
from tk_ai_extension.tools.registry import Registry, ToolContext

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
        "n.ipynb: 2 code cells: 2 ran; no outputs were compared ("
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
async def test_an_update_keeps_outputs_of_cells_run_since(harness):
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
async def test_a_run_leaves_no_line_in_the_history_of_the_user(harness):
    # The kernel may be one of an earlier test, with the history that it had then.
    source = "open('place', 'w').write(str(get_ipython().history_manager.hist_file))"
    harness.write("n.ipynb", f"{source}  # {harness.root}")
    assert (await harness.call("verify_notebook", notebook="n.ipynb")).status == "ok"
    with closing(sqlite3.connect((harness.root / "place").read_text())) as database:
        lines = database.execute("select source from history").fetchall()
    assert [line for (line,) in lines if str(harness.root) in line] == []
