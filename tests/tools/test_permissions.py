"""The permission mode holds where the tool runs, and a refusal leaves a trace."""

from dataclasses import replace

import pytest

from tests.harness import ALICE
from tk_ai_extension.model.errors import PermissionDenied, PermissionRequired

PLAN, ASK, EDIT = (replace(ALICE, mode=mode) for mode in ("plan", "ask", "edit"))


@pytest.fixture
def notebook(harness):
    harness.write("n.ipynb", "a = 1")
    return "n.ipynb"


@pytest.mark.proves("edit:plan-mode", "perm:modes")
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
    harness, notebook, tool, arguments
):
    before = (harness.root / notebook).read_bytes()
    with pytest.raises(PermissionDenied) as raised:
        await harness.call(tool, caller=PLAN, notebook=notebook, **arguments)
    assert "plan" in raised.value.message
    assert (harness.root / notebook).read_bytes() == before
    assert harness.app.kernel_manager.list_kernel_ids() == []
    assert (
        await harness.call("read_cell", caller=PLAN, notebook=notebook, cell=0)
    ).source == "a = 1"
    history = (await harness.call("notebook_history", notebook=notebook)).entries
    assert [(entry.kind, entry.tool) for entry in history] == [("refused", tool)]


@pytest.mark.proves("perm:modes", "mcp:permission-required")
async def test_in_ask_mode_a_person_allows_just_what_they_were_shown(harness, notebook):
    call = {"notebook": notebook, "source": "b = 2"}
    with pytest.raises(PermissionRequired) as raised:
        await harness.call("insert_cell", caller=ASK, **call)
    (request,) = harness.workspace.policy.pending("alice")
    assert request.id == raised.value.details["permission_id"]
    assert "b = 2" in request.preview
    harness.workspace.policy.answer("alice", request.id, "once")
    with pytest.raises(PermissionRequired):  # another source is another request
        await harness.call("insert_cell", caller=ASK, notebook=notebook, source="b = 3")
    await harness.call("insert_cell", caller=ASK, **call)
    assert harness.sources(notebook) == ["a = 1", "b = 2"]
    with pytest.raises(PermissionRequired):  # once is once
        await harness.call("insert_cell", caller=ASK, **call)


@pytest.mark.proves("perm:modes")
async def test_in_edit_mode_changing_runs_and_running_asks(harness, notebook):
    operations = [{"action": "insert", "source": "b"}]
    await harness.call("edit_cells", caller=EDIT, notebook=notebook, operations=operations)
    with pytest.raises(PermissionRequired):
        await harness.call(
            "edit_cells", caller=EDIT, notebook=notebook, operations=operations, run=True
        )
    assert harness.sources(notebook) == ["a = 1", "b"]


@pytest.mark.proves("perm:modes", "threat:html")
@pytest.mark.parametrize(
    "source",
    [
        "![](https://elsewhere.example/?d=1)",
        "![by reference][x]\n\n[x]: //elsewhere.example/?d=1",
        "<img src='http://elsewhere.example/?d=1'>",
        "<iframe src=//elsewhere.example>",
        "<svg><image href='&#104;ttps://elsewhere.example'/></svg>",
        "<p style='background: url(https://elsewhere.example/?d=1)'>x</p>",
    ],
)
async def test_in_edit_mode_a_cell_that_loads_from_another_host_asks(harness, notebook, source):
    call = {"caller": EDIT, "notebook": notebook, "cell_type": "markdown"}
    with pytest.raises(PermissionRequired):
        await harness.call("insert_cell", source=source, **call)
    (request,) = harness.workspace.policy.pending("alice")
    assert (request.effect, "elsewhere.example" in request.preview) == ("EXECUTE", True)
    harness.workspace.policy.answer("alice", request.id, "once")
    await harness.call("insert_cell", source=source, **call)
    # What is there already is no new address, and a link is followed by a person only.
    last = {"caller": EDIT, "notebook": notebook, "cell": -1}
    more = f"{source}\n\n[A link](https://example.org), ![](plot.png)"
    await harness.call("overwrite_cell", source=more, **last)
    assert harness.sources(notebook) == ["a = 1", more]


@pytest.mark.proves("ext:managers")
async def test_the_managers_are_registered_once_and_reach_every_call(harness):
    services = harness.app.web_app.settings["tk_ai_extension"]
    assert services.managers.contents is harness.app.contents_manager
    assert services.managers.kernels is harness.app.kernel_manager
    assert services.managers.kernelspecs is harness.app.kernel_spec_manager
    assert services.managers.sessions is harness.app.session_manager
    assert services.managers.server is harness.app
    assert services.workspace is harness.workspace
