"""The execution stack: shared with JupyterLab, guarded, and left where it fails."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from jupyter_server_nbmodel.execution_stack import ExecutionStack

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
from tk_ai_extension.kernels.service import JupyterKernels
from tk_ai_extension.kernels.stack import GuardedStack

pytestmark = pytest.mark.asyncio(loop_scope="module")

Start = Callable[[], Awaitable[str]]


@pytest.fixture(scope="module")
def backend() -> str:
    return "stack"


@pytest.fixture
def stack(server: Server) -> Any:
    return server.stack


async def settled(stack: Any, kernel_id: str, uid: str) -> Any:
    """The result of a request that somebody else has put into the stack."""
    async with asyncio.timeout(DEADLINE):
        await stack._ExecutionStack__tasks[kernel_id].join()
    return stack.get(kernel_id, uid)


async def worked_off(stack: Any, kernel_id: str) -> None:
    """Waits until the stack has done with all requests to a kernel."""
    async with asyncio.timeout(DEADLINE):
        await stack._ExecutionStack__tasks[kernel_id].join()
    # The stack reads a result of ours once more: we drop it in the turn that follows.
    await asyncio.sleep(0)


@pytest.mark.proves("exec:stack")
async def test_auto_takes_the_stack_and_it_keeps_nothing_of_what_has_ended(
    bench: ExecutorBench, stack: Any
) -> None:
    assert bench.kernels.executor(bench.kernel_id).name == "stack"
    running = submit(bench, faults.RUN_FOREVER)
    await running.printed()
    (pending,) = stack.pending(bench.kernel_id)
    assert pending["request_status"] == "running"
    await bench.kernels.interrupt(bench.kernel_id)
    assert (await running.outcome()).execution.backend == "stack"
    assert (await run(bench, "1")).status == "ok"
    await worked_off(stack, bench.kernel_id)
    assert stack._ExecutionStack__execution_results[bench.kernel_id] == {}
    assert stack._ExecutionStack__execution_metadata[bench.kernel_id] == {}


@pytest.mark.proves("exec:stack", "exec:concurrent")
async def test_it_queues_with_what_jupyterlab_executes_on_the_server(
    bench: ExecutorBench, stack: Any, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    ours = submit(bench, faults.run_until(go, "order = ['ours']"))
    await ours.printed()
    theirs = stack.put(bench.kernel_id, "order.append('theirs'); order")
    after = submit(bench, "order.append('ours again'); order")
    go.touch()
    result = await settled(stack, bench.kernel_id, theirs)
    assert json.loads(result["outputs"])[0]["data"]["text/plain"] == "['ours', 'theirs']"
    outcome = await after.outcome()
    assert outcome.outputs[0]["data"]["text/plain"] == "['ours', 'theirs', 'ours again']"


@pytest.mark.proves("exec:concurrent")
async def test_a_request_that_the_stack_drops_for_anothers_error_is_queued_again(
    bench: ExecutorBench, stack: Any, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    async with kernel_events(bench) as events:
        theirs = stack.put(bench.kernel_id, faults.run_until(go, "1 / 0"))
        await happens(events, "ran", ours=False)
        ours = submit(bench, "ran = globals().get('ran', 0) + 1\nprint('ours', ran)")
        async with asyncio.timeout(DEADLINE):
            while len(stack.pending(bench.kernel_id)) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0)
        go.touch()
        assert (await settled(stack, bench.kernel_id, theirs))["status"] == "error"
        outcome = await ours.outcome()
    assert (outcome.status, outcome.text()) == ("ok", "ours 1\n")
    assert outcome.execution.backend == "stack"


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
    assert (await settled(stack, bench.kernel_id, theirs))["status"] == "ok"


@pytest.mark.proves("fault:kernel-killed", "exec:statuses")
@pytest.mark.parametrize("end", ["killed", "restarted"])
async def test_a_run_of_jupyterlab_ends_with_the_kernel_and_the_queue_continues(
    bench: ExecutorBench, stack: Any, harmed: Start, tmp_path: Path, end: str
) -> None:
    kernel_id = await harmed()
    # Restarting interrupts first: what ended by that would let the next one begin, and end with the kernel.
    pipe = tmp_path / "ignoring"
    os.mkfifo(pipe)
    async with kernel_events(bench) as events:
        theirs = stack.put(kernel_id, faults.ignore_interrupts(60, pipe))
        await happens(events, "ran", kernel_id=kernel_id)
        await asyncio.to_thread(pipe.read_bytes)
        ours = submit(bench, "print('ours')", kernel_id)
        if end == "killed":
            pid = (await bench.kernels.info(kernel_id)).pid
            assert pid is not None
            faults.kill(pid)
        else:
            await bench.request("POST", f"api/kernels/{kernel_id}/restart")
        result = await settled(stack, kernel_id, theirs)
        assert "The kernel was" in result.get("error", "") or result.get("status") == "error"
        outcome = await ours.outcome()
    assert (outcome.status, outcome.text()) == ("ok", "ours\n")
    again = stack.put(kernel_id, "1 + 1")
    assert (await settled(stack, kernel_id, again))["status"] == "ok"


async def test_a_person_answers_what_their_cell_asks(bench: ExecutorBench, stack: Any) -> None:
    theirs = stack.put(bench.kernel_id, "input('Name? ')")
    pending = stack._ExecutionStack__pending_inputs
    async with asyncio.timeout(DEADLINE):
        while not pending[bench.kernel_id].is_pending():  # noqa: ASYNC110
            await asyncio.sleep(0)
    asked = stack.get(bench.kernel_id, theirs)["input_request"]
    assert asked == {"prompt": "Name? ", "password": False}
    await stack.send_input(bench.kernel_id, "Ada")
    result = await settled(stack, bench.kernel_id, theirs)
    assert json.loads(result["outputs"])[0]["data"]["text/plain"] == "'Ada'"


@pytest.mark.proves("exec:statuses", "exec:stack")
async def test_a_cell_that_ended_with_its_kernel_does_not_run_in_the_next_one(
    server: Server, bench: ExecutorBench, stack: Any, harmed: Start, tmp_path: Path
) -> None:
    """One cell waits before the restart, and one comes at each event of it."""
    kernel_id = await harmed()
    ran, pipe = tmp_path / "ran", tmp_path / "ignoring"
    os.mkfifo(pipe)
    before = (await bench.kernels.info(kernel_id)).pid
    submitted: list[str] = []

    def submit_cell(*_: object) -> None:
        line = f"f'{len(submitted)} {{os.getpid()}}\\n'"
        code = f"import os\nopen({str(ran)!r}, 'a').write({line})"
        submitted.append(stack.put(kernel_id, code))

    async with faults.person(server.manager, kernel_id) as console:
        console.execute(faults.ignore_interrupts(60, pipe))
        await asyncio.to_thread(pipe.read_bytes)
        submit_cell()
        # It has a connection and waits for the kernel.
        async with asyncio.timeout(DEADLINE):
            while stack.pending(kernel_id)[0]["request_status"] != "running":  # noqa: ASYNC110
                await asyncio.sleep(0)
        await faults.control_round_trip(console)
        unsubscribe = bench.kernels.subscribe(submit_cell)
        await bench.request("POST", f"api/kernels/{kernel_id}/restart")
    async with asyncio.timeout(DEADLINE):
        await bench.kernels.wait_ready(kernel_id)
        unsubscribe()
        await stack._ExecutionStack__tasks[kernel_id].join()
    assert (await run(bench, "1", kernel_id)).status == "ok"
    runs = [line.split() for line in ran.read_text().splitlines()] if ran.exists() else []
    assert len(submitted) > 1
    for number, uid in enumerate(submitted):
        processes = [int(pid) for at, pid in runs if at == str(number)]
        error = stack.get(kernel_id, uid).get("error")
        assert len(processes) == 1 if error is None else set(processes) <= {before}, error


@pytest.mark.proves("fault:flood")
async def test_a_flood_that_jupyterlab_executes_ends_too(bench: ExecutorBench, stack: Any) -> None:
    theirs = stack.put(bench.kernel_id, faults.print_lines(2_000, flush=True))
    assert (await settled(stack, bench.kernel_id, theirs))["status"] == "ok"


@pytest.mark.proves("exec:fallback", "exec:log")
async def test_a_stack_that_is_not_known_is_not_used_and_the_log_says_so(
    server: Server, kernel_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "tk_ai_extension"):
        kernels = JupyterKernels(server.manager, server.app.kernel_spec_manager, stack=object())
    assert kernels.executor(kernel_id).name == "direct"
    assert "Using the direct executor: jupyter_server_nbmodel lacks " in caplog.text
    await kernels.close()


@pytest.mark.proves("exec:fallback", "exec:log")
@pytest.mark.parametrize("choice", ["auto", "stack", "direct"])
async def test_without_the_stack_executions_go_direct(
    server: Server, kernel_id: str, choice: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "tk_ai_extension"):
        kernels = JupyterKernels(server.manager, server.app.kernel_spec_manager, backend=choice)
    assert kernels.executor(kernel_id).name == "direct"
    is_logged = "Using the direct executor: jupyter_server_nbmodel is not enabled" in caplog.text
    assert is_logged == (choice != "direct")
    await kernels.close()


@pytest.mark.proves("exec:fallback")
async def test_a_request_that_fails_before_submission_runs_directly_and_once(
    bench: ExecutorBench,
    stack: Any,
    monkeypatch: pytest.MonkeyPatch,
    harmed: Start,
    caplog: pytest.LogCaptureFixture,
) -> None:
    kernel_id = await harmed()

    def no_client(kernel_id: str) -> Any:
        raise OSError("no sockets left")

    monkeypatch.setattr(stack, "_get_local_client", no_client)
    with caplog.at_level(logging.INFO, "tk_ai_extension"):
        outcome = await run(bench, "runs = globals().get('runs', 0) + 1\nruns", kernel_id)
    assert outcome.status == "ok"
    assert outcome.outputs[0]["data"]["text/plain"] == "1"
    assert outcome.execution.backend == "direct"
    assert (
        f"cannot serve kernel {kernel_id}, using the direct executor: no sockets left"
        in caplog.text
    )
    monkeypatch.undo()
    outcome = await run(bench, "runs", kernel_id)
    assert (outcome.execution.backend, outcome.status) == ("stack", "ok")


@pytest.mark.proves("exec:fallback", "exec:stack")
async def test_a_stack_that_was_used_before_us_is_left_alone_until_it_is_free(
    server: Server, bench: ExecutorBench, harmed: Start, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    kernel_id = await harmed()
    stack = ExecutionStack(server.manager, None)
    theirs = stack.put(kernel_id, faults.run_until(go, "'theirs'"))
    async with kernel_events(bench) as events:
        await happens(events, "ran", kernel_id=kernel_id)
    kernels = JupyterKernels(server.manager, server.app.kernel_spec_manager, stack=stack)
    late = ExecutorBench(kernels, server.manager, "stack", kernel_id, harmed, server.request)
    ours = submit(late, "'ours'")
    async with kernel_events(late):
        await kernels.wait_ready(kernel_id)
    go.touch()
    outcome = await ours.outcome()
    assert (outcome.status, outcome.execution.backend) == ("ok", "direct")
    assert (await settled(stack, kernel_id, theirs))["status"] == "ok"
    assert (await run(late, "1")).execution.backend == "stack"
    await kernels.close()
    await stack.dispose()


async def test_a_request_that_nobody_follows_is_finished_and_forgotten(
    bench: ExecutorBench, stack: Any, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    left = submit(bench, faults.run_until(go))
    await left.printed()
    left.task.cancel()
    await asyncio.wait({left.task})
    go.touch()
    assert (await run(bench, "1")).status == "ok"
    await worked_off(stack, bench.kernel_id)
    assert stack._ExecutionStack__execution_results[bench.kernel_id] == {}


async def test_a_kernel_that_is_gone_leaves_nothing_in_the_stack(
    bench: ExecutorBench, stack: Any, harmed: Start
) -> None:
    kernel_id = await harmed()
    await run(bench, "1", kernel_id)
    await bench.kernels.shutdown(kernel_id)
    parts = [each for each in vars(stack).values() if isinstance(each, dict)]
    assert parts
    assert not any(kernel_id in part for part in parts)


async def test_the_installed_stack_is_one_that_is_known(bench: ExecutorBench, stack: Any) -> None:
    assert isinstance(stack, ExecutionStack)
    results = getattr(stack, "_ExecutionStack__execution_results", None)
    assert type(results).__module__ == GuardedStack.__module__
