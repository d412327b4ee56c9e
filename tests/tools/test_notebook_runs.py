"""A run of a whole notebook: what can refuse it is checked before anything is written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.harness import ALICE, BOB
from tk_ai_extension.model.errors import Conflict, InvalidArguments, PermissionRequired
from tk_ai_extension.tools.notebook_runs import run_notebook, run_plan
from tk_ai_extension.tools.registry import Registry, ToolContext

ASK = replace(ALICE, mode="ask")
WAITS = "import threading\nthreading.Event().wait()"


@pytest.mark.proves("verify:run")
@pytest.mark.parametrize("is_edited", [True, False])
async def test_a_result_stays_if_the_notebook_changes_while_the_kernel_starts(
    harness: Any, monkeypatch: pytest.MonkeyPatch, *, is_edited: bool
) -> None:
    workspace = harness.workspace
    harness.write("a.ipynb", "print('approved')")
    before = harness.write("b.ipynb", "print('kept')").read_bytes()
    registry, context = Registry([run_notebook]), ToolContext(workspace, ASK)
    call = {"notebook": "a.ipynb", "output": "b.ipynb"}
    with pytest.raises(PermissionRequired):
        await registry.call("run_notebook", call, context)
    (request,) = workspace.policy.pending("alice")
    workspace.policy.answer("alice", request.id, "once")
    start = workspace.kernels.start

    async def edited(*args: Any, **options: Any) -> str:
        kernel_id = await start(*args, **options)
        if is_edited:
            harness.write("a.ipynb", "print('another')")
        return kernel_id

    monkeypatch.setattr(workspace.kernels, "start", edited)
    if not is_edited:
        answer: Any = await registry.call("run_notebook", call, context)
        assert answer.status == "ok"
        return
    # The user is asked again.
    with pytest.raises(PermissionRequired):
        await registry.call("run_notebook", call, context)
    assert (harness.root / "b.ipynb").read_bytes() == before
    assert workspace.kernels.ids() == []


@pytest.mark.proves("verify:run")
@pytest.mark.parametrize("is_linked", [False, True])
async def test_a_notebook_with_a_running_cell_is_not_replaced(
    harness: Any, *, is_linked: bool
) -> None:
    workspace = harness.workspace
    harness.write("a.ipynb", "print('a')")
    live = harness.write("live.ipynb", WAITS, "print('mine')")
    (harness.root / "link.ipynb").symlink_to(live)
    context = ToolContext(workspace, BOB)
    planned = await run_notebook.function(context, "a.ipynb", output="live.ipynb")
    running = await harness.call("execute_cell", notebook="live.ipynb", cell=0, wait=0)
    output = "link.ipynb" if is_linked else "live.ipynb"
    with pytest.raises(Conflict, match=running.execution_id):
        await run_notebook.function(context, "a.ipynb", output=output)
    with pytest.raises(Conflict, match=running.execution_id):
        await run_plan(context, planned, "run_notebook")
    assert harness.sources("live.ipynb") == [WAITS, "print('mine')"]
    run = workspace.executions.get(ALICE, running.execution_id)
    await workspace.executions.cancel(run)
    await run.wait(30)
    answer = await run_plan(context, planned, "run_notebook")
    assert answer.status == "ok"
    assert harness.sources("live.ipynb") == ["print('a')"]


@pytest.mark.proves("verify:run")
@pytest.mark.parametrize("output", ["link.ipynb", "linked/b.ipynb"])
async def test_a_result_does_not_replace_its_own_notebook_through_a_link(
    harness: Any, output: str
) -> None:
    source = harness.write("b.ipynb", "print('kept')")
    before = source.read_bytes()
    context = ToolContext(harness.workspace, ALICE)
    plan = await run_notebook.function(context, "b.ipynb", output="c.ipynb")
    (harness.root / "link.ipynb").symlink_to(source)
    (harness.root / "linked").symlink_to(harness.root, target_is_directory=True)
    with pytest.raises(InvalidArguments, match=r"is the notebook b\.ipynb itself"):
        await run_notebook.function(context, "b.ipynb", output=output)
    # The link may also appear after the plan.
    with pytest.raises(InvalidArguments, match=r"is the notebook b\.ipynb itself"):
        await run_plan(context, replace(plan, output=output), "run_notebook")
    assert source.read_bytes() == before
    assert harness.workspace.kernels.ids() == []
