"""When an execution has ended, from the messages that are received."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tk_ai_extension.kernels.base_connection import Ending, SequenceGapDetector
from tk_ai_extension.kernels.execution_listener import ExecutionListener, Timeouts
from tk_ai_extension.model.executions import Execution, ExecutionRequest, OutputsChanged

OK = {"status": "ok", "execution_count": 1}
INTERRUPTED = {"status": "error", "ename": "KeyboardInterrupt", "evalue": "", "traceback": []}


@pytest.fixture
async def run() -> ExecutionListener:
    return new_run()


def new_run(
    *,
    stopping: Callable[[], bool] = lambda: False,
    reply_idle_gap: float = 0.1,
    reply_idle_limit: float = 60.0,
    **request: Any,
) -> ExecutionListener:
    async def interrupt() -> None:
        raise RuntimeError("there is no kernel")

    return ExecutionListener(
        ExecutionRequest("code", **request),
        backend="direct",
        interrupt=interrupt,
        stopping=stopping,
        timeouts=Timeouts(
            reply_idle_gap=reply_idle_gap,
            reply_idle_limit=reply_idle_limit,
            interrupt=0.05,
            stopping=0.1,
        ),
    )


def receive(run: ExecutionListener, kind: str, **content: Any) -> None:
    run.on_iopub(kind, content, None)


async def ended(run: ExecutionListener) -> Execution:
    async with asyncio.timeout(5):
        async for event in run.events():
            if isinstance(event, Execution):
                await run.close()
                return event
    raise AssertionError("there is always an Execution")


@pytest.mark.proves("exec:complete")
@pytest.mark.parametrize("reply_first", [True, False])
async def test_it_ends_with_reply_and_idle_in_either_order(
    run: ExecutionListener, reply_first: bool
) -> None:
    receive(run, "status", execution_state="busy")
    for reply in (reply_first, not reply_first):
        assert not run.done
        if reply:
            run.on_reply(OK)
        else:
            receive(run, "status", execution_state="idle")
    assert run.status == "ok"


@pytest.mark.proves("exec:complete")
@pytest.mark.parametrize("reply", [True, False])
async def test_the_other_half_is_waited_for_a_bounded_time(
    run: ExecutionListener, reply: bool
) -> None:
    receive(run, "execute_input", code="code", execution_count=1)
    if reply:
        run.on_reply(OK)
    else:
        receive(run, "status", execution_state="idle")
    assert not run.done
    assert (await ended(run)).status == "ok"


@pytest.mark.proves("exec:complete", "fault:flood")
async def test_a_flood_that_is_still_read_after_the_reply_is_read_to_its_end() -> None:
    # All of it takes longer than that, and no step as long, on a machine that is busy either.
    run = new_run(reply_idle_gap=1.0)
    run.on_reply(OK)
    loop, left = asyncio.get_running_loop(), 10

    def receive_more() -> None:
        nonlocal left
        left -= 1
        receive(run, "stream", name="stdout", text="more\n")
        if left:
            loop.call_later(0.15, receive_more)
        else:
            receive(run, "status", execution_state="idle")

    receive_more()
    assert (await ended(run)).outputs[0]["text"] == "more\n" * 10


@pytest.mark.proves("exec:complete", "exec:timeout")
@pytest.mark.parametrize("reply", [True, False])
@pytest.mark.parametrize("limits", [{"reply_idle_limit": 0.3}, {"timeout": 0.3}])
async def test_the_other_half_is_not_waited_for_without_end_while_a_thread_prints(
    reply: bool, limits: dict[str, Any]
) -> None:
    run, loop = new_run(**limits), asyncio.get_running_loop()

    def print_on() -> None:
        receive(run, "stream", name="stdout", text=".")
        if not run.done:
            loop.call_later(0.02, print_on)

    receive(run, "status", execution_state="busy")
    if reply:
        run.on_reply(OK)
    else:
        receive(run, "status", execution_state="idle")
    print_on()
    execution = await ended(run)
    assert execution.status == "ok"
    assert len(execution.outputs[0]["text"]) > 1
    # Without idle, what the code printed may still be on its way.
    assert ("arrive later" in str(execution.outputs[-1])) is reply


@pytest.mark.proves("exec:timeout")
async def test_a_timeout_counts_although_only_outputs_show_that_the_code_runs() -> None:
    run = new_run(timeout=0.01)
    receive(run, "stream", name="stdout", text=".")
    assert (await ended(run)).status == "timed_out"


@pytest.mark.proves("fault:flood")
@pytest.mark.parametrize("end_is_received", [True, False])
async def test_a_flood_whose_end_is_not_received_says_so(
    run: ExecutionListener, end_is_received: bool
) -> None:
    for _ in range(1_000):
        receive(run, "stream", name="stdout", text="more\n")
    run.on_reply(OK)
    if end_is_received:
        receive(run, "status", execution_state="idle")
    execution = await ended(run)
    stderr = "".join(each["text"] for each in execution.outputs if each["name"] == "stderr")
    assert ("The last messages with output were lost" in stderr) is not end_is_received


@pytest.mark.proves("exec:statuses")
async def test_an_error_without_a_reply_is_one(run: ExecutionListener) -> None:
    receive(run, "error", ename="E", evalue="v", traceback=[])
    receive(run, "status", execution_state="idle")
    execution = await ended(run)
    assert (execution.status, execution.error) == (
        "error",
        {"ename": "E", "evalue": "v", "traceback": []},
    )


@pytest.mark.proves("exec:statuses")
@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("died", "kernel_died"),
        ("shutdown", "kernel_died"),
        ("restarted", "kernel_restarted"),
        ("lost", "connection_lost"),
        ("closed", "connection_lost"),
    ],
)
async def test_it_ends_with_the_connection(run: ExecutionListener, kind: Any, status: str) -> None:
    receive(run, "stream", name="stdout", text="kept")
    run.on_end(Ending(kind, "Why."))
    execution = await ended(run)
    assert (execution.status, execution.message) == (status, "Why.")
    assert execution.outputs[0]["text"] == "kept"


@pytest.mark.proves("exec:statuses")
async def test_an_execution_with_a_reply_is_ok_although_the_kernel_died(
    run: ExecutionListener,
) -> None:
    run.on_reply(OK)
    run.on_end(Ending("died", "Why."))
    assert (await ended(run)).status == "ok"


@pytest.mark.proves("exec:statuses")
async def test_the_interrupt_that_comes_with_a_restart_is_not_the_end() -> None:
    run = new_run(stopping=lambda: True)
    run.on_reply(INTERRUPTED)
    receive(run, "status", execution_state="idle")
    assert not run.done
    run.on_end(Ending("restarted", "The kernel was restarted."))
    assert (await ended(run)).status == "kernel_restarted"


@pytest.mark.proves("exec:statuses")
async def test_a_stop_that_never_comes_is_not_waited_for() -> None:
    run = new_run(stopping=lambda: True)
    run.on_reply(INTERRUPTED)
    receive(run, "status", execution_state="idle")
    assert (await ended(run)).status == "interrupted"


@pytest.mark.proves("exec:timeout")
async def test_a_timeout_ends_it_even_where_interrupting_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = new_run(timeout=0.01)
    receive(run, "status", execution_state="busy")
    execution = await ended(run)
    assert execution.status == "timed_out"
    assert "interrupt_ignored" in execution.message
    assert "Interrupting a kernel failed" in caplog.text


@pytest.mark.proves("exec:timeout", "kernel:shared-live")
@pytest.mark.parametrize("has_reply", [True, False])
async def test_a_timeout_after_its_code_has_ended_interrupts_nothing(
    has_reply: bool, caplog: pytest.LogCaptureFixture
) -> None:
    run = new_run(timeout=0.01)
    receive(run, "status", execution_state="busy")
    if has_reply:
        run.on_reply(OK)
    else:
        receive(run, "status", execution_state="idle")
    assert (await ended(run)).status == "ok"
    assert "Interrupting" not in caplog.text


@pytest.mark.parametrize("silent", [False, True])
async def test_a_request_that_the_kernel_drops_unrun_is_distinguished(silent: bool) -> None:
    run = new_run(silent=silent)
    receive(run, "status", execution_state="busy")
    run.on_reply({"status": "aborted"})
    receive(run, "status", execution_state="idle")
    assert run.aborted


async def test_a_silent_request_that_was_interrupted_is_not_submitted_again() -> None:
    run = new_run(silent=True)
    receive(run, "status", execution_state="busy")
    run.on_interrupt()
    run.on_reply({"status": "aborted"})
    receive(run, "status", execution_state="idle")
    assert (run.aborted, run.status) == (False, "interrupted")


@pytest.mark.proves("out:stream")
async def test_outputs_are_reported_at_once_and_then_in_batches(run: ExecutionListener) -> None:
    loop = asyncio.get_running_loop()

    def print_on(left: int) -> None:
        receive(run, "stream", name="stdout", text="x")
        if left:
            loop.call_soon(print_on, left - 1)
        else:
            run.on_reply(OK)
            receive(run, "status", execution_state="idle")

    print_on(1000)
    async with asyncio.timeout(5):
        changes = [event async for event in run.events() if isinstance(event, OutputsChanged)]
    assert 1 < len(changes) < 100


def test_the_detector_counts_messages_that_were_not_received() -> None:
    detector = SequenceGapDetector()
    begin = detector.count("s_1_10", begins_request=True)
    assert begin is not None
    assert detector.count("s_1_11", begins_request=False) == begin
    assert detector.count("s_1_14", begins_request=False) == begin + 2
    assert detector.count("s_2_5", begins_request=False) is None, "a subprocess counts for itself"
    assert detector.count("s_1_15", begins_request=True) == begin + 1, "its reply is expected"
    assert detector.count("e7a1c2d0-not-numbered", begins_request=False) is None


@pytest.mark.proves("exec:complete")
async def test_text_for_a_pager_is_an_output_and_known_as_such(run: ExecutionListener) -> None:
    data = {"text/plain": "Signature: print()"}
    page, other = {"source": "page", "data": data}, {"source": "set_next_input", "text": "1"}
    run.on_reply({**OK, "payload": [page, other, "broken"]})
    execution = await ended(run)
    assert execution.pages == (data,)
    assert [each["data"] for each in execution.outputs] == [data]
