"""Verifying a notebook: who may, and what a person is shown who approves it."""

from dataclasses import replace

import pytest

from tests.harness import ALICE
from tk_ai_extension.model.errors import LimitReached, PermissionDenied, PermissionRequired

PLAN, ASK = (replace(ALICE, mode=mode) for mode in ("plan", "ask"))


@pytest.mark.proves("verify:tool")
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


@pytest.mark.proves("verify:tool", "verify:kernel-ends")
async def test_displays_that_later_cells_update_are_compared_as_they_ended(harness):
    harness.write(
        "n.ipynb",
        "from IPython.display import display\nhandle = display('first', display_id=True)",
        "handle.update('second')",
    )
    await harness.call("execute_cells", notebook="n.ipynb", which="all")
    assert harness.on_disk("n.ipynb").cells[0].outputs[0].data["text/plain"] == "'second'"
    assert (await harness.call("verify_notebook", notebook="n.ipynb")).status == "ok"


@pytest.mark.proves("verify:tool")
async def test_the_number_of_kernels_is_limited(harness, monkeypatch):
    harness.write("n.ipynb", "1")
    monkeypatch.setattr(harness.workspace.fresh, "_max", 0)
    with pytest.raises(LimitReached):
        await harness.call("verify_notebook", notebook="n.ipynb")
    assert harness.workspace.kernels.ids() == []
