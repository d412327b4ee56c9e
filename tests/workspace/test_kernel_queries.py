"""Reports of a query of variables and of a run if the kernel does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from tests.harness import ToolHarness, backend, harness, jp_server_config
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import KernelBusy, KernelDied, ToolError
from tk_ai_extension.model.executions import (
    EndStatus,
    Execution,
    ExecutionEvent,
    ExecutionRequest,
    ExecutionStarted,
)

__all__ = ["backend", "harness", "jp_server_config"]


class EndingExecutor:
    """An executor with a fixed end of its executions."""

    def __init__(self, status: EndStatus, *, starts: bool = True) -> None:
        self.status: EndStatus = status
        self.starts = starts

    async def execute(
        self, _kernel_id: str, _request: ExecutionRequest
    ) -> AsyncGenerator[ExecutionEvent]:
        if self.starts:
            yield ExecutionStarted(None)
        yield Execution(self.status)


@pytest.mark.proves("exec:statuses")
@pytest.mark.parametrize(
    ("status", "error"),
    [
        ("interrupted", KernelBusy),
        ("connection_lost", KernelBusy),
        ("kernel_died", KernelDied),
        ("kernel_restarted", KernelDied),
    ],
)
async def test_only_a_kernel_that_ended_has_lost_its_variables(
    harness: ToolHarness,
    status: EndStatus,
    error: type[ToolError],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness.write("n.ipynb", "1")
    await harness.call("use_notebook", notebook="n.ipynb")
    monkeypatch.setattr(harness.workspace.kernels, "execute", EndingExecutor(status).execute)
    with pytest.raises(error):
        await harness.call("list_variables")


@pytest.mark.proves("exec:own-source", "exec:statuses")
@pytest.mark.parametrize("status", ["interrupted", "kernel_died", "kernel_restarted"])
async def test_a_cell_that_did_not_run_keeps_its_outputs(
    harness: ToolHarness, status: EndStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.write("n.ipynb", "print(1)")
    await harness.call("execute_cell", notebook="n.ipynb", cell=0)
    before = (harness.root / "n.ipynb").read_bytes()
    executor = EndingExecutor(status, starts=False)
    monkeypatch.setattr(harness.workspace.kernels, "execute", executor.execute)
    result = await harness.call("execute_cell", notebook="n.ipynb", cell=0)
    assert result.status == status
    assert (harness.root / "n.ipynb").read_bytes() == before


@pytest.mark.proves("exec:concurrent")
async def test_a_query_does_not_take_another_one_for_running_code(harness: ToolHarness) -> None:
    """Eight callers ask an idle kernel, whenever each of them begins."""
    harness.write("n.ipynb", "1")
    await harness.call("use_notebook", notebook="n.ipynb")
    await harness.call("execute_ipython", code="sales = 3")

    async def ask(number: int, delay: float) -> list[str]:
        begins = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(delay, begins.set_result, None)
        await begins
        caller = Caller("person", key=f"agent {number}", interface="mcp")
        found = await harness.call("list_variables", caller=caller, notebook="n.ipynb")
        return [each.name for each in found.variables]

    for gap in (0.0, 0.002, 0.004, 0.008, 0.016):
        asked = [ask(number, number * gap) for number in range(8)]
        assert await asyncio.gather(*asked) == [["sales"]] * 8
