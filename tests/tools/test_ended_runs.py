"""What is kept of executions that have ended, and what is not."""

import asyncio

import pytest
from jupyter_client.session import Session

from tests.harness import ALICE
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.tools.default.kernels import KernelChanged
from tk_ai_extension.workspace.executions import Executions


@pytest.fixture
def small(harness):
    """Room for the output of about one execution."""
    workspace = harness.workspace
    workspace.executions = Executions(
        workspace.kernels,
        workspace.queue,
        workspace.journal,
        workspace.by_path,
        workspace.activity,
        max_kept_output=3_000,
    )
    harness.write("n.ipynb", "print('x' * 2500)")
    return harness


async def prints(harness, text):
    return await harness.call("execute_ipython", notebook="n.ipynb", code=f"print('{text}' * 2500)")


@pytest.mark.proves("threat:exhaustion")
async def test_over_the_bound_the_oldest_outputs_go_and_the_answer_says_so(small):
    first, second = await prints(small, "a"), await prints(small, "b")
    assert ["a" * 2500 in first.runs[0].output, "b" * 2500 in second.runs[0].output] == [True] * 2
    other = {"caller": Caller("alice", "later", "mcp")}
    old = await small.call("wait_execution", execution_id=first.execution_id, **other)
    assert old.status == "ok"
    assert old.runs[0].output == ""
    assert "no longer kept" in old.runs[0].message
    new = await small.call("wait_execution", execution_id=second.execution_id, **other)
    assert "b" * 2500 in new.runs[0].output
    assert new.runs[0].message is None


@pytest.mark.proves("threat:exhaustion", "out:stream")
async def test_the_outputs_of_a_cell_are_in_the_notebook_when_they_go(small):
    ran = await small.call("execute_cell", notebook="n.ipynb", cell=0)
    await prints(small, "b")
    other = Caller("alice", "later", "mcp")
    old = await small.call("wait_execution", execution_id=ran.execution_id, caller=other)
    assert "read the cell" in old.runs[0].message
    read = await small.call("read_cell", notebook="n.ipynb", cell=0)
    assert "x" * 2500 in read.output


@pytest.mark.proves("exec:cancel")
async def test_a_run_behind_other_code_is_reported_as_waiting_and_ends_in_its_turn(
    harness,
):
    harness.write("n.ipynb", "a = 1")
    used = await harness.call("use_notebook", notebook="n.ipynb")
    manager = harness.app.kernel_manager.get_kernel(used.kernel_id)
    person = manager.client(session=Session(key=manager.session.key))
    person.start_channels()
    try:
        async with asyncio.timeout(60):
            await person.wait_for_ready()
            person.execute("import time\ntime.sleep(60)")
            while (await person.get_iopub_msg())["msg_type"] != "execute_input":
                pass
            ours = await harness.call("execute_ipython", code="a = 2", wait=0.2)
            run = harness.workspace.executions.get(ALICE, ours.execution_id)
            assert await harness.workspace.executions.cancel(run, grace=0.2) == "waiting"
            await manager.interrupt_kernel()
            assert await run.wait(30)
        assert run.cancelled
        assert run.status != "running"
    finally:
        person.stop_channels()


def test_waiting_for_somebody_elses_code_is_no_failure():
    waiting = KernelChanged(kernel_id="k", action="interrupted", outcome="waiting")
    assert not waiting.is_error
    assert "has not started" in waiting.as_text()
    assert KernelChanged(kernel_id="k", action="interrupted", outcome="interrupt_ignored").is_error
