"""A person's cells in JupyterLab run in kernels behind a gateway, too, where the server executes them."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.kernels.conftest import Server, running_server
from tests.kernels.gateways import running_gateway
from tests.support import faults
from tests.support.executor_bench import (
    DEADLINE,
    ExecutorBench,
    happens,
    kernel_events,
    run,
    submit,
)
from tk_ai_extension.kernels import pages
from tk_ai_extension.kernels.environment import InheritedEnvironment
from tk_ai_extension.kernels.gateway.service import GatewayKernels

HESITATE = """
import sys, time
thread = get_ipython().kernel.iopub_thread
def later(*args, send=thread._really_send, **options):
    time.sleep(0.2)
    send(*args, **options)
thread._really_send = later
sys.stdout.flush_timeout = sys.stderr.flush_timeout = 0
"""
"""A cell whose kernel is slow from then on in saying what it shows: the reply is there before."""

LOSE_THE_REPLY = """
session = get_ipython().kernel.session
def but_no_reply(stream, kind, *args, send=session.send, **options):
    if kind != 'execute_reply':
        return send(stream, kind, *args, **options)
session.send = but_no_reply
"""

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


@pytest.mark.parametrize("ask", ["input", "__import__('getpass').getpass"])
async def test_a_person_answers_what_their_cell_asks(
    server: Server, bench: ExecutorBench, ask: str
) -> None:
    stack = server.stack
    theirs = stack.put(bench.kernel_id, f"{ask}('Name? ')")
    pending = stack._ExecutionStack__pending_inputs[bench.kernel_id]
    async with asyncio.timeout(DEADLINE):
        while not pending.is_pending():  # noqa: ASYNC110
            await asyncio.sleep(0)
    asked = stack.get(bench.kernel_id, theirs)["input_request"]
    assert asked == {"prompt": "Name? ", "password": ask != "input"}, "a password is not shown"
    await stack.send_input(bench.kernel_id, "Ada")
    result = await settled(stack, bench.kernel_id, theirs)
    assert json.loads(result["outputs"])[0]["data"]["text/plain"] == "'Ada'"


@pytest.mark.proves("exec:statuses")
async def test_a_persons_cell_ends_with_its_kernel_and_the_next_one_runs(
    server: Server, bench: ExecutorBench, harmed: Callable[[], Awaitable[str]], tmp_path: Path
) -> None:
    kernel_id = await harmed()
    pipe = tmp_path / "ignoring"
    os.mkfifo(pipe)
    async with kernel_events(bench) as events:
        theirs = server.stack.put(kernel_id, faults.ignore_interrupts(60, pipe))
        await happens(events, "ran", kernel_id=kernel_id)
        await asyncio.to_thread(pipe.read_bytes)  # Restarting interrupts first.
        await bench.kernels.restart(kernel_id)
        result = await settled(server.stack, kernel_id, theirs)
        assert "The kernel was restarted" in result["error"]
    again = server.stack.put(kernel_id, "1 + 1")
    assert (await settled(server.stack, kernel_id, again))["status"] == "ok"


async def test_a_persons_cell_ends_when_all_messages_came_or_no_more_come(
    server: Server,
    bench: ExecutorBench,
    harmed: Callable[[], Awaitable[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel_id = await harmed()
    await run(bench, HESITATE, kernel_id)
    monkeypatch.setattr(pages, "REPLY_IDLE_GAP", 0.5)
    theirs = server.stack.put(kernel_id, faults.show_displays(5))
    result = await settled(server.stack, kernel_id, theirs)
    shown = [each["data"]["text/plain"] for each in json.loads(result["outputs"])]
    assert shown == list("01234"), "all that came after the reply"
    theirs = server.stack.put(kernel_id, f"{LOSE_THE_REPLY}1 / 0")
    result = await settled(server.stack, kernel_id, theirs)
    assert result["status"] == "error"


@pytest.mark.proves("fault:connection-lost")
async def test_a_persons_cell_ends_with_its_connection_and_what_became_of_that_is_not_the_next_ones(
    server: Server, bench: ExecutorBench, kernels: GatewayKernels, tmp_path: Path
) -> None:
    go, kernel_id = tmp_path / "go", bench.kernel_id
    async with kernel_events(bench) as events:
        theirs = server.stack.put(kernel_id, faults.run_until(go))
        await happens(events, "ran", kernel_id=kernel_id)
    line = await kernels.connection(kernel_id)
    line.lost = True  # as who writes finds out before the reader does
    following = await kernels.connection(kernel_id)
    result = await settled(server.stack, kernel_id, theirs)
    assert "The connection to the kernel was lost" in result["error"]
    async with asyncio.timeout(DEADLINE):
        await line.reading
    assert await kernels.connection(kernel_id) is following
    go.touch()
    assert (await run(bench, "1")).status == "ok"


async def test_a_service_that_is_closed_runs_nothing_more_of_a_persons(
    server: Server, bench: ExecutorBench, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    stack = type(server.stack)(server.manager, None)
    kernels = GatewayKernels(
        server.manager,
        server.app.kernel_spec_manager,
        environment=InheritedEnvironment(),
        ready_timeout=30,
        stack=stack,
    )
    async with kernel_events(bench) as events:
        stack.put(bench.kernel_id, faults.run_until(go))
        queued = stack.put(bench.kernel_id, "queued = True")
        await happens(events, "ran", kernel_id=bench.kernel_id)
    await kernels.close()
    assert stack.get(bench.kernel_id, queued)["error"] == "Execution cancelled."
    go.touch()
    assert (await run(bench, "queued")).status == "error", "it was not run"
    await stack.dispose()
