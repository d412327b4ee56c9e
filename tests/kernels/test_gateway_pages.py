"""A person's cells in JupyterLab run in kernels behind a gateway, too, where the server executes them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.kernels.conftest import Server, running_server
from tests.kernels.gateways import running_gateway
from tk_ai_extension.testing import faults
from tk_ai_extension.testing.executor_bench import (
    DEADLINE,
    ExecutorBench,
    happens,
    kernel_events,
    run,
    submit,
)

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.proves("kernel:session", "kernel:shared-live"),
]


@pytest.fixture(scope="module")
def backend() -> str:
    return "gateway"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    async with (
        running_gateway(folder / "gateway") as gateway,
        running_server(folder, nbmodel=True, gateway=gateway) as server,
    ):
        yield server


async def settled(stack: Any, kernel_id: str, uid: str) -> Any:
    """The result of a person's request."""
    async with asyncio.timeout(DEADLINE):
        await stack._ExecutionStack__tasks[kernel_id].join()
    return stack.get(kernel_id, uid)


async def test_a_person_and_an_agent_run_cells_in_turn_in_one_kernel(
    server: Server, bench: ExecutorBench, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    async with kernel_events(bench) as events:
        theirs = server.stack.put(bench.kernel_id, faults.run_until(go, "x = 41\nx"))
        event = await happens(events, "ran", kernel_id=bench.kernel_id)
        assert not event.ours
        ours = submit(bench, "print(x + 1)")
        go.touch()
        result = await settled(server.stack, bench.kernel_id, theirs)
    printed, value = json.loads(result["outputs"])
    assert (result["status"], printed["text"]) == ("ok", "waiting\n")
    assert value["data"]["text/plain"] == "41"
    outcome = await ours.outcome()
    assert (outcome.text(), outcome.execution.backend) == ("42\n", "gateway")


async def test_a_persons_error_is_one_and_what_an_agent_has_queued_runs(
    server: Server, bench: ExecutorBench
) -> None:
    theirs = server.stack.put(bench.kernel_id, "1 / 0")
    result = await settled(server.stack, bench.kernel_id, theirs)
    assert result["status"] == "error"
    assert json.loads(result["outputs"])[0]["ename"] == "ZeroDivisionError"
    assert (await run(bench, "1")).status == "ok"


async def test_a_person_answers_what_their_cell_asks(server: Server, bench: ExecutorBench) -> None:
    stack = server.stack
    theirs = stack.put(bench.kernel_id, "input('Name? ')")
    pending = stack._ExecutionStack__pending_inputs[bench.kernel_id]
    async with asyncio.timeout(DEADLINE):
        while not pending.is_pending():  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert stack.get(bench.kernel_id, theirs)["input_request"]["prompt"] == "Name? "
    await stack.send_input(bench.kernel_id, "Ada")
    result = await settled(stack, bench.kernel_id, theirs)
    assert json.loads(result["outputs"])[0]["data"]["text/plain"] == "'Ada'"


@pytest.mark.proves("fault:restarted-under")
async def test_a_persons_cell_ends_with_its_kernel_and_the_next_one_runs(
    server: Server, bench: ExecutorBench, harmed: Callable[[], Awaitable[str]]
) -> None:
    kernel_id = await harmed()
    async with kernel_events(bench) as events:
        theirs = server.stack.put(kernel_id, faults.ignore_interrupts(60))
        await happens(events, "ran", kernel_id=kernel_id)
        await bench.kernels.restart(kernel_id)
        result = await settled(server.stack, kernel_id, theirs)
        assert "The kernel was restarted" in result["error"]
    again = server.stack.put(kernel_id, "1 + 1")
    assert (await settled(server.stack, kernel_id, again))["status"] == "ok"
