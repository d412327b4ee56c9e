"""The permission mode holds where the tool runs, and a refusal leaves a trace."""

from dataclasses import replace

import pytest

from tests.desk import ALICE
from tk_ai_extension.model.errors import PermissionDenied, PermissionRequired

PLAN, ASK, EDIT = (replace(ALICE, mode=mode) for mode in ("plan", "ask", "edit"))


@pytest.fixture
def notebook(desk):
    desk.write("n.ipynb", "a = 1")
    return "n.ipynb"


@pytest.mark.proves("edit:plan-mode", "perm:plan")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("insert_cell", {"source": "b"}),
        ("delete_cell", {"cell": 0}),
        ("write_notebook", {"text": "# %% [code]\nb"}),
        ("execute_cell", {"cell": 0}),
        ("use_notebook", {}),
        ("create_notebook", {}),
        ("restart_kernel", {}),
    ],
)
async def test_in_plan_mode_nothing_is_changed_or_run_and_reading_goes_on(
    desk, notebook, tool, arguments
):
    before = (desk.root / notebook).read_bytes()
    with pytest.raises(PermissionDenied) as raised:
        await desk.call(tool, caller=PLAN, notebook=notebook, **arguments)
    assert "plan" in raised.value.message
    assert (desk.root / notebook).read_bytes() == before
    assert desk.app.kernel_manager.list_kernel_ids() == []
    assert (await desk.call("read_cell", caller=PLAN, notebook=notebook, cell=0)).source == "a = 1"
    history = (await desk.call("notebook_history", notebook=notebook)).entries
    assert [(entry.kind, entry.tool) for entry in history] == [("refused", tool)]


@pytest.mark.proves("perm:ask", "mcp:permission-required")
async def test_in_ask_mode_a_person_allows_just_what_they_were_shown(desk, notebook):
    call = {"notebook": notebook, "source": "b = 2"}
    with pytest.raises(PermissionRequired) as raised:
        await desk.call("insert_cell", caller=ASK, **call)
    (request,) = desk.workspace.policy.pending("alice")
    assert request.id == raised.value.details["permission_id"]
    assert "b = 2" in request.preview
    desk.workspace.policy.answer("alice", request.id, "once")
    with pytest.raises(PermissionRequired):  # another source is another request
        await desk.call("insert_cell", caller=ASK, notebook=notebook, source="b = 3")
    await desk.call("insert_cell", caller=ASK, **call)
    assert desk.sources(notebook) == ["a = 1", "b = 2"]
    with pytest.raises(PermissionRequired):  # once is once
        await desk.call("insert_cell", caller=ASK, **call)


@pytest.mark.proves("perm:edit")
async def test_in_edit_mode_changing_runs_and_running_asks(desk, notebook):
    operations = [{"action": "insert", "source": "b"}]
    await desk.call("edit_cells", caller=EDIT, notebook=notebook, operations=operations)
    with pytest.raises(PermissionRequired):
        await desk.call(
            "edit_cells", caller=EDIT, notebook=notebook, operations=operations, run=True
        )
    assert desk.sources(notebook) == ["a = 1", "b"]


@pytest.mark.proves("ext:managers")
async def test_the_managers_are_registered_once_and_reach_every_call(desk):
    services = desk.app.web_app.settings["tk_ai_extension"]
    assert services.managers.contents is desk.app.contents_manager
    assert services.managers.kernels is desk.app.kernel_manager
    assert services.managers.kernelspecs is desk.app.kernel_spec_manager
    assert services.managers.sessions is desk.app.session_manager
    assert services.managers.server is desk.app
    assert services.workspace is desk.workspace
