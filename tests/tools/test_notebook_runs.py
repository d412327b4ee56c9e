"""A run of a whole notebook: what can refuse it is checked before anything is written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.harness import ALICE
from tk_ai_extension.model.errors import PermissionRequired
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.notebook_runs import run_notebook
from tk_ai_extension.tools.registry import Registry

ASK = replace(ALICE, mode="ask")


@pytest.mark.proves("nb:run-notebook")
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
    start = workspace.fresh.start

    async def edited(*args: Any) -> str:
        kernel_id = await start(*args)
        if is_edited:
            harness.write("a.ipynb", "print('another')")
        return kernel_id

    monkeypatch.setattr(workspace.fresh, "start", edited)
    if not is_edited:
        answer: Any = await registry.call("run_notebook", call, context)
        assert answer.status == "ok"
        return
    # The user is asked again.
    with pytest.raises(PermissionRequired):
        await registry.call("run_notebook", call, context)
    assert (harness.root / "b.ipynb").read_bytes() == before
    assert workspace.kernels.ids() == []
