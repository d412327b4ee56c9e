"""The conformance suite of executors: what `KernelService` promises, against real kernels.

A test module runs it by a subclass and a fixture ``bench``::

    class TestMyExecutor(ExecutorConformance):
        @pytest.fixture
        def bench(self) -> ExecutorBench: ...

The suite needs kernels of ipykernel, and a Jupyter Server's REST API for what people do there.
"""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

import pytest

from tests.support import faults
from tests.support.executor_bench import (
    ExecutorBench,
    happens,
    kernel_events,
    run,
    submit,
)
from tests.support.executor_faults import EndOfKernelConformance
from tests.support.executor_outputs import FloodConformance, OutputConformance
from tk_ai_extension.model.errors import KernelNotFound
from tk_ai_extension.model.executions import ExecutionStarted


class StatusConformance:
    """Status of ended executions."""

    @pytest.mark.proves("exec:statuses", "exec:complete", "out:types")
    async def test_ok_has_the_result_and_the_count(self, bench: ExecutorBench) -> None:
        first = await run(bench, "answer = 41")
        outcome = await run(bench, "answer + 1")
        assert outcome.status == "ok"
        assert outcome.execution.backend == bench.backend
        assert outcome.outputs[0]["output_type"] == "execute_result"
        assert outcome.outputs[0]["data"] == {"text/plain": "42"}
        assert first.execution.execution_count is not None
        assert outcome.execution.execution_count == first.execution.execution_count + 1
        assert ExecutionStarted(outcome.execution.execution_count) in outcome.events
        assert outcome.execution.duration > 0

    @pytest.mark.proves("exec:statuses", "out:ansi")
    async def test_error_has_name_value_and_a_traceback_in_colour(
        self, bench: ExecutorBench
    ) -> None:
        outcome = await run(bench, "print('before')\n1 / 0")
        assert outcome.status == "error"
        assert outcome.text() == "before\n"
        assert outcome.execution.error is not None
        assert outcome.execution.error["ename"] == "ZeroDivisionError"
        assert outcome.execution.error["evalue"] == "division by zero"
        assert "\x1b[" in "".join(outcome.outputs[-1]["traceback"])

    @pytest.mark.proves("exec:statuses", "exec:cancel")
    async def test_an_interrupt_ends_it_as_interrupted_and_keeps_what_was_printed(
        self, bench: ExecutorBench
    ) -> None:
        running = submit(bench, faults.RUN_FOREVER)
        await running.printed()
        await bench.kernels.interrupt(bench.kernel_id)
        outcome = await running.outcome()
        assert outcome.status == "interrupted"
        assert outcome.text() == "running\n"
        assert outcome.execution.message

    @pytest.mark.proves("exec:statuses", "exec:timeout")
    async def test_a_timeout_interrupts_says_the_seconds_and_keeps_what_was_printed(
        self, bench: ExecutorBench
    ) -> None:
        outcome = await run(bench, faults.RUN_FOREVER, timeout=0.3)
        assert outcome.status == "timed_out"
        assert "Command timed out after 0.3 seconds" in outcome.execution.message
        assert "interrupt_ignored" not in outcome.execution.message
        assert outcome.text() == "running\n"
        assert (await run(bench, "6 * 7")).status == "ok"

    @pytest.mark.proves("exec:timeout", "exec:cancel")
    async def test_code_that_ignores_the_interrupt_ends_too_and_the_next_waits_for_it(
        self, bench: ExecutorBench
    ) -> None:
        outcome = await run(bench, faults.ignore_interrupts(3), timeout=0.2)
        assert outcome.status == "timed_out"
        assert "interrupt_ignored" in outcome.execution.message
        assert outcome.text() == "ignoring\n"
        after = await run(bench, "print('after')")
        assert (after.status, after.text()) == ("ok", "after\n")

    async def test_an_unknown_kernel_is_named(self, bench: ExecutorBench) -> None:
        unknown = "00000000-0000-0000-0000-000000000000"
        with pytest.raises(KernelNotFound, match=unknown):
            await run(bench, "1", unknown)

    @pytest.mark.proves("exec:log")
    async def test_the_log_has_submission_backend_end_and_duration(
        self, bench: ExecutorBench, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.INFO, "tk_ai_extension"):
            await run(bench, "1 / 0")
        submission = f"Submitting execution request to kernel {bench.kernel_id}"
        assert f"{submission} (backend {bench.backend})" in caplog.text
        assert f"(backend {bench.backend}) ended: error after 0." in caplog.text

    async def test_a_silent_request_is_not_counted_and_answers_expressions(
        self, bench: ExecutorBench
    ) -> None:
        before = await run(bench, "hidden = 1")
        outcome = await run(bench, "hidden += 1", silent=True, user_expressions={"value": "hidden"})
        assert outcome.status == "ok"
        assert outcome.execution.user_expressions["value"]["data"]["text/plain"] == "2"
        after = await run(bench, "hidden")
        assert before.execution.execution_count is not None
        assert after.execution.execution_count == before.execution.execution_count + 1


class SharingConformance:
    """Several clients in one kernel."""

    @pytest.mark.proves("exec:concurrent")
    async def test_two_requests_queue_and_ones_error_does_not_drop_the_other(
        self, bench: ExecutorBench, tmp_path: Path
    ) -> None:
        go = tmp_path / "go"
        first = submit(bench, faults.run_until(go, "1 / 0"))
        await first.printed()
        second = submit(bench, "print('second')")
        third = submit(bench, "print('third')")
        go.touch()
        outcomes = [await each.outcome() for each in (first, second, third)]
        assert [each.status for each in outcomes] == ["error", "ok", "ok"]
        assert [each.text() for each in outcomes[1:]] == ["second\n", "third\n"]
        counts = [each.execution.execution_count or 0 for each in outcomes]
        assert counts == list(range(counts[0], counts[0] + 3))

    @pytest.mark.proves("exec:concurrent", "kernel:shared-live")
    async def test_a_persons_run_is_noticed_and_its_output_is_not_ours(
        self, bench: ExecutorBench, tmp_path: Path
    ) -> None:
        go = tmp_path / "go"
        async with (
            faults.person(bench.manager, bench.kernel_id) as person,
            kernel_events(bench) as events,
        ):
            await bench.kernels.wait_ready(bench.kernel_id)
            person.execute(faults.run_until(go, "print('theirs')"))
            theirs = await happens(events, "ran", ours=False)
            assert "theirs" in theirs.code
            assert theirs.execution_count
            ours = submit(bench, "print('ours')")
            go.touch()
            outcome = await ours.outcome()
            assert (outcome.status, outcome.text()) == ("ok", "ours\n")
            event = await happens(events, "ran", ours=True)
            assert event.code == "print('ours')"

    @pytest.mark.proves("exec:concurrent")
    async def test_a_persons_error_does_not_drop_what_we_have_queued(
        self, bench: ExecutorBench, tmp_path: Path
    ) -> None:
        go = tmp_path / "go"
        async with (
            faults.person(bench.manager, bench.kernel_id) as person,
            kernel_events(bench) as events,
        ):
            await bench.kernels.wait_ready(bench.kernel_id)
            person.execute(faults.run_until(go, "1 / 0"))
            await happens(events, "ran", ours=False)
            ours = submit(bench, "print('ours')")
            # Once the kernel has replied on control, our request is in its queue.
            await faults.control_round_trip(person)
            go.touch()
            outcome = await ours.outcome()
        assert (outcome.status, outcome.text()) == ("ok", "ours\n")

    async def test_closing_early_stops_listening_and_leaves_the_code_running(
        self, bench: ExecutorBench, tmp_path: Path
    ) -> None:
        go = tmp_path / "go"
        left = submit(bench, faults.run_until(go, "went_on = True"))
        await left.printed()
        left.task.cancel()
        await asyncio.wait({left.task})
        after = submit(bench, "went_on")
        go.touch()
        outcome = await after.outcome()
        assert outcome.status == "ok"
        assert outcome.outputs[0]["data"]["text/plain"] == "True"


class ExecutorConformance(
    StatusConformance,
    SharingConformance,
    EndOfKernelConformance,
    OutputConformance,
    FloodConformance,
):
    """The whole suite."""

    @pytest.mark.proves("exec:wait")
    async def test_the_end_is_awaited_and_not_looked_for(self, bench: ExecutorBench) -> None:
        took: list[float] = []
        for _ in range(30):
            began = time.perf_counter()
            assert (await run(bench, "1 + 1")).status == "ok"
            took.append(time.perf_counter() - began)
        # With a look every 0.1 s, all would take about that long. Others may keep the machine busy.
        assert sorted(took)[4] < 0.08
