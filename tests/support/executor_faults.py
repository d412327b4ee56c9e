"""Conformance of executors: the kernel ends while code is running."""

from __future__ import annotations

from contextlib import suppress
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
from tk_ai_extension.model.errors import KernelNotFound


class EndOfKernelConformance:
    """The kernel ends while code is running."""

    @pytest.mark.proves("fault:kernel-killed", "exec:statuses", "kernel:heartbeat")
    @pytest.mark.proves("kernel:auto-restart")
    async def test_a_kernel_killed_in_a_cell_is_noticed_and_the_next_request_works(
        self, bench: ExecutorBench, tmp_path: Path
    ) -> None:
        kernel_id = await bench.harmed()
        go = tmp_path / "go"
        async with kernel_events(bench) as events:
            code = "kept = 1\n" + faults.run_until(go, faults.KILL_ITSELF)
            killed = submit(bench, code, kernel_id)
            await killed.printed()
            go.touch()
            queued = submit(bench, "print('queued')", kernel_id)
            outcome = await killed.outcome(deadline=5)
            assert outcome.status == "kernel_died"
            assert "possibly out of memory" in outcome.execution.message
            assert outcome.text() == "waiting\n"
            await happens(events, "died", kernel_id=kernel_id)
            # Requests that the dead kernel had received are lost; others run exactly once.
            assert (await queued.outcome()).status in {"ok", "kernel_died"}
            after = await run(bench, "print('after')", kernel_id)
            assert (after.status, after.text()) == ("ok", "after\n")
            await happens(events, "restarted", kernel_id=kernel_id)
            gone = await run(bench, "kept", kernel_id)
            assert gone.status == "error", "its variables are gone"
        assert (await bench.kernels.info(kernel_id)).restarts == 1

    @pytest.mark.proves("exec:statuses", "kernel:shared-live")
    async def test_a_person_restarts_the_kernel_under_a_cell(self, bench: ExecutorBench) -> None:
        kernel_id = await bench.harmed()
        async with kernel_events(bench) as events:
            running = submit(bench, faults.RUN_FOREVER, kernel_id)
            await running.printed()
            await bench.request("POST", f"api/kernels/{kernel_id}/restart")
            outcome = await running.outcome()
            assert outcome.status == "kernel_restarted"
            assert outcome.text() == "running\n"
            await happens(events, "restarted", kernel_id=kernel_id)
        after = await run(bench, "print('after')", kernel_id)
        assert (after.status, after.text()) == ("ok", "after\n")
        assert after.execution.execution_count == 1

    @pytest.mark.proves("exec:statuses", "kernel:tools")
    async def test_we_restart_the_kernel_under_a_cell_that_ignores_interrupts(
        self, bench: ExecutorBench
    ) -> None:
        kernel_id = await bench.harmed()
        running = submit(bench, faults.ignore_interrupts(60), kernel_id)
        await running.printed()
        await bench.kernels.restart(kernel_id)
        assert (await running.outcome()).status == "kernel_restarted"
        assert (await run(bench, "1", kernel_id)).execution.execution_count == 1

    @pytest.mark.proves("exec:statuses", "kernel:shared-live")
    async def test_a_person_shuts_the_kernel_down_under_a_cell(self, bench: ExecutorBench) -> None:
        kernel_id = await bench.harmed()
        async with kernel_events(bench) as events:
            running = submit(bench, faults.RUN_FOREVER, kernel_id)
            await running.printed()
            # A shutdown interrupts first, so this one may start; it does not end by itself.
            queued = submit(bench, faults.RUN_FOREVER, kernel_id)
            await bench.request("DELETE", f"api/kernels/{kernel_id}")
            outcome = await running.outcome()
            assert outcome.status == "kernel_died"
            assert "shut down" in outcome.execution.message
            await happens(events, "shutdown", kernel_id=kernel_id)
        with suppress(KernelNotFound):  # where the queue is the executor's own: not submitted yet
            assert (await queued.outcome()).status == "kernel_died"
        with pytest.raises(KernelNotFound):
            await run(bench, "1", kernel_id)
