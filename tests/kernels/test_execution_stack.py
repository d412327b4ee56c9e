"""The queue of jupyter_server_nbmodel's execution stack, which code of this server joins."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kernels.conftest import Server
from tests.support import faults
from tests.support.executor_bench import (
    DEADLINE,
    ExecutorBench,
    happens,
    kernel_events,
    run,
    submit,
)
from tk_ai_extension.kernels.kernel_service import KernelService

pytestmark = pytest.mark.asyncio(loop_scope="module")

Start = Callable[[], Awaitable[str]]


@pytest.fixture(scope="module")
def backend() -> str:
    return "stack"


@pytest.fixture
def stack(server: Server) -> Any:
    return server.stack


async def result_of(stack: Any, kernel_id: str, uid: str) -> Any:
    """The result of a request that another client has put into the stack."""
    async with asyncio.timeout(DEADLINE):
        while (result := stack.get(kernel_id, uid))["pending"]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return result


@pytest.mark.proves("exec:stack", "exec:concurrent")
@pytest.mark.parametrize("then", ["order = ['theirs']", "order = ['theirs']\n1 / 0"])
async def test_it_waits_for_what_jupyterlab_has_queued_on_the_server(
    bench: ExecutorBench, stack: Any, tmp_path: Path, then: str
) -> None:
    go = tmp_path / "go"
    assert bench.kernels.backend == "stack"
    async with kernel_events(bench) as events:
        first = stack.put(bench.kernel_id, faults.run_until(go, then))
        await happens(events, "ran", ours=False)
        second = stack.put(bench.kernel_id, "order.append('theirs, too')")
        ours = submit(bench, "order.append('ours'); order")
        after = stack.put(bench.kernel_id, "order")
        go.touch()
        outcome = await ours.outcome()
    is_error = "1 / 0" in then
    shown = ["theirs", "ours"] if is_error else ["theirs", "theirs, too", "ours"]
    assert outcome.outputs[0]["data"]["text/plain"] == str(shown)
    assert outcome.execution.backend == "stack"
    assert (await result_of(stack, bench.kernel_id, first))["status"] == (
        "error" if is_error else "ok"
    )
    for uid in (second, after):  # the stack drops them after an error
        assert ("error" in await result_of(stack, bench.kernel_id, uid)) == is_error


@pytest.mark.proves("exec:concurrent")
async def test_our_error_does_not_drop_what_jupyterlab_has_queued(
    bench: ExecutorBench, stack: Any, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    ours = submit(bench, faults.run_until(go, "1 / 0"))
    await ours.printed()
    theirs = stack.put(bench.kernel_id, "'theirs'")
    go.touch()
    assert (await ours.outcome()).status == "error"
    result = await result_of(stack, bench.kernel_id, theirs)
    assert json.loads(result["outputs"])[0]["data"]["text/plain"] == "'theirs'"


async def test_a_stack_that_lost_its_kernel_holds_nobody_up(
    bench: ExecutorBench, stack: Any, harmed: Start
) -> None:
    kernel_id = await harmed()
    async with kernel_events(bench) as events:
        # The kernel may end before it has published that it runs the code, unless that takes a moment.
        code = f"import time\ntime.sleep(0.3)\n{faults.KILL_ITSELF}"
        stack.put(kernel_id, code)  # the stack waits for its end for ever
        await happens(events, "ran", ours=False)
        after = await run(bench, "print('after')", kernel_id)
    assert (after.status, after.text()) == ("ok", "after\n")
    task = asyncio.ensure_future(stack.cancel(kernel_id, 3))
    await asyncio.wait({task})


@pytest.mark.proves("exec:fallback")
async def test_without_the_stack_executions_go_direct(
    server: Server, kernel_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        kernels = KernelService(server.manager, server.app.kernel_spec_manager)
    assert kernels.backend == "direct"
    assert "Using the executor `direct`" in caplog.text
    await kernels.close()
