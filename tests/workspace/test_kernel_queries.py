"""What a query of a kernel's variables reports if the kernel does not answer it."""

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
    Started,
)
from tk_ai_extension.tools.default import variables
from tk_ai_extension.tools.registry import ToolContext
from tk_ai_extension.workspace import runs

__all__ = ["backend", "harness", "jp_server_config"]


class EndingExecutor:
    """An executor whose executions end in one way."""

    def __init__(self, status: EndStatus) -> None:
        self.status: EndStatus = status

    async def execute(
        self, _kernel_id: str, _request: ExecutionRequest
    ) -> AsyncGenerator[ExecutionEvent]:
        yield Started(None)
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


async def test_a_query_waits_for_others_within_a_limit(
    harness: ToolHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.write("n.ipynb", "1")
    await harness.call("use_notebook", notebook="n.ipynb")
    monkeypatch.setattr(runs, "QUERY_WAIT", 0.2)
    (kernel_id,) = harness.workspace.kernels.ids()
    async with harness.workspace.queries.turn(kernel_id):
        with pytest.raises(KernelBusy, match="other queries"):
            await harness.call("list_variables")
    monkeypatch.undo()
    assert (await harness.call("list_variables")).variables == []


@pytest.mark.proves("exec:concurrent")
async def test_queries_that_are_cancelled_keep_no_others_out(
    harness: ToolHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.write("n.ipynb", "a = 1")
    await harness.call("use_notebook", notebook="n.ipynb")
    begun, ends = asyncio.Queue[None](), asyncio.Event()
    run = variables._run

    async def held(context: ToolContext, kernel: str, request: ExecutionRequest) -> Execution:
        begun.put_nowait(None)
        await ends.wait()
        return await run(context, kernel, request)

    monkeypatch.setattr(variables, "_run", held)
    queries = [asyncio.create_task(harness.call("list_variables")) for _ in range(8)]
    await begun.get()
    for each in queries:
        each.cancel()
    ends.set()
    await asyncio.wait(queries)
    assert all(each.cancelled() for each in queries)
    assert (await harness.call("list_variables")).variables == []
    # The one that had begun, and this one.
    assert begun.qsize() == 1
