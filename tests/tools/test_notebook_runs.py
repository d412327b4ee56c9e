"""A run of a whole notebook: what can refuse it is checked before anything is written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.harness import ALICE, BOB
from tk_ai_extension.model.errors import Conflict, PermissionRequired
from tk_ai_extension.tools.cli_tools import run_notebook, run_plan
from tk_ai_extension.tools.registry import Registry, ToolContext

ASK = replace(ALICE, mode="ask")
WAITS = "import threading\nthreading.Event().wait()"


@pytest.mark.proves("verify:run")
async def test_a_result_stays_if_the_notebook_changes_while_the_kernel_starts(
    harness: Any, monkeypatch: pytest.MonkeyPatch
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
        harness.write("a.ipynb", "print('another')")
        return kernel_id

    monkeypatch.setattr(workspace.kernels, "start", edited)
    # The user is asked again.
    with pytest.raises(PermissionRequired):
        await registry.call("run_notebook", call, context)
    assert (harness.root / "b.ipynb").read_bytes() == before
    assert workspace.kernels.ids() == []


@pytest.mark.proves("verify:run")
async def test_a_notebook_with_a_running_cell_is_not_replaced(harness: Any) -> None:
    workspace = harness.workspace
    harness.write("a.ipynb", "print('a')")
    harness.write("live.ipynb", WAITS, "print('mine')")
    context = ToolContext(workspace, BOB)
    planned = await run_notebook.function(context, "a.ipynb", output="live.ipynb")
    running = await harness.call("execute_cell", notebook="live.ipynb", cell=0, wait=0)
    with pytest.raises(Conflict, match=running.execution_id):
        await run_notebook.function(context, "a.ipynb", output="live.ipynb")
    with pytest.raises(Conflict, match=running.execution_id):
        await run_plan(context, planned, "run_notebook")
    assert harness.sources("live.ipynb") == [WAITS, "print('mine')"]
    run = workspace.executions.get(ALICE, running.execution_id)
    await workspace.executions.cancel(run)
    await run.wait(30)
    answer = await run_plan(context, planned, "run_notebook")
    assert answer.status == "ok"
    assert harness.sources("live.ipynb") == ["print('a')"]
