"""Verifying a notebook: who may, and what a person is shown who approves it."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.harness import ALICE
from tk_ai_extension.model.errors import LimitReached, PermissionDenied, PermissionRequired
from tk_ai_extension.model.sentences import Sentence
from tk_ai_extension.tools.verification_results import summarize
from tk_ai_extension.verification.comparing import Difference
from tk_ai_extension.verification.hidden_state import Finding
from tk_ai_extension.verification.report import CellReport, NotebookReport

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


@pytest.mark.proves("verify:tool")
@pytest.mark.parametrize("interface", ["rest", "mcp"])
async def test_what_it_found_is_sent_with_codes_to_front_ends_only(interface):
    changed, gone = (Sentence(code, what="stdout") for code in ("output_differs", "output_missing"))
    cell = CellReport("cella", 0, "differs", differences=(_text(changed), _text(gone)))
    order = Sentence("hidden_order", cell=2, run=1, above=1, run_above=2)
    finished = NotebookReport("n.ipynb", cells=(cell,), findings=(Finding("order", "b", 1, order),))
    run: Any = SimpleNamespace(done=True, cancelled=False, steps=[1], current=1)
    context: Any = SimpleNamespace(caller=replace(ALICE, interface=interface))
    report: Any = SimpleNamespace(finished=finished)
    found = await summarize(context, run, report)
    (problem,), (hidden,) = found.problems, found.hidden_state
    assert problem.message == "stdout differs; stdout is missing"
    assert hidden.message == "Cell 2 [1] ran before cell 1 [2]."
    codes = [each.sentence and each.sentence["code"] for each in (problem, hidden)]
    assert codes == (["differences_two", "hidden_order"] if interface == "rest" else [None, None])


def _text(message: Sentence) -> Difference:
    return Difference("text", "stdout", message)
