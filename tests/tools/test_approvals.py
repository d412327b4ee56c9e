"""A person allows just what they were shown: the code, the diff, in one notebook."""

from dataclasses import replace

import pytest

from tests.harness import ALICE
from tk_ai_extension.model.errors import (
    ApprovalOutdated,
    Conflict,
    InvalidArguments,
    PermissionDenied,
    PermissionRequired,
)
from tk_ai_extension.tools.registry import MAX_ASKED, ToolContext
from tk_ai_extension.workspace.permission_requests import Answer, PermissionReply, PermissionRequest
from tk_ai_extension.workspace.permissions import MAX_MESSAGE

ASK = replace(ALICE, mode="ask")


class Person:
    """Answers within the call; may do something before."""

    def __init__(self, answer: Answer = "once", before=None, message: str = "") -> None:
        self.reply = PermissionReply(answer, message)
        self.before, self.shown = before, []

    async def ask(self, request: PermissionRequest) -> PermissionReply:
        self.shown.append(request.preview)
        if self.before is not None:
            await self.before(len(self.shown))
        return self.reply


@pytest.fixture
def notebook(harness):
    harness.write("n.ipynb", "a = 1", "b = 2\nprint(b)")
    return "n.ipynb"


async def shown(harness, tool, **arguments):
    """The proposal of a call that is not approved yet."""
    with pytest.raises(PermissionRequired) as raised:
        await harness.call(tool, caller=ASK, **arguments)
    (request,) = (
        request
        for request in harness.workspace.policy.pending("alice")
        if request.id == raised.value.details["permission_id"]
    )
    return request


@pytest.mark.proves("perm:approvals", "perm:modes")
@pytest.mark.parametrize(
    ("tool", "arguments", "seen"),
    [
        ("execute_cell", {"cell": 1}, ["b = 2", "print(b)"]),
        ("execute_cells", {"which": "all", "restart": True}, ["a = 1", "print(b)", "Restart"]),
        ("execute_ipython", {"code": "import os"}, ["import os"]),
        (
            "insert_and_execute_cell",
            {"source": "c = 3"},
            ["Insert and run a code cell at the end\n+c = 3"],
        ),
        ("insert_cell", {"source": "c = 3", "index": 0}, ["code cell as cell 1\n+c = 3"]),
        ("overwrite_cell", {"cell": 0, "source": "a = 9"}, ["-a = 1", "+a = 9"]),
        ("edit_cell", {"cell": 1, "old": "2", "new": "5"}, ["-b = 2", "+b = 5"]),
        ("delete_cell", {"cell": 1}, ["Delete", "-print(b)"]),
        ("move_cell", {"cell": 0, "to": 1}, ["Move code cell 1 to position 2"]),
        ("write_notebook", {"text": "# %% [code]\nz = 0", "notebook": "new.ipynb"}, ["+z = 0"]),
        (
            "edit_cells",
            {"operations": [{"action": "overwrite", "cell": 0, "source": "a = 7"}], "run": True},
            ["Change and run code cell 1", "-a = 1\n+a = 7"],
        ),
        ("create_notebook", {"notebook": "made.ipynb", "cells": [{"source": "q = 1"}]}, ["+q = 1"]),
    ],
)
async def test_a_request_shows_the_code_or_the_diff_and_nothing_has_happened(
    harness, notebook, tool, arguments, seen
):
    await harness.call("read_notebook", caller=ASK, notebook=notebook)
    before = (harness.root / notebook).read_bytes()
    request = await shown(harness, tool, **{"notebook": notebook, **arguments})
    for text in seen:
        assert text in request.preview
    assert (harness.root / notebook).read_bytes() == before
    assert sorted(path.name for path in harness.root.glob("*.ipynb")) == [notebook]
    assert harness.app.kernel_manager.list_kernel_ids() == []


@pytest.mark.proves("perm:approvals", "perm:modes")
async def test_undo_shows_what_comes_back(harness, notebook):
    await harness.call("insert_cell", notebook=notebook, source="c = 3")
    request = await shown(harness, "undo", notebook=notebook)
    assert "inserted" in request.preview
    assert "-c = 3" in request.preview


@pytest.mark.proves("perm:approvals", "perm:modes")
async def test_a_cell_that_changes_while_it_waits_for_its_turn_does_not_run(harness, notebook):
    blocking = await harness.call(
        "execute_ipython", notebook=notebook, code="import time\ntime.sleep(60)", wait=0
    )
    context = ToolContext(harness.workspace, ASK, approver=Person())
    call = {"cell": 1, "notebook": notebook, "wait": 0}
    waiting = await harness.registry.call("execute_cell", call, context)
    assert waiting.status == "queued"
    harness.write(notebook, "a = 1", "wipe_everything()")
    await harness.call("interrupt_kernel", execution_id=blocking.execution_id)
    with pytest.raises(Conflict, match="approved"):
        await harness.call("wait_execution", caller=ASK, execution_id=waiting.execution_id)


@pytest.mark.proves("perm:approvals", "perm:modes")
async def test_an_approval_for_a_notebook_holds_however_a_call_names_it_and_for_no_other(
    harness, notebook
):
    harness.write("other.ipynb", "x = 1")
    text = (await harness.call("read_notebook", caller=ASK, notebook=notebook)).text
    request = await shown(harness, "insert_cell", notebook=notebook, source="c")
    harness.workspace.policy.answer("alice", request.id, "notebook")
    # By the header of the text, without the argument.
    await harness.call("write_notebook", caller=ASK, text=text.replace("a = 1", "a = 2"))
    assert harness.sources(notebook)[0] == "a = 2"
    theirs = (await harness.call("read_notebook", caller=ASK, notebook="other.ipynb")).text
    request = await shown(harness, "write_notebook", text=theirs.replace("x = 1", "x = 2"))
    assert request.notebook == "other.ipynb"


@pytest.mark.proves("perm:approvals", "perm:modes")
async def test_a_kernel_or_an_execution_concerns_the_notebook_it_is_of(harness, notebook):
    used = await harness.call("use_notebook", notebook=notebook)
    by_kernel = await shown(harness, "restart_kernel", kernel_id=used.kernel_id)
    assert by_kernel.notebook == notebook
    running = await harness.call(
        "execute_ipython", notebook=notebook, code="import time\ntime.sleep(60)", wait=0
    )
    by_run = await shown(harness, "interrupt_kernel", execution_id=running.execution_id)
    assert by_run.notebook == notebook
    harness.workspace.policy.answer("alice", by_run.id, "notebook")
    await harness.call("interrupt_kernel", caller=ASK, execution_id=running.execution_id)
    await harness.call("restart_kernel", caller=ASK, kernel_id=used.kernel_id)


@pytest.mark.proves("perm:approvals", "perm:modes")
async def test_an_approval_for_one_notebook_does_not_reach_the_kernel_of_another(harness, notebook):
    harness.write("other.ipynb", "x = 1")
    used = await harness.call("use_notebook", notebook="other.ipynb")
    request = await shown(harness, "execute_cell", notebook=notebook, cell=0)
    harness.workspace.policy.answer("alice", request.id, "notebook")
    request = await shown(harness, "use_notebook", notebook=notebook, kernel_id=used.kernel_id)
    assert request.notebook is None
    request = await shown(harness, "shutdown_kernel", notebook=notebook, kernel_id=used.kernel_id)
    assert request.notebook is None


async def _switch_notebook(harness, notebook):
    """Another call of the same caller makes another notebook current."""
    harness.write("other.ipynb", "a = 1", "b = 2\nprint(b)")
    await harness.call("use_notebook", notebook="other.ipynb")


async def _replace_kernel(harness, notebook):
    """A person shuts the kernel down, and the notebook gets another one."""
    await harness.call("shutdown_kernel", notebook=notebook)
    await harness.call("execute_ipython", notebook=notebook, code="1")


async def _edit_cell(harness, notebook):
    harness.write(notebook, "a = 1", "b = 3\nprint(b)")


HOLES = (
    ("the current notebook", _switch_notebook, "execute_cell", {"cell": 1}),
    ("the current notebook", _switch_notebook, "execute_ipython", {"code": "1"}),
    ("the current notebook", _switch_notebook, "insert_and_execute_cell", {"source": "1"}),
    ("the current notebook", _switch_notebook, "insert_cell", {"source": "1"}),
    ("the current notebook", _switch_notebook, "restart_kernel", {}),
    ("the current notebook", _switch_notebook, "shutdown_kernel", {}),
    ("the kernel", _replace_kernel, "execute_cell", {"cell": 1}),
    ("the kernel", _replace_kernel, "execute_cells", {"which": "all"}),
    ("the kernel", _replace_kernel, "restart_kernel", {}),
    ("the cell", _edit_cell, "execute_cell", {"cell": 1}),
    ("the cell", _edit_cell, "execute_cells", {"which": "all"}),
)


@pytest.mark.proves("perm:bound")
async def test_an_approval_does_not_hold_for_a_call_whose_effect_changed(harness, notebook):
    """Each is tried as an in-call question and as an answer that comes before the next call."""
    for what, change, tool, arguments in HOLES:
        harness.write(notebook, "a = 1", "b = 2\nprint(b)")
        await harness.call("use_notebook", notebook=notebook)
        request = await shown(harness, tool, **arguments)
        harness.workspace.policy.answer("alice", request.id, "once")
        await change(harness, notebook)
        again = await shown(harness, tool, **arguments)
        assert again.id != request.id, (what, tool)
        harness.workspace.policy.answer("alice", again.id, "deny")
        with pytest.raises(PermissionDenied):
            await harness.call(tool, caller=ASK, **arguments)
        harness.workspace.policy.forget(ASK)

        harness.write(notebook, "a = 1", "b = 2\nprint(b)")
        await harness.call("use_notebook", notebook=notebook)

        person = Person()

        async def before(time, change=change, person=person):
            if time == 1:
                await change(harness, notebook)
            else:
                person.reply = PermissionReply("deny")

        person.before = before
        context = ToolContext(harness.workspace, ASK, approver=person)
        with pytest.raises(PermissionDenied):
            await harness.registry.call(tool, arguments, context)
        assert len(person.shown) == 2, (what, tool)


@pytest.mark.proves("perm:bound")
async def test_a_call_that_changes_each_time_it_is_asked_for_is_given_up(harness, notebook):
    async def before(time):
        harness.write(notebook, "a = 1", f"b = {time}")

    person = Person(before=before)
    context = ToolContext(harness.workspace, ASK, approver=person)
    with pytest.raises(ApprovalOutdated):
        await harness.registry.call("execute_cell", {"cell": 1, "notebook": notebook}, context)
    assert len(person.shown) == MAX_ASKED
    assert harness.app.kernel_manager.list_kernel_ids() == []


@pytest.mark.proves("perm:approvals")
async def test_a_denial_carries_words_to_the_caller_and_into_the_journal(harness, notebook):
    request = await shown(harness, "execute_cell", notebook=notebook, cell=0)
    policy = harness.workspace.policy
    for answer, message in (("once", "why"), ("deny", "x" * (MAX_MESSAGE + 1))):
        with pytest.raises(InvalidArguments):
            policy.answer("alice", request.id, answer, message)
    policy.answer("alice", request.id, "deny", "use the cached data")
    with pytest.raises(PermissionDenied, match="use the cached data") as denied:
        await harness.call("execute_cell", caller=ASK, notebook=notebook, cell=0)
    assert denied.value.details["user_message"] == "use the cached data"
    history = await harness.call("notebook_history", notebook=notebook)
    assert "use the cached data" in history.entries[0].summary


@pytest.mark.proves("perm:bound")
async def test_code_that_looks_like_a_title_or_a_removed_line_is_code_that_runs(harness, notebook):
    hostile = "Delete old rows.\n-f()\n@decorated\n  indented\nRun code cell 1\n\x1b[2J"
    request = await shown(harness, "execute_ipython", notebook=notebook, code=hostile)
    (step,) = request.proposal.steps
    assert (step.runs, step.code) == (True, hostile)
    sent = request.as_dict()["proposal"]["steps"][0]["lines"]
    assert [line["text"] for line in sent] == hostile.replace("\x1b", "⟨U+001B⟩").split("\n")
    assert {line["mark"] for line in sent} == {" "}
    text = request.preview.split("\n")
    assert [line for line in text if not line.startswith(" ")] == ["Run code"]
    assert "\x1b" not in request.preview
