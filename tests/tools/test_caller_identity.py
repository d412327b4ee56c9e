"""State belongs to one caller: by session, by interface, and without a key."""

from dataclasses import replace

import pytest

from tests.harness import ALICE
from tk_ai_extension.model.errors import Conflict, NothingToUndo, PermissionRequired

OVER_REST = replace(ALICE, interface="rest")
"""The same user with the same key, through another interface."""


@pytest.fixture
def notebook(harness):
    harness.write("n.ipynb", "a = 1")
    return "n.ipynb"


@pytest.mark.proves("ext:notebook-manager", "doc:conflict")
async def test_a_key_of_one_interface_is_none_of_another(harness, notebook):
    await harness.call("use_notebook", notebook=notebook)
    await harness.call("insert_cell", source="b")
    assert (await harness.call("list_managed_notebooks", caller=OVER_REST)).notebooks == []
    with pytest.raises(NothingToUndo):
        await harness.call("undo", caller=OVER_REST, notebook=notebook)
    history = await harness.call("notebook_history", caller=OVER_REST, notebook=notebook)
    assert not any(entry.yours for entry in history.entries)


@pytest.mark.proves("perm:approvals")
async def test_an_approval_for_a_session_does_not_hold_for_its_key_over_another_interface(
    harness, notebook
):
    call = {"notebook": notebook, "source": "b"}
    with pytest.raises(PermissionRequired) as raised:
        await harness.call("insert_cell", caller=replace(ALICE, mode="ask"), **call)
    permission = raised.value.details["permission_id"]
    harness.workspace.policy.answer("alice", permission, "chat")
    await harness.call("insert_cell", caller=replace(ALICE, mode="ask"), **call)
    with pytest.raises(PermissionRequired):
        await harness.call("insert_cell", caller=replace(OVER_REST, mode="ask"), **call)


@pytest.mark.proves("ext:notebook-manager", "threat:exhaustion")
async def test_the_state_of_a_session_ends_with_it_and_its_work_stays(harness, notebook):
    used = await harness.call("use_notebook", notebook=notebook)
    await harness.call("insert_cell", source="b")
    harness.workspace.forget(ALICE)
    assert (await harness.call("list_managed_notebooks")).notebooks == []
    with pytest.raises(Conflict):
        await harness.call("overwrite_cell", notebook=notebook, cell=1, source="c")
    assert (
        await harness.call("get_kernel_status", kernel_id=used.kernel_id)
    ).kernel.state == "idle"
    assert (await harness.call("undo", notebook=notebook)).undone
