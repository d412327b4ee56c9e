"""Kernels and their variables."""

import asyncio

import pytest

from tk_ai_extension.model.errors import (
    InvalidArguments,
    KernelBusy,
    KernelNotFound,
    KernelUnsupported,
    NotFound,
)


@pytest.fixture
async def used(harness):
    harness.write("n.ipynb", "a = 1", "a")
    return await harness.call("use_notebook", notebook="n.ipynb")


@pytest.mark.proves("kernel:tools", "kernel:monitor")
async def test_kernels_are_listed_with_state_memory_and_cpu(harness, used):
    specs = (await harness.call("list_kernels")).kernels
    assert [(k.name, k.language) for k in specs if k.default] == [("python3", "python")]
    running = (await harness.call("list_running_kernels")).kernels
    assert [(k.kernel_id, k.notebooks) for k in running] == [(used.kernel_id, ["n.ipynb"])]
    status = (await harness.call("get_kernel_status")).kernel
    assert status.memory_mb is not None
    assert status.memory_mb > 10
    assert status.uptime is not None
    assert status.backend == "stack"
    assert (
        await harness.call("get_kernel_status", kernel_id=used.kernel_id)
    ).kernel.state == "idle"
    with pytest.raises(KernelNotFound):
        await harness.call("get_kernel_status", kernel_id="another's")


@pytest.mark.proves("kernel:tools")
async def test_restart_and_shutdown_lose_the_variables_and_say_so(harness, used):
    await harness.call("execute_cells", which="all")
    assert "variables are lost" in (await harness.call("restart_kernel")).full_text()
    assert (await harness.call("execute_ipython", code="a")).runs[0].error.startswith("NameError")
    assert {c.state for c in (await harness.call("list_cells")).cells} == {"never"}
    await harness.call("shutdown_kernel")
    with pytest.raises(KernelNotFound):
        await harness.call("get_kernel_status")
    result = await harness.call("execute_ipython", code="'a new one'")
    assert result.status == "ok"


@pytest.mark.proves("kernel:tools")
async def test_interrupt_by_notebook_ends_the_running_cell(harness, used):
    running = await harness.call("execute_ipython", code="import time; time.sleep(60)", wait=0.7)
    assert (await harness.call("interrupt_kernel")).outcome == "ok"
    ended = await harness.call("wait_execution", execution_id=running.execution_id)
    assert ended.status == "interrupted"


@pytest.mark.proves("kernel:auto-restart", "kernel:heartbeat", "fault:kernel-killed")
async def test_a_kernel_that_died_is_noticed_and_replaced_and_the_caller_gets_a_notice(
    harness, used
):
    result = await harness.call(
        "execute_ipython",
        code="print('last words', flush=True); import os, time; time.sleep(0.3); os.kill(os.getpid(), 9)",
    )
    assert result.status == "kernel_died"
    assert result.is_error
    assert "last words" in result.runs[0].output
    after = await harness.call("execute_ipython", code="'alive'", wait=60)
    assert after.status == "ok", after.full_text()
    notices = [*result.notices, *after.notices]
    assert any("variables are lost" in notice for notice in notices)


async def test_variables_are_listed_without_running_their_own_code(harness, used):
    code = """
import numpy as np
class Loud:
    def __repr__(self): raise SystemError("ran user code")
    def __len__(self): raise SystemError("ran user code")
loud, n, name, array, many = Loud(), 3, "x", np.zeros((3, 4)), list(range(10))
def area(w, h=2):
    '''Width times height.'''
"""
    assert (await harness.call("execute_ipython", code=code)).status == "ok"
    found = {v.name: v for v in (await harness.call("list_variables")).variables}
    assert set(found) == {"Loud", "loud", "n", "name", "array", "many", "area"}
    assert (found["n"].value, found["name"].value) == ("3", "'x'")
    assert (found["array"].type, found["array"].shape, found["array"].size) == (
        "numpy.ndarray",
        "3x4",
        96,
    )
    assert found["loud"].type == "Loud"
    assert [v.name for v in (await harness.call("list_variables", pattern="a*")).variables] == [
        "array",
        "area",
    ]
    detail = await harness.call("inspect_variable", name="area")
    assert "area(w, h=2)" in detail.detail
    assert "Width times height." in detail.detail
    assert "float64" in (await harness.call("inspect_variable", name="array")).detail
    with pytest.raises(NotFound):
        await harness.call("inspect_variable", name="nothing")
    with pytest.raises(InvalidArguments):
        await harness.call("inspect_variable", name="__import__('os')")
    leftovers = await harness.call(
        "execute_ipython", code="[n for n in dir() if 'answer' in n or 'inspect' in n]"
    )
    assert leftovers.runs[0].output == "[]"


@pytest.mark.usefixtures("debugger")
async def test_a_running_cell_is_looked_into(harness, used):
    code = """
import time
losses = [1.0, 0.5]
def train(): pass
for epoch in range(600):
    losses.append(epoch)
    time.sleep(0.1)
"""
    running = await harness.call("execute_ipython", code=code, wait=0.5)
    async with asyncio.timeout(6):
        found = await harness.call("list_variables", pattern="*")
        assert found.as_text().startswith("[The kernel is running code: values as they are now]\n")
        values = {each.name: each for each in found.variables}
        assert values["losses"].type == "list"
        assert values["losses"].value.startswith("[1.0, 0.5, 0, 1")
        assert "time" not in values
        earlier = int(values["epoch"].value)
        while int((await harness.call("inspect_variable", name="epoch")).detail) == earlier:
            pass
        listed = await harness.call("list_variables", pattern="ep*")
        assert [each.name for each in listed.variables] == ["epoch"]
        with pytest.raises(KernelBusy, match="lists no variable `train`"):
            await harness.call("inspect_variable", name="train")
    state = await harness.call("wait_execution", execution_id=running.execution_id, wait=0)
    assert state.status == "running"
    await harness.call("interrupt_kernel", execution_id=running.execution_id)


async def test_variables_need_a_python_kernel_and_all_else_does_not(harness, bash_kernelspec):
    harness.write(
        "b.ipynb", "x=5\necho $x", "sleep 60", kernelspec={"name": "bash", "display_name": "Bash"}
    )
    used = await harness.call("use_notebook", notebook="b.ipynb")
    assert used.language == "bash"
    assert (await harness.call("execute_cell", cell=0)).runs[0].output == "5"
    inserted = await harness.call("insert_and_execute_cell", source="echo $((x + 1))")
    assert inserted.runs[0].output == "6"
    with pytest.raises(KernelUnsupported):
        await harness.call("list_variables")
    running = await harness.call("execute_cell", cell=1, wait=1)
    assert running.status == "running"
    await harness.call("interrupt_kernel")
    ended = await harness.call("wait_execution", execution_id=running.execution_id)
    assert ended.status == "interrupted"
    await harness.call("read_cell", cell=0)
    await harness.call("overwrite_cell", cell=0, source="echo again")
    assert (await harness.call("execute_cell", cell=0)).runs[0].output == "again"
