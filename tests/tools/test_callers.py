"""What belongs to a caller stays with that caller: by session, by way in, and without a key."""

from dataclasses import replace

import pytest

from tests.desk import ALICE, NOBODY
from tk_ai_extension.model.errors import Conflict, NothingToUndo, PermissionRequired

OVER_REST = replace(ALICE, interface="rest")
"""The same user with the same key, through another interface."""


def test_the_old_name_of_the_interface_still_works_and_warns():
    with pytest.warns(DeprecationWarning, match="use Caller.interface"):
        assert OVER_REST.face == "rest"


@pytest.fixture
def notebook(desk):
    desk.write("n.ipynb", "a = 1")
    return "n.ipynb"


@pytest.mark.proves("ext:notebook-manager", "doc:conflict")
async def test_a_key_of_one_interface_is_none_of_another(desk, notebook):
    await desk.call("use_notebook", notebook=notebook)
    await desk.call("insert_cell", source="b")
    assert (await desk.call("list_managed_notebooks", caller=OVER_REST)).notebooks == []
    with pytest.raises(NothingToUndo):
        await desk.call("undo", caller=OVER_REST, notebook=notebook)
    history = await desk.call("notebook_history", caller=OVER_REST, notebook=notebook)
    assert not any(entry.yours for entry in history.entries)


@pytest.mark.proves("perm:approvals")
async def test_leave_for_a_session_does_not_reach_the_same_key_by_another_face(desk, notebook):
    call = {"notebook": notebook, "source": "b"}
    with pytest.raises(PermissionRequired) as raised:
        await desk.call("insert_cell", caller=replace(ALICE, mode="ask"), **call)
    permission = raised.value.details["permission_id"]
    desk.workspace.policy.answer("alice", permission, "chat")
    await desk.call("insert_cell", caller=replace(ALICE, mode="ask"), **call)
    with pytest.raises(PermissionRequired):
        await desk.call("insert_cell", caller=replace(OVER_REST, mode="ask"), **call)


@pytest.mark.proves("exec:tools", "mcp:sessionless")
async def test_one_who_has_a_key_is_told_what_is_new_and_one_without_is_told_all(desk, notebook):
    ran = await desk.call("execute_ipython", notebook=notebook, code="print('said once')")
    assert "said once" in ran.as_text()

    async def wait(caller):
        answer = await desk.call("wait_execution", caller=caller, execution_id=ran.execution_id)
        return "said once" in answer.as_text()

    assert not await wait(ALICE)
    assert [await wait(OVER_REST), await wait(OVER_REST)] == [True, False]
    assert [await wait(NOBODY), await wait(NOBODY)] == [True, True]


@pytest.mark.proves("ext:notebook-manager", "threat:exhaustion")
async def test_what_is_kept_for_a_session_goes_with_it_and_its_work_stays(desk, notebook):
    used = await desk.call("use_notebook", notebook=notebook)
    await desk.call("insert_cell", source="b")
    ran = await desk.call("execute_ipython", code="print('said once')")
    run = desk.workspace.executions.get(ALICE, ran.execution_id)
    assert run.cursors
    desk.workspace.forget(ALICE)
    assert (await desk.call("list_managed_notebooks")).notebooks == []
    assert not run.cursors
    with pytest.raises(Conflict):
        await desk.call("overwrite_cell", notebook=notebook, cell=1, source="c")
    assert (await desk.call("get_kernel_status", kernel_id=used.kernel_id)).kernel.state == "idle"
    assert (await desk.call("undo", notebook=notebook)).undone


async def test_no_lock_is_kept_of_a_kernel_that_was_started(desk, notebook):
    await desk.call("use_notebook", notebook=notebook)
    assert len(desk.workspace._starting) == 0


@pytest.mark.proves("edit:history")
async def test_history_counts_what_was_taken_back(desk, notebook):
    await desk.call("insert_cell", notebook=notebook, source="b")
    await desk.call("undo", notebook=notebook)
    for source in "cd":
        await desk.call("insert_cell", notebook=notebook, source=source)
    await desk.call("undo", notebook=notebook, steps=2)
    entries = (await desk.call("notebook_history", notebook=notebook)).entries
    told = [entry.summary for entry in entries if entry.tool == "undo"]
    assert told == ["undid 2 changes", "undid 1 change"]
