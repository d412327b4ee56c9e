"""Concurrent restarts, interrupts and shutdowns of one kernel: each gets a clear outcome."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

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
from tk_ai_extension.model.errors import KernelNotFound

pytestmark = pytest.mark.asyncio(loop_scope="module")

Start = Callable[[], Awaitable[str]]


@pytest.fixture(scope="module")
def backend() -> str:
    return "direct"


async def outcomes(*calls: Awaitable[None]) -> Counter[str]:
    """How calls ended that were made at once: ``ok``, or the error's code or name."""
    async with asyncio.timeout(DEADLINE):
        ends = await asyncio.gather(*calls, return_exceptions=True)
    return Counter(
        "ok" if end is None else getattr(end, "code", type(end).__name__) for end in ends
    )


@pytest.mark.proves("kernel:tools")
async def test_everything_at_once_ends_in_the_order_in_which_it_was_asked(
    kernels: KernelService, bench: ExecutorBench, harmed: Start
) -> None:
    kernel_id = await harmed()
    running = submit(bench, faults.RUN_FOREVER, kernel_id)
    await running.printed()
    ended = await outcomes(
        kernels.restart(kernel_id),
        kernels.interrupt(kernel_id),
        kernels.restart(kernel_id),
        kernels.interrupt(kernel_id),
    )
    assert ended == {"ok": 4}
    assert (await running.outcome()).status in {"kernel_restarted", "interrupted"}
    ended = await outcomes(
        kernels.restart(kernel_id),
        kernels.shutdown(kernel_id),
        kernels.restart(kernel_id),
        kernels.interrupt(kernel_id),
        kernels.shutdown(kernel_id),
    )
    assert ended == {"ok": 3, "kernel_not_found": 2}
    assert kernel_id not in kernels.ids()


@pytest.mark.proves("kernel:tools")
async def test_a_restart_that_nobody_waits_for_any_more_is_carried_through(
    kernels: KernelService, bench: ExecutorBench, harmed: Start
) -> None:
    kernel_id = await harmed()
    await run(bench, "1", kernel_id)
    async with kernel_events(bench) as events:
        restart = asyncio.create_task(kernels.restart(kernel_id))
        await asyncio.sleep(0.05)
        restart.cancel()
        await asyncio.wait({restart})
        await happens(events, "restarted", kernel_id=kernel_id)
    assert restart.cancelled()
    assert (await run(bench, "1", kernel_id)).execution.execution_count == 1
    assert await outcomes(kernels.shutdown(kernel_id)) == {"ok": 1}


@pytest.mark.proves("kernel:tools", "kernel:shared-live", "exec:statuses")
async def test_we_wait_for_a_persons_restart_that_is_under_way(
    server: Server, kernels: KernelService, bench: ExecutorBench, harmed: Start
) -> None:
    kernel_id = await harmed()
    await run(bench, "kept = 1", kernel_id)
    async with kernel_events(bench) as events:
        person = asyncio.create_task(server.request("POST", f"api/kernels/{kernel_id}/restart"))
        await happens(events, "restarted", kernel_id=kernel_id)
        ended = await outcomes(kernels.interrupt(kernel_id), kernels.restart(kernel_id))
        await person
    assert ended == {"ok": 2}
    outcome = await run(bench, "kept", kernel_id)
    assert outcome.status == "error", "its variables are gone"
    assert await outcomes(kernels.shutdown(kernel_id)) == {"ok": 1}
    with pytest.raises(KernelNotFound):
        await run(bench, "1", kernel_id)
