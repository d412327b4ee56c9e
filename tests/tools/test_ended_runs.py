"""What is kept of executions that have ended, and what is not."""

import pytest

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.workspace.execution_service import ExecutionService


async def prints(harness, text):
    return await harness.call("execute_ipython", notebook="n.ipynb", code=f"print('{text}' * 2500)")


@pytest.mark.proves("threat:exhaustion")
async def test_over_the_bound_the_oldest_outputs_go_and_the_answer_says_so(harness):
    workspace = harness.workspace
    # Room for the output of about one execution.
    workspace.executions = ExecutionService(
        workspace.kernels,
        workspace.queue,
        workspace.journal,
        workspace.by_path,
        workspace.activity,
        max_kept_output=3_000,
    )
    harness.write("n.ipynb", "1")
    first, second = await prints(harness, "a"), await prints(harness, "b")
    assert ["a" * 2500 in first.runs[0].output, "b" * 2500 in second.runs[0].output] == [True] * 2
    other = {"caller": Caller("alice", "later", "mcp")}
    old = await harness.call("wait_execution", execution_id=first.execution_id, **other)
    assert old.status == "ok"
    assert old.runs[0].output == ""
    assert "no longer kept" in old.runs[0].message
    new = await harness.call("wait_execution", execution_id=second.execution_id, **other)
    assert "b" * 2500 in new.runs[0].output
    assert new.runs[0].message is None
